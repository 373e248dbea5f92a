package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/** Nodes that recipes keep alive. */
final class NodeChecks {
    static final List<Check> ALL = List.of(
            new Check("persistent node", NodeChecks::persistentNode),
            new Check("persistent ttl node", NodeChecks::ttlNode),
            new Check("group member", NodeChecks::groupMember));

    private NodeChecks() {}

    private static void persistentNode(World world) throws Exception {
        CuratorFramework client = world.client();
        CuratorFramework other = world.client();
        String path = world.path("node");
        try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, "here".getBytes())) {
            node.start();
            isTrue(node.waitForInitialCreate(10, TimeUnit.SECONDS), "the node is made");
            equal("here", new String(other.getData().forPath(path)), "data");
            long first = other.checkExists().forPath(path).getCzxid();
            other.delete().forPath(path);
            eventually(() -> other.checkExists().forPath(path) != null, "a deleted node comes back");
            isTrue(other.checkExists().forPath(path).getCzxid() > first, "as a new node");
            node.setData("changed".getBytes());
            eventually(() -> "changed".equals(new String(other.getData().forPath(path))), "data changes");
        }
        eventually(() -> other.checkExists().forPath(path) == null, "the node goes when closed");
    }

    private static void ttlNode(World world) throws Exception {
        CuratorFramework other = world.client();
        String path = world.path("node");
        try (PersistentTtlNode node = new PersistentTtlNode(world.client(), path, 2_000, "t".getBytes())) {
            node.start();
            isTrue(node.waitForInitialCreate(10, TimeUnit.SECONDS), "the node is made");
            equal("t", new String(other.getData().forPath(path)), "data");
            CountDownLatch touched = new CountDownLatch(1);
            eventually(() -> other.checkExists().forPath(path + "/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME) != null,
                    "the child that keeps it alive");
            other.getData().usingWatcher((org.apache.curator.framework.api.CuratorWatcher) event -> touched.countDown())
                    .forPath(path + "/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME);
            reached(touched, "the child is touched");
        }
    }

    private static void groupMember(World world) throws Exception {
        String path = world.path("group");
        try (GroupMember one = new GroupMember(world.client(), path, "one", "1".getBytes());
                GroupMember two = new GroupMember(world.client(), path, "two", "2".getBytes())) {
            one.start();
            two.start();
            eventually(() -> one.getCurrentMembers().keySet().equals(java.util.Set.of("one", "two")), "both are members");
            two.setThisData("3".getBytes());
            eventually(() -> "3".equals(new String(one.getCurrentMembers().get("two"))), "the member's new data");
            two.close();
            eventually(() -> one.getCurrentMembers().size() == 1, "one has left");
        }
    }
}
