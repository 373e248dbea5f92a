package herdsman.recipes;

import static java.util.Map.entry;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** The simple queue and the four queues that have consumers. Items are bytes and are stored as they are. */
final class Queues {
    private static final QueueSerializer<byte[]> AS_IT_IS = new QueueSerializer<>() {
        @Override
        public byte[] serialize(byte[] item) {
            return item;
        }

        @Override
        public byte[] deserialize(byte[] bytes) {
            return bytes;
        }
    };

    /** Keeps what was consumed until a take asks for it; refuses as many items as it was told to. */
    private static final class Collector implements QueueConsumer<byte[]> {
        final BlockingQueue<byte[]> items = new LinkedBlockingQueue<>();
        final AtomicInteger toRefuse = new AtomicInteger();

        @Override
        public void consumeMessage(byte[] item) {
            if (toRefuse.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
                throw new IllegalStateException("refused as told");
            }
            items.add(item);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private record Consuming(QueueBase<byte[]> queue, Collector collector) {}

    private interface Build {
        QueueBase<byte[]> build(QueueBuilder<byte[]> builder);
    }

    private interface Use<Q> {
        List<?> use(Q queue) throws Exception;
    }

    private final Peer peer;
    private final Handles<Consuming> consumers;

    Queues(Peer peer) {
        this.peer = peer;
        consumers = new Handles<>(peer, consuming -> consuming.queue.close());
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("simple-queue offer", this::offer),
                entry("simple-queue poll", command -> found(simple(command).poll())),
                entry("simple-queue peek", command -> found(simple(command).peek())),
                entry("simple-queue take", this::takeSimple),
                entry("queue put", this::put),
                entry("queue put-many", this::putMany),
                entry("queue consume", command -> consume(command, QueueBuilder::buildQueue)),
                entry("priority-queue put", this::putByPriority),
                entry("priority-queue consume", command -> consume(command, builder -> builder.buildPriorityQueue(0))),
                entry("delay-queue put", this::putDelayed),
                entry("delay-queue consume", command -> consume(command, QueueBuilder::buildDelayQueue)),
                entry("id-queue put", this::putWithId),
                entry("id-queue remove", this::removeById),
                entry("id-queue consume", command -> consume(command, QueueBuilder::buildIdQueue)),
                entry("queue take", this::take),
                entry("priority-queue take", this::take),
                entry("delay-queue take", this::take),
                entry("id-queue take", this::take),
                entry("queue refuse", this::refuse),
                entry("queue close", this::close),
                entry("priority-queue close", this::close),
                entry("delay-queue close", this::close),
                entry("id-queue close", this::close));
    }

    private SimpleDistributedQueue simple(Command command) {
        return new SimpleDistributedQueue(peer.client, command.path());
    }

    private List<?> offer(Command command) throws Exception {
        simple(command).offer(command.bytes(0));
        return Verb.DONE;
    }

    /** No word at all for an empty queue, one word for an item. */
    private static List<?> found(byte[] item) {
        return item == null ? List.of() : List.of(item);
    }

    private List<?> takeSimple(Command command) throws Exception {
        byte[] item = simple(command).poll(peer.limitMs, TimeUnit.MILLISECONDS);
        peer.within(item != null, "an item's arrival");
        return List.of(item);
    }

    /** A producer's put returns when the item is stored. */
    private QueueBuilder<byte[]> producer(Command command) {
        return QueueBuilder.builder(peer.client, null, AS_IT_IS, command.path()).putInBackground(false);
    }

    private static <Q extends QueueBase<byte[]>> List<?> with(Q queue, Use<Q> use) throws Exception {
        queue.start();
        try {
            return use.use(queue);
        } finally {
            queue.close();
        }
    }

    private List<?> put(Command command) throws Exception {
        return with(producer(command).buildQueue(), queue -> {
            queue.put(command.bytes(0));
            return Verb.DONE;
        });
    }

    private List<?> putMany(Command command) throws Exception {
        Iterator<byte[]> items = command.arguments().iterator();
        MultiItem<byte[]> together = () -> items.hasNext() ? items.next() : null;
        return with(producer(command).buildQueue(), queue -> {
            queue.putMulti(together);
            return Verb.DONE;
        });
    }

    private List<?> putByPriority(Command command) throws Exception {
        int priority = command.integer(1);
        return with(producer(command).buildPriorityQueue(0), queue -> {
            queue.put(command.bytes(0), priority);
            return Verb.DONE;
        });
    }

    private List<?> putDelayed(Command command) throws Exception {
        long readyAtEpochMs = command.number(1);
        return with(producer(command).buildDelayQueue(), queue -> {
            queue.put(command.bytes(0), readyAtEpochMs);
            return Verb.DONE;
        });
    }

    private List<?> putWithId(Command command) throws Exception {
        String id = command.text(1);
        return with(producer(command).buildIdQueue(), queue -> {
            queue.put(command.bytes(0), id);
            return Verb.DONE;
        });
    }

    /** Arguments: id, and the lock path if the consumers have one. */
    private List<?> removeById(Command command) throws Exception {
        QueueBuilder<byte[]> builder = producer(command);
        if (command.has(1)) {
            builder.lockPath(command.text(1));
        }
        return with(builder.buildIdQueue(), queue -> List.of(queue.remove(command.text(0))));
    }

    private List<?> consume(Command command, Build build) throws Exception {
        Collector collector = new Collector();
        QueueBuilder<byte[]> builder = QueueBuilder.builder(peer.client, collector, AS_IT_IS, command.path());
        if (command.has(0)) {
            builder.lockPath(command.text(0));
        }
        consumers.add(command, new Consuming(build.build(builder), collector)).queue.start();
        return Verb.DONE;
    }

    private List<?> take(Command command) throws Exception {
        byte[] item = consumers.get(command).collector.items.poll(peer.limitMs, TimeUnit.MILLISECONDS);
        peer.within(item != null, "an item's arrival");
        return List.of(item);
    }

    /** The next items, as many as given, make the consumer fail; with a lock path they go back into the queue. */
    private List<?> refuse(Command command) {
        consumers.get(command).collector.toRefuse.set(command.integer(0));
        return Verb.DONE;
    }

    private List<?> close(Command command) throws Exception {
        consumers.end(command);
        return Verb.DONE;
    }
}
