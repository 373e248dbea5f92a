package herdsman.recipes;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** The one session that all recipes of this process work in, and the longest time anything may wait. */
final class Peer implements AutoCloseable {
    private static final int SESSION_TIMEOUT_MS = 10_000;
    private static final int LOOK_AGAIN_MS = 20;

    final String connectString;
    final long limitMs;
    final CuratorFramework client;
    private final Deque<AutoCloseable> closeAtTheEnd = new ArrayDeque<>();

    Peer(String connectString, long limitMs) throws Exception {
        this.connectString = connectString;
        this.limitMs = limitMs;
        client = CuratorFrameworkFactory.builder()
                .connectString(connectString)
                .sessionTimeoutMs(SESSION_TIMEOUT_MS)
                .connectionTimeoutMs(SESSION_TIMEOUT_MS)
                .retryPolicy(new ExponentialBackoffRetry(100, 5))
                .build();
        client.start();
        within(client.blockUntilConnected((int) limitMs, TimeUnit.MILLISECONDS), "connecting");
    }

    /** A recipe that waits tells by a bool whether it got what it waited for; if it did not, the command fails. */
    void within(boolean reached, String what) throws TimeoutException {
        if (!reached) {
            throw new TimeoutException(what + " took longer than " + limitMs + " ms");
        }
    }

    /** Waits for a state that Curator gives no sign of. */
    void eventually(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
        while (!condition.call()) {
            within(System.nanoTime() < deadline, what);
            Thread.sleep(LOOK_AGAIN_MS);
        }
    }

    void closeAtTheEnd(AutoCloseable handles) {
        closeAtTheEnd.push(handles);
    }

    @Override
    public void close() {
        for (AutoCloseable handles : closeAtTheEnd) {
            try {
                handles.close();
            } catch (Exception failed) {
                System.err.println("while closing: " + failed);
            }
        }
        client.close();
    }
}
