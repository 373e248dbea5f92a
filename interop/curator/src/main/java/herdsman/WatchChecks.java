package herdsman;

import static herdsman.World.equal;
import static herdsman.World.isTrue;
import static herdsman.World.reached;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;

/** One-time and persistent watches. */
final class WatchChecks {
    static final List<Check> ALL = List.of(
            new Check("one-time watches", WatchChecks::oneTime),
            new Check("persistent watch", WatchChecks::persistent),
            new Check("persistent recursive watch", WatchChecks::recursive),
            new Check("remove watches", WatchChecks::remove),
            new Check("persistent watcher recipe", WatchChecks::recipe));

    private WatchChecks() {}

    private static String next(BlockingQueue<WatchedEvent> events) throws InterruptedException {
        WatchedEvent event = events.poll(World.WAIT_SECONDS, TimeUnit.SECONDS);
        isTrue(event != null, "an event");
        String path = event.getPath();
        return event.getType() + " " + path.substring(path.lastIndexOf('/') + 1);
    }

    private static void oneTime(World world) throws Exception {
        CuratorFramework client = world.client();
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        CuratorWatcher watcher = events::add;
        String path = world.path("w");
        client.create().creatingParentsIfNeeded().forPath(world.path("other"));
        client.checkExists().usingWatcher(watcher).forPath(path);
        client.create().forPath(path);
        equal("NodeCreated w", next(events), "first event");
        client.getData().usingWatcher(watcher).forPath(path);
        client.setData().forPath(path, "1".getBytes());
        equal("NodeDataChanged w", next(events), "second event");
        client.setData().forPath(path, "2".getBytes());
        client.getChildren().usingWatcher(watcher).forPath(path);
        client.create().forPath(path + "/c");
        equal("NodeChildrenChanged w", next(events), "third event: the second change had no watch left");
        client.getData().usingWatcher(watcher).forPath(path + "/c");
        client.delete().forPath(path + "/c");
        equal("NodeDeleted c", next(events), "fourth event");
        equal(null, events.poll(), "further events");
    }

    private static void persistent(World world) throws Exception {
        CuratorFramework client = world.client();
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        String path = world.path("w");
        client.create().creatingParentsIfNeeded().forPath(world.path("other"));
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher((CuratorWatcher) events::add).forPath(path);
        client.create().forPath(path);
        client.setData().forPath(path, "1".getBytes());
        client.create().forPath(path + "/c");
        client.setData().forPath(path + "/c", "not seen".getBytes());
        client.delete().forPath(path + "/c");
        client.delete().forPath(path);
        List<String> seen = new ArrayList<>();
        for (int count = 0; count < 5; count++) {
            seen.add(next(events));
        }
        equal(List.of("NodeCreated w", "NodeDataChanged w", "NodeChildrenChanged w", "NodeChildrenChanged w",
                "NodeDeleted w"), seen, "events");
    }

    private static void recursive(World world) throws Exception {
        CuratorFramework client = world.client();
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        String path = world.path("w");
        client.create().creatingParentsIfNeeded().forPath(path);
        client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE)
                .usingWatcher((CuratorWatcher) events::add).forPath(path);
        client.create().forPath(path + "/c");
        client.create().forPath(path + "/c/d");
        client.setData().forPath(path + "/c/d", "1".getBytes());
        client.delete().forPath(path + "/c/d");
        client.setData().forPath(path, "1".getBytes());
        List<String> seen = new ArrayList<>();
        for (int count = 0; count < 5; count++) {
            seen.add(next(events));
        }
        equal(List.of("NodeCreated c", "NodeCreated d", "NodeDataChanged d", "NodeDeleted d", "NodeDataChanged w"),
                seen, "events");
    }

    private static void remove(World world) throws Exception {
        CuratorFramework client = world.client();
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        CuratorWatcher watcher = events::add;
        String path = world.path("w");
        client.create().creatingParentsIfNeeded().forPath(path);
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(watcher).forPath(path);
        client.watchers().remove(watcher).forPath(path);
        equal(EventType.PersistentWatchRemoved, events.poll(World.WAIT_SECONDS, TimeUnit.SECONDS).getType(), "event");
        client.setData().forPath(path, "1".getBytes());
        client.sync().forPath(path);
        equal(null, events.poll(), "events after the removal");
    }

    private static void recipe(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path("w");
        CountDownLatch seen = new CountDownLatch(3);
        try (PersistentWatcher watcher = new PersistentWatcher(client, path, true)) {
            CountDownLatch set = new CountDownLatch(1);
            watcher.getResetListenable().addListener(set::countDown);
            watcher.getListenable().addListener(event -> seen.countDown());
            watcher.start();
            reached(set, "the watch is set");
            client.create().creatingParentsIfNeeded().forPath(path + "/a");
            client.setData().forPath(path + "/a", "1".getBytes());
            reached(seen, "three events");
        }
    }
}
