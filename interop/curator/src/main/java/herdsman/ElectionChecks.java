package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Elections. */
final class ElectionChecks {
    static final List<Check> ALL = List.of(
            new Check("leader latch", ElectionChecks::latch),
            new Check("leader latch of a closed session", ElectionChecks::latchOfClosedSession),
            new Check("leader selector", ElectionChecks::selector));

    private ElectionChecks() {}

    private static void latch(World world) throws Exception {
        String path = world.path("latch");
        LeaderLatch one = new LeaderLatch(world.client(), path, "one");
        LeaderLatch two = new LeaderLatch(world.client(), path, "two");
        one.start();
        isTrue(one.await(10, TimeUnit.SECONDS), "the first leads");
        two.start();
        eventually(() -> two.getParticipants().size() == 2, "two participants");
        isTrue(!two.await(200, TimeUnit.MILLISECONDS), "the second does not lead");
        equal("one", two.getLeader().getId(), "leader");
        one.close();
        isTrue(two.await(10, TimeUnit.SECONDS), "the second leads when the first leaves");
        equal("two", two.getLeader().getId(), "leader");
        two.close();
    }

    private static void latchOfClosedSession(World world) throws Exception {
        String path = world.path("latch");
        CuratorFramework client = world.client();
        LeaderLatch one = new LeaderLatch(client, path, "one");
        LeaderLatch two = new LeaderLatch(world.client(), path, "two");
        one.start();
        isTrue(one.await(10, TimeUnit.SECONDS), "the first leads");
        two.start();
        client.close();
        isTrue(two.await(10, TimeUnit.SECONDS), "the second leads when the first's session ends");
        two.close();
    }

    private static void selector(World world) throws Exception {
        String path = world.path("selector");
        AtomicInteger leaders = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<String> order = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch led = new CountDownLatch(4);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (String name : List.of("one", "two")) {
            LeaderSelector selector = new LeaderSelector(world.client(), path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    most.accumulateAndGet(leaders.incrementAndGet(), Math::max);
                    order.add(name);
                    leaders.decrementAndGet();
                    led.countDown();
                }
            });
            selector.setId(name);
            selector.autoRequeue();
            selectors.add(selector);
        }
        selectors.forEach(LeaderSelector::start);
        reached(led, "four terms");
        selectors.forEach(LeaderSelector::close);
        equal(1, most.get(), "leaders at a time");
        isTrue(order.contains("one") && order.contains("two"), "both have led: " + order);
    }
}
