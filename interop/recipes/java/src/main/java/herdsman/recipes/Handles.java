package herdsman.recipes;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The objects of one recipe that outlive a command, by path and name. */
final class Handles<T> {
    interface Make<T> {
        T make() throws Exception;
    }

    interface End<T> {
        void end(T handle) throws Exception;
    }

    private final Map<String, T> byKey = new ConcurrentHashMap<>();
    private final End<T> end;

    Handles(Peer peer, End<T> end) {
        this.end = end;
        peer.closeAtTheEnd(this::endAll);
    }

    /** The handle with this key, made now if there is none. */
    synchronized T orMake(Command command, Make<T> make) throws Exception {
        T known = byKey.get(command.key());
        return known == null ? add(command, make.make()) : known;
    }

    /** Keeps a new handle; two with the same key would hide each other. */
    synchronized T add(Command command, T handle) {
        if (byKey.putIfAbsent(command.key(), handle) != null) {
            throw new IllegalStateException("already open: " + command.key());
        }
        return handle;
    }

    T get(Command command) {
        T handle = byKey.get(command.key());
        if (handle == null) {
            throw new IllegalStateException("not open: " + command.recipe() + " " + command.key());
        }
        return handle;
    }

    void end(Command command) throws Exception {
        T handle = get(command);
        byKey.remove(command.key());
        end.end(handle);
    }

    private void endAll() throws Exception {
        for (T handle : byKey.values()) {
            end.end(handle);
        }
        byKey.clear();
    }
}
