package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.fails;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The framework itself: what every recipe is made of. */
final class PlainChecks {
    static final List<Check> ALL = List.of(
            new Check("create get set delete", PlainChecks::basics),
            new Check("create modes", PlainChecks::modes),
            new Check("container parents", PlainChecks::containers),
            new Check("ttl create", PlainChecks::ttl),
            new Check("protected create", PlainChecks::protectedCreate),
            new Check("idempotent create set delete", PlainChecks::idempotent),
            new Check("transaction", PlainChecks::transaction),
            new Check("failed transaction", PlainChecks::failedTransaction),
            new Check("acl and auth", PlainChecks::acl),
            new Check("background calls in order", PlainChecks::background),
            new Check("sync", PlainChecks::sync),
            new Check("delete children", PlainChecks::deleteChildren),
            new Check("namespace", PlainChecks::namespace));

    private PlainChecks() {}

    private static void basics(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("node");
        Stat created = new Stat();
        client.create().storingStatIn(created).creatingParentsIfNeeded().forPath(path, "one".getBytes());
        equal(3, created.getDataLength(), "data length");
        Stat changed = client.setData().withVersion(0).forPath(path, "two".getBytes());
        equal(1, changed.getVersion(), "version");
        equal(created.getCzxid(), changed.getCzxid(), "czxid");
        equal("two", new String(client.getData().forPath(path)), "data");
        fails(KeeperException.BadVersionException.class, () -> client.setData().withVersion(0).forPath(path));
        fails(KeeperException.NodeExistsException.class, () -> client.create().forPath(path));
        client.delete().withVersion(1).forPath(path);
        equal(null, client.checkExists().forPath(path), "a deleted node's stat");
        fails(KeeperException.NoNodeException.class, () -> client.getData().forPath(path));
    }

    private static void modes(World world) throws Exception {
        CuratorFramework client = world.client();
        CuratorFramework other = world.client();
        String parent = world.path("modes");
        client.create().creatingParentsIfNeeded().forPath(parent);
        String first = client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(parent + "/n-");
        String second = client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(parent + "/n-");
        equal(parent + "/n-0000000000", first, "first number");
        equal(parent + "/n-0000000001", second, "second number");
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        equal(session, other.checkExists().forPath(second).getEphemeralOwner(), "owner");
        fails(KeeperException.NoChildrenForEphemeralsException.class,
                () -> other.create().forPath(second + "/child"));
        client.close();
        eventually(() -> other.checkExists().forPath(second) == null, "the ephemeral node goes with its session");
        isTrue(other.checkExists().forPath(first) != null, "the persistent node stays");
    }

    private static void containers(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("box/child");
        client.create().creatingParentContainersIfNeeded().forPath(path);
        equal(0L, client.checkExists().forPath(world.path("box")).getEphemeralOwner(), "a container's owner");
        String direct = world.path("direct");
        Stat stat = new Stat();
        client.create().storingStatIn(stat).withMode(CreateMode.CONTAINER).forPath(direct, "c".getBytes());
        equal(0L, stat.getEphemeralOwner(), "owner in the create's own stat");
    }

    private static void ttl(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("ttl");
        client.create().withTtl(60_000).creatingParentsIfNeeded()
                .withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(path, "t".getBytes());
        equal(0L, client.checkExists().forPath(path).getEphemeralOwner(), "a TTL node's owner");
        String numbered = client.create().withTtl(60_000)
                .withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath(path + "-");
        equal(path + "-0000000001", numbered, "numbered TTL node");
    }

    private static void protectedCreate(World world) throws Exception {
        CuratorFramework client = world.client();
        String made = client.create().creatingParentsIfNeeded().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(world.path("p-"));
        isTrue(made.matches(".*/_c_[0-9a-f-]{36}-p-0000000000"), "protected name " + made);
    }

    private static void idempotent(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("again");
        client.create().creatingParentsIfNeeded().forPath(path, "a".getBytes());
        client.create().orSetData().forPath(path, "b".getBytes());
        equal("b", new String(client.getData().forPath(path)), "data after create or set");
        client.delete().quietly().forPath(path);
        client.delete().quietly().forPath(path);
    }

