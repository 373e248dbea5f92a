package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;

/** Caches: the newer one on persistent watches, the older ones on one-time watches. */
@SuppressWarnings("deprecation")
final class CacheChecks {
    static final List<Check> ALL = List.of(
            new Check("curator cache", CacheChecks::curatorCache),
            new Check("node cache", CacheChecks::nodeCache),
            new Check("tree cache", CacheChecks::treeCache),
            new Check("path children cache", CacheChecks::childrenCache));

    private CacheChecks() {}

    private static void curatorCache(World world) throws Exception {
        CuratorFramework writer = world.client();
        String path = world.path("cached");
        writer.create().creatingParentsIfNeeded().forPath(path + "/a", "1".getBytes());
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        CountDownLatch initialized = new CountDownLatch(1);
        try (CuratorCache cache = CuratorCache.build(world.client(), path)) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .afterInitialized()
                    .forCreates(node -> events.add("created " + node.getPath().substring(path.length())))
                    .forChanges((before, after) -> events.add("changed " + new String(after.getData())))
                    .forDeletes(node -> events.add("deleted " + node.getPath().substring(path.length())))
                    .build());
            cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(initialized::countDown).build());
            cache.start();
            reached(initialized, "the cache is filled");
            equal("1", new String(cache.get(path + "/a").orElseThrow().getData()), "data");
            writer.create().forPath(path + "/a/b", "2".getBytes());
            equal("created /a/b", events.poll(World.WAIT_SECONDS, TimeUnit.SECONDS), "event");
            writer.setData().forPath(path + "/a/b", "3".getBytes());
            equal("changed 3", events.poll(World.WAIT_SECONDS, TimeUnit.SECONDS), "event");
            writer.delete().forPath(path + "/a/b");
            equal("deleted /a/b", events.poll(World.WAIT_SECONDS, TimeUnit.SECONDS), "event");
            equal(2, cache.size(), "size");
        }
    }

    private static void nodeCache(World world) throws Exception {
        CuratorFramework writer = world.client();
        String path = world.path("node");
        writer.create().creatingParentsIfNeeded().forPath(path, "1".getBytes());
        try (NodeCache cache = new NodeCache(world.client(), path)) {
            cache.start(true);
            equal("1", new String(cache.getCurrentData().getData()), "data");
            writer.setData().forPath(path, "2".getBytes());
            eventually(() -> "2".equals(new String(cache.getCurrentData().getData())), "new data");
            writer.delete().forPath(path);
            eventually(() -> cache.getCurrentData() == null, "no data");
            writer.create().forPath(path, "3".getBytes());
            eventually(() -> cache.getCurrentData() != null, "data again");
        }
    }

    private static void treeCache(World world) throws Exception {
        CuratorFramework writer = world.client();
        String path = world.path("tree");
        writer.create().creatingParentsIfNeeded().forPath(path + "/a/b", "1".getBytes());
        try (TreeCache cache = new TreeCache(world.client(), path)) {
            cache.start();
            eventually(() -> cache.getCurrentData(path + "/a/b") != null, "the cache is filled");
            writer.create().forPath(path + "/a/c", "2".getBytes());
            eventually(() -> cache.getCurrentChildren(path + "/a").size() == 2, "a new node");
            writer.delete().deletingChildrenIfNeeded().forPath(path + "/a");
            eventually(() -> cache.getCurrentData(path + "/a") == null, "a deleted branch");
        }
    }

    private static void childrenCache(World world) throws Exception {
        CuratorFramework writer = world.client();
        String path = world.path("children");
        writer.create().creatingParentsIfNeeded().forPath(path + "/a", "1".getBytes());
        try (PathChildrenCache cache = new PathChildrenCache(world.client(), path, true)) {
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            equal(1, cache.getCurrentData().size(), "children");
            writer.create().forPath(path + "/b", "2".getBytes());
            eventually(() -> cache.getCurrentData().size() == 2, "a new child");
            writer.setData().forPath(path + "/b", "3".getBytes());
            eventually(() -> "3".equals(new String(cache.getCurrentData(path + "/b").getData())), "new data");
            writer.delete().forPath(path + "/a");
            eventually(() -> cache.getCurrentData().size() == 1, "a deleted child");
            isTrue(cache.getCurrentData(path + "/a") == null, "the right one");
        }
    }
}
