package herdsman;

import static herdsman.World.isTrue;
import static herdsman.World.result;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers. */
final class BarrierChecks {
    static final List<Check> ALL = List.of(
            new Check("barrier", BarrierChecks::barrier),
            new Check("double barrier", BarrierChecks::doubleBarrier));

    private BarrierChecks() {}

    private static void barrier(World world) throws Exception {
        String path = world.path("barrier");
        DistributedBarrier owner = new DistributedBarrier(world.client(), path);
        DistributedBarrier visitor = new DistributedBarrier(world.client(), path);
        owner.setBarrier();
        isTrue(!visitor.waitOnBarrier(200, TimeUnit.MILLISECONDS), "the barrier holds");
        Future<Boolean> waiting = world.beside(() -> visitor.waitOnBarrier(10, TimeUnit.SECONDS));
        owner.removeBarrier();
        isTrue(result(waiting), "the barrier opens");
    }

    private static void doubleBarrier(World world) throws Exception {
        String path = world.path("barrier");
        int members = 3;
        List<Future<Boolean>> inside = new ArrayList<>();
        List<DistributedDoubleBarrier> barriers = new ArrayList<>();
        for (int member = 0; member < members; member++) {
            CuratorFramework client = world.client();
            barriers.add(new DistributedDoubleBarrier(client, path, members));
        }
        DistributedDoubleBarrier alone = new DistributedDoubleBarrier(world.client(), world.path("alone"), members);
        isTrue(!alone.enter(200, TimeUnit.MILLISECONDS), "one does not enter alone");
        for (DistributedDoubleBarrier barrier : barriers) {
            inside.add(world.beside(() -> barrier.enter(10, TimeUnit.SECONDS) && barrier.leave(10, TimeUnit.SECONDS)));
        }
        for (Future<Boolean> member : inside) {
            isTrue(result(member), "enters and leaves together with the others");
        }
    }
}
