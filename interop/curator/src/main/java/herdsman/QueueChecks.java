package herdsman;

import static herdsman.World.equal;
import static herdsman.World.isTrue;
import static herdsman.World.result;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Queues. */
final class QueueChecks {
    static final List<Check> ALL = List.of(
            new Check("simple queue", QueueChecks::simple),
            new Check("queue", QueueChecks::queue),
            new Check("priority queue", QueueChecks::priority));

    private QueueChecks() {}

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes();
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes);
        }
    }

    private static final class Collector implements QueueConsumer<String> {
        private final BlockingQueue<String> items = new LinkedBlockingQueue<>();

        @Override
        public void consumeMessage(String item) {
            items.add(item);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}

        List<String> take(int count) throws InterruptedException {
            List<String> taken = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                taken.add(items.poll(World.WAIT_SECONDS, TimeUnit.SECONDS));
            }
            return taken;
        }
    }

    private static void simple(World world) throws Exception {
        String path = world.path("queue");
        SimpleDistributedQueue producer = new SimpleDistributedQueue(world.client(), path);
        SimpleDistributedQueue consumer = new SimpleDistributedQueue(world.client(), path);
        equal(null, consumer.poll(), "an empty queue's head");
        for (String item : List.of("a", "b", "c")) {
            isTrue(producer.offer(item.getBytes()), "offered");
        }
        equal("a", new String(consumer.peek()), "head");
        equal("a", new String(consumer.poll()), "first");
        equal("b", new String(consumer.take()), "second");
        equal("c", new String(consumer.remove()), "third");
        Future<byte[]> waiting = world.beside(() -> consumer.poll(10, TimeUnit.SECONDS));
        producer.offer("d".getBytes());
        equal("d", new String(result(waiting)), "an item waited for");
    }

    private static void queue(World world) throws Exception {
        String path = world.path("queue");
        Collector collector = new Collector();
        DistributedQueue<String> producer =
                QueueBuilder.builder(world.client(), null, new Text(), path).buildQueue();
        producer.start();
        List<String> items = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            items.add("item " + number);
            producer.put("item " + number);
        }
        isTrue(producer.flushPuts(10, TimeUnit.SECONDS), "all items are stored");
        DistributedQueue<String> consumer =
                QueueBuilder.builder(world.client(), collector, new Text(), path).lockPath(path + "-locks").buildQueue();
        consumer.start();
        equal(items, collector.take(30), "items in order");
        consumer.close();
        producer.close();
    }

    private static void priority(World world) throws Exception {
        String path = world.path("queue");
        Collector collector = new Collector();
        DistributedPriorityQueue<String> producer =
                QueueBuilder.builder(world.client(), null, new Text(), path).buildPriorityQueue(1);
        producer.start();
        producer.put("later", 20);
        producer.put("sooner", 10);
        isTrue(producer.flushPuts(10, TimeUnit.SECONDS), "all items are stored");
        DistributedPriorityQueue<String> consumer =
                QueueBuilder.builder(world.client(), collector, new Text(), path).buildPriorityQueue(1);
        consumer.start();
        equal(List.of("sooner", "later"), collector.take(2), "items by priority");
        consumer.close();
        producer.close();
    }
}
