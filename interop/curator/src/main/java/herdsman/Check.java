package herdsman;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** A named check; it gets clients and a place in the tree from its {@link World} and throws when it fails. */
record Check(String name, Body body) {
    private static final int SECONDS_MAX = 60;

    interface Body {
        void run(World world) throws Exception;
    }

    /** Runs the check and prints how it went. */
    boolean passes(String connectString) {
        long start = System.nanoTime();
        ExecutorService thread = Executors.newSingleThreadExecutor(Check::daemon);
        try (World world = new World(connectString, "/curator/" + name.replace(' ', '-'))) {
            Future<?> run = thread.submit(() -> {
                body.run(world);
                return null;
            });
            run.get(SECONDS_MAX, TimeUnit.SECONDS);
            long millis = (System.nanoTime() - start) / 1_000_000;
            System.out.println("ok      " + name + " (" + millis + " ms)");
            return true;
        } catch (ExecutionException failure) {
            System.out.println("FAILED  " + name);
            failure.getCause().printStackTrace(System.out);
            return false;
        } catch (Exception failure) {
            System.out.println("FAILED  " + name);
            failure.printStackTrace(System.out);
            return false;
        } finally {
            thread.shutdownNow();
        }
    }

    static Thread daemon(Runnable body) {
        Thread thread = new Thread(body);
        thread.setDaemon(true);
        return thread;
    }
}
