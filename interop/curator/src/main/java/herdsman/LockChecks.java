package herdsman;

import static herdsman.World.equal;
import static herdsman.World.isTrue;
import static herdsman.World.result;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Locks and semaphores. */
final class LockChecks {
    static final List<Check> ALL = List.of(
            new Check("mutex", LockChecks::mutex),
            new Check("mutex under contention", LockChecks::contention),
            new Check("mutex of a closed session", LockChecks::closedSession),
            new Check("semaphore mutex", LockChecks::semaphoreMutex),
            new Check("read-write lock", LockChecks::readWrite),
            new Check("semaphore", LockChecks::semaphore),
            new Check("multi lock", LockChecks::multi));

    private LockChecks() {}

    private static void mutex(World world) throws Exception {
        String path = world.path("lock");
        InterProcessMutex one = new InterProcessMutex(world.client(), path);
        InterProcessMutex two = new InterProcessMutex(world.client(), path);
        isTrue(one.acquire(5, TimeUnit.SECONDS), "the first gets the lock");
        isTrue(one.acquire(5, TimeUnit.SECONDS), "and again, it is reentrant");
        isTrue(!two.acquire(200, TimeUnit.MILLISECONDS), "the second does not");
        one.release();
        isTrue(!two.acquire(200, TimeUnit.MILLISECONDS), "nor after one of two releases");
        Future<Boolean> waiting = world.beside(() -> two.acquire(10, TimeUnit.SECONDS));
        one.release();
        isTrue(result(waiting), "after the last release it does");
        equal(1, two.getParticipantNodes().size(), "participants");
    }

    private static void contention(World world) throws Exception {
        String path = world.path("lock");
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<Future<Integer>> workers = new ArrayList<>();
        for (int worker = 0; worker < 5; worker++) {
            CuratorFramework client = world.client();
            workers.add(world.beside(() -> {
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                for (int round = 0; round < 10; round++) {
                    mutex.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    Thread.yield();
                    inside.decrementAndGet();
                    mutex.release();
                }
                return 10;
            }));
        }
        int rounds = 0;
        for (Future<Integer> worker : workers) {
            rounds += worker.get(50, TimeUnit.SECONDS);
        }
        equal(50, rounds, "rounds");
        equal(1, most.get(), "holders at a time");
    }

    private static void closedSession(World world) throws Exception {
        String path = world.path("lock");
        CuratorFramework client = world.client();
        new InterProcessMutex(client, path).acquire();
        InterProcessMutex two = new InterProcessMutex(world.client(), path);
        Future<Boolean> waiting = world.beside(() -> two.acquire(10, TimeUnit.SECONDS));
        client.close();
        isTrue(result(waiting), "the lock of a closed session is free");
    }

    private static void semaphoreMutex(World world) throws Exception {
        String path = world.path("lock");
        InterProcessSemaphoreMutex one = new InterProcessSemaphoreMutex(world.client(), path);
        InterProcessSemaphoreMutex two = new InterProcessSemaphoreMutex(world.client(), path);
        isTrue(one.acquire(5, TimeUnit.SECONDS), "the first gets the lock");
        isTrue(!one.acquire(200, TimeUnit.MILLISECONDS), "not twice, it is not reentrant");
        isTrue(!two.acquire(200, TimeUnit.MILLISECONDS), "the second does not");
        one.release();
        isTrue(two.acquire(5, TimeUnit.SECONDS), "after the release it does");
    }

    private static void readWrite(World world) throws Exception {
        String path = world.path("lock");
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(world.client(), path);
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(world.client(), path);
        isTrue(one.readLock().acquire(5, TimeUnit.SECONDS), "a reader");
        isTrue(two.readLock().acquire(5, TimeUnit.SECONDS), "another reader");
        two.readLock().release();
        isTrue(!two.writeLock().acquire(200, TimeUnit.MILLISECONDS), "no writer beside a reader");
        one.readLock().release();
        isTrue(two.writeLock().acquire(5, TimeUnit.SECONDS), "a writer");
        isTrue(!one.readLock().acquire(200, TimeUnit.MILLISECONDS), "no reader beside a writer");
        isTrue(two.readLock().acquire(5, TimeUnit.SECONDS), "the writer may read");
        two.readLock().release();
        two.writeLock().release();
        isTrue(one.readLock().acquire(5, TimeUnit.SECONDS), "a reader after the writer");
    }

    private static void semaphore(World world) throws Exception {
        String path = world.path("semaphore");
        InterProcessSemaphoreV2 one = new InterProcessSemaphoreV2(world.client(), path, 2);
        InterProcessSemaphoreV2 two = new InterProcessSemaphoreV2(world.client(), path, 2);
        Lease first = one.acquire(5, TimeUnit.SECONDS);
        Lease second = two.acquire(5, TimeUnit.SECONDS);
        isTrue(first != null && second != null, "two leases");
        equal(null, one.acquire(200, TimeUnit.MILLISECONDS), "a third lease");
        equal(2, one.getParticipantNodes().size(), "participants");
        two.returnLease(second);
        Lease third = one.acquire(5, TimeUnit.SECONDS);
        isTrue(third != null, "a lease after one was returned");
        one.returnAll(List.of(first, third));
    }

    private static void multi(World world) throws Exception {
        List<String> paths = List.of(world.path("a"), world.path("b"));
        InterProcessMutex single = new InterProcessMutex(world.client(), paths.get(1));
        InterProcessMultiLock both = new InterProcessMultiLock(world.client(), paths);
        single.acquire();
        isTrue(!both.acquire(200, TimeUnit.MILLISECONDS), "not while one of them is held");
        single.release();
        isTrue(both.acquire(5, TimeUnit.SECONDS), "both");
        both.release();
    }
}
