package herdsman.recipes;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Curator's mutexes belong to the thread that acquired them: a handle's commands all run on the handle's thread. */
final class OwnThread<T> {
    interface Use<T, R> {
        R use(T owned) throws Exception;
    }

    private final T owned;
    private final ExecutorService thread = Executors.newSingleThreadExecutor(Contender::daemon);

    OwnThread(T owned) {
        this.owned = owned;
    }

    <R> R on(Use<T, R> use) throws Exception {
        Callable<R> call = () -> use.use(owned);
        try {
            return thread.submit(call).get();
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
    }

    /** What may be used from any thread. */
    T owned() {
        return owned;
    }

    void end() {
        thread.shutdownNow();
    }
}
