package herdsman;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** What a check works with: clients that are closed behind it, a place of its own in the tree, and assertions. */
final class World implements AutoCloseable {
    static final int WAIT_SECONDS = 15;

    private final String connectString;
    private final String base;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(Check::daemon);

    World(String connectString, String base) {
        this.connectString = connectString;
        this.base = base;
    }

    /** A new session. */
    CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(10_000)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 3))
                .build();
        client.start();
        clients.add(client);
        isTrue(client.blockUntilConnected(WAIT_SECONDS, TimeUnit.SECONDS), "a client connects");
        return client;
    }

    /** A path below this check's own node. */
    String path(String name) {
        return base + "/" + name;
    }

    /** Runs something beside the check. */
    <T> Future<T> beside(Callable<T> body) {
        return threads.submit(body);
    }

    static <T> T result(Future<T> future) throws Exception {
        return future.get(WAIT_SECONDS, TimeUnit.SECONDS);
    }

    static void isTrue(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError("not so: " + what);
        }
    }

    static void equal(Object expected, Object actual, String what) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected <" + expected + ">, got <" + actual + ">");
        }
    }

    static void reached(CountDownLatch latch, String what) throws InterruptedException {
        isTrue(latch.await(WAIT_SECONDS, TimeUnit.SECONDS), what);
    }

    /** Waits until the condition holds; recipes give no other sign for some of their states. */
    static void eventually(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("never: " + what);
            }
            Thread.sleep(20);
        }
    }

    /** The body must throw this. */
    static <E extends Exception> E fails(Class<E> with, Callable<?> body) throws Exception {
        try {
            body.call();
        } catch (Exception thrown) {
            if (with.isInstance(thrown)) {
                return with.cast(thrown);
            }
            throw thrown;
        }
        throw new AssertionError("expected " + with.getSimpleName());
    }

    @Override
    public void close() {
        threads.shutdownNow();
        clients.forEach(CuratorFramework::close);
    }
}
