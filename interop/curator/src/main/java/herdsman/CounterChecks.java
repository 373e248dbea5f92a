package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Shared and atomic numbers. */
final class CounterChecks {
    static final List<Check> ALL = List.of(
            new Check("shared count", CounterChecks::sharedCount),
            new Check("atomic long", CounterChecks::atomicLong),
            new Check("atomic long under contention", CounterChecks::contention),
            new Check("cached atomic long", CounterChecks::cached));

    private CounterChecks() {}

    private static void sharedCount(World world) throws Exception {
        String path = world.path("count");
        try (SharedCount one = new SharedCount(world.client(), path, 7);
                SharedCount two = new SharedCount(world.client(), path, 0)) {
            one.start();
            two.start();
            equal(7, two.getCount(), "count at the second, seeded by the first");
            CountDownLatch told = new CountDownLatch(1);
            two.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int value) {
                    told.countDown();
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            VersionedValue<Integer> before = two.getVersionedValue();
            one.setCount(8);
            reached(told, "the second is told");
            eventually(() -> two.getCount() == 8, "count at the second");
            isTrue(!two.trySetCount(before, 9), "a set from an old version is refused");
            isTrue(two.trySetCount(two.getVersionedValue(), 9), "a set from the current version is not");
        }
    }

    private static void atomicLong(World world) throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(world.client(), world.path("n"), new RetryNTimes(3, 10));
        isTrue(number.initialize(40L), "initialized");
        isTrue(!number.initialize(41L), "not twice");
        AtomicValue<Long> sum = number.add(2L);
        isTrue(sum.succeeded(), "added");
        equal(40L, sum.preValue(), "before");
        equal(42L, sum.postValue(), "after");
        isTrue(!number.compareAndSet(40L, 1L).succeeded(), "compare and set from an old value");
        isTrue(number.compareAndSet(42L, 1L).succeeded(), "compare and set from the current value");
        equal(1L, number.get().postValue(), "value");
    }

    private static void contention(World world) throws Exception {
        String path = world.path("n");
        List<Future<Integer>> workers = new ArrayList<>();
        for (int worker = 0; worker < 3; worker++) {
            DistributedAtomicLong number = new DistributedAtomicLong(world.client(), path, new RetryNTimes(500, 2));
            workers.add(world.beside(() -> {
                int done = 0;
                for (int round = 0; round < 20; round++) {
                    done += number.increment().succeeded() ? 1 : 0;
                }
                return done;
            }));
        }
        long done = 0;
        for (Future<Integer> worker : workers) {
            done += worker.get(50, TimeUnit.SECONDS);
        }
        DistributedAtomicLong number = new DistributedAtomicLong(world.client(), path, new RetryNTimes(3, 10));
        equal(done, number.get().postValue(), "sum of the increments that succeeded");
        isTrue(done > 0, "some increments succeeded");
    }

    private static void cached(World world) throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(world.client(), world.path("n"), new RetryNTimes(3, 10));
        CachedAtomicLong cached = new CachedAtomicLong(number, 10);
        for (long expected = 1; expected <= 25; expected++) {
            equal(expected, cached.next().postValue(), "next");
        }
        equal(30L, number.get().postValue(), "reserved");
    }
}