    private static void transaction(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("tx");
        client.create().creatingParentsIfNeeded().forPath(path);
        List<CuratorTransactionResult> results = client.transaction().forOperations(
                client.transactionOp().create().forPath(path + "/a", "1".getBytes()),
                client.transactionOp().setData().withVersion(0).forPath(path + "/a", "2".getBytes()),
                client.transactionOp().check().withVersion(1).forPath(path + "/a"),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(path + "/s-"),
                client.transactionOp().delete().forPath(path + "/a"));
        equal(5, results.size(), "results");
        equal(OperationType.CREATE, results.get(0).getType(), "first result");
        equal(1, results.get(1).getResultStat().getVersion(), "version in the second result");
        equal(path + "/s-0000000001", results.get(3).getResultPath(), "path in the fourth result");
        equal(List.of("s-0000000001"), client.getChildren().forPath(path), "children");
    }

    private static void failedTransaction(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("tx");
        client.create().creatingParentsIfNeeded().forPath(path);
        KeeperException failure = fails(KeeperException.BadVersionException.class,
                () -> client.transaction().forOperations(
                        client.transactionOp().create().forPath(path + "/a"),
                        client.transactionOp().setData().withVersion(9).forPath(path),
                        client.transactionOp().delete().forPath(path)));
        List<org.apache.zookeeper.OpResult> results = failure.getResults();
        int[] codes = results.stream()
                .mapToInt(result -> ((org.apache.zookeeper.OpResult.ErrorResult) result).getErr()).toArray();
        equal(List.of(0, -103, -2), java.util.Arrays.stream(codes).boxed().toList(), "codes");
        equal(List.of(), client.getChildren().forPath(path), "children");
    }

    private static void acl(World world) throws Exception {
        CuratorFramework client = world.client();
        CuratorFramework stranger = world.client();
        String path = world.path("secret");
        client.getZookeeperClient().getZooKeeper().addAuthInfo("digest", "ann:pw".getBytes());
        client.create().creatingParentsIfNeeded().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(path, "s".getBytes());
        fails(KeeperException.NoAuthException.class, () -> stranger.getData().forPath(path));
        equal("s", new String(client.getData().forPath(path)), "data for its owner");
        List<ACL> acl = client.getACL().forPath(path);
        equal("digest", acl.get(0).getId().getScheme(), "scheme");
        client.setACL().withVersion(0).withACL(ZooDefs.Ids.READ_ACL_UNSAFE).forPath(path);
        equal("s", new String(stranger.getData().forPath(path)), "data for everybody");
        fails(KeeperException.NoAuthException.class, () -> stranger.setData().forPath(path));
        fails(KeeperException.InvalidACLException.class,
                () -> stranger.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(world.path("nobody")));
    }

    private static void background(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("bg");
        client.create().creatingParentsIfNeeded().forPath(path);
        int count = 200;
        CountDownLatch done = new CountDownLatch(count);
        AtomicReference<String> fault = new AtomicReference<>();
        for (int number = 0; number < count; number++) {
            int expected = number + 1;
            client.setData().inBackground((ignored, event) -> {
                if (event.getResultCode() != 0 || event.getStat().getVersion() != expected) {
                    fault.compareAndSet(null, event + " where version " + expected + " was due");
                }
                done.countDown();
            }).forPath(path, Integer.toString(number).getBytes());
        }
        reached(done, "all callbacks");
        equal(null, fault.get(), "callbacks");
        equal("199", new String(client.getData().forPath(path)), "data");
    }

    private static void sync(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("sync");
        client.create().creatingParentsIfNeeded().forPath(path);
        CountDownLatch done = new CountDownLatch(1);
        client.sync().inBackground((ignored, event) -> {
            if (event.getResultCode() == 0 && path.equals(event.getPath())) {
                done.countDown();
            }
        }).forPath(path);
        reached(done, "the sync's callback");
    }

    private static void deleteChildren(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("deep");
        client.create().creatingParentsIfNeeded().forPath(path + "/a/b/c");
        client.create().creatingParentsIfNeeded().forPath(path + "/a/d");
        fails(KeeperException.NotEmptyException.class, () -> client.delete().forPath(path));
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath(path);
        equal(null, client.checkExists().forPath(path), "stat");
    }

    private static void namespace(World world) throws Exception {
        CuratorFramework client = world.client();
        CuratorFramework inside = client.usingNamespace("curator/namespaced");
        inside.create().creatingParentsIfNeeded().forPath("/x", "n".getBytes());
        equal("n", new String(client.getData().forPath("/curator/namespaced/x")), "data");
    }
}
