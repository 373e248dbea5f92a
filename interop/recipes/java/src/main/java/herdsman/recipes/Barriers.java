package herdsman.recipes;

import static java.util.Map.entry;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers and double barriers. */
final class Barriers {
    private final Peer peer;
    private final Handles<DistributedDoubleBarrier> entered;

    Barriers(Peer peer) {
        this.peer = peer;
        entered = new Handles<>(peer, barrier -> {});
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("barrier set", this::set),
                entry("barrier remove", this::remove),
                entry("barrier wait", this::waitOn),
                entry("double-barrier enter", this::enter),
                entry("double-barrier leave", this::leave));
    }

    /** Curator's methods are synchronised: with one object for all commands a wait would keep the removal out. */
    private DistributedBarrier barrier(Command command) {
        return new DistributedBarrier(peer.client, command.path());
    }

    private List<?> set(Command command) throws Exception {
        barrier(command).setBarrier();
        return Verb.DONE;
    }

    private List<?> remove(Command command) throws Exception {
        barrier(command).removeBarrier();
        return Verb.DONE;
    }

    private List<?> waitOn(Command command) throws Exception {
        peer.within(barrier(command).waitOnBarrier(peer.limitMs, TimeUnit.MILLISECONDS), "the barrier's removal");
        return Verb.DONE;
    }

    private List<?> enter(Command command) throws Exception {
        int members = command.integer(0);
        DistributedDoubleBarrier barrier =
                entered.add(command, new DistributedDoubleBarrier(peer.client, command.path(), members));
        peer.within(barrier.enter(peer.limitMs, TimeUnit.MILLISECONDS), "entering");
        return Verb.DONE;
    }

    /** Each round is a new member: the object, which keeps its node's name, is dropped once it has left. */
    private List<?> leave(Command command) throws Exception {
        peer.within(entered.get(command).leave(peer.limitMs, TimeUnit.MILLISECONDS), "leaving");
        entered.end(command);
        return Verb.DONE;
    }
}
