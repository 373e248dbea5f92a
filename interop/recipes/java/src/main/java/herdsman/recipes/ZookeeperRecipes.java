package herdsman.recipes;

import static java.util.Map.entry;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.leader.LeaderElectionAware;
import org.apache.zookeeper.recipes.leader.LeaderElectionSupport;
import org.apache.zookeeper.recipes.leader.LeaderElectionSupport.EventType;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;
import org.apache.zookeeper.recipes.queue.DistributedQueue;

/**
 * ZooKeeper's own recipes: WriteLock, LeaderElectionSupport and DistributedQueue. Every handle has a session of its own,
 * because two write locks of one session take each other's nodes for their own.
 */
final class ZookeeperRecipes {
    private static final int SESSION_TIMEOUT_MS = 10_000;

    /** A write lock that can be waited for. */
    private static final class Lock implements LockListener {
        final ZooKeeper session;
        final WriteLock lock;
        final Semaphore acquired = new Semaphore(0);

        Lock(ZooKeeper session, String path) {
            this.session = session;
            lock = new WriteLock(session, path, null, this);
        }

        @Override
        public void lockAcquired() {
            acquired.release();
        }

        @Override
        public void lockReleased() {}
    }

    /** A candidate, and all that has happened to it. */
    private static final class Candidate implements LeaderElectionAware {
        final ZooKeeper session;
        final LeaderElectionSupport support = new LeaderElectionSupport();
        final List<EventType> events = new CopyOnWriteArrayList<>();

        Candidate(ZooKeeper session, String path, String host) {
            this.session = session;
            support.setZooKeeper(session);
            support.setRootNodeName(path);
            support.setHostName(host);
            support.addListener(this);
        }

        @Override
        public void onElectionEvent(EventType event) {
            events.add(event);
        }

        EventType last() {
            return events.isEmpty() ? EventType.START : events.get(events.size() - 1);
        }

        boolean hasOutcome() {
            return last() == EventType.ELECTED_COMPLETE || last() == EventType.FAILED;
        }
    }

    private record Queue(ZooKeeper session, DistributedQueue queue) {}

    private final Peer peer;
    private final Handles<Lock> locks;
    private final Handles<Candidate> candidates;
    private final Handles<Queue> queues;
    private final ExecutorService threads = Executors.newCachedThreadPool(Contender::daemon);

    ZookeeperRecipes(Peer peer) {
        this.peer = peer;
        locks = new Handles<>(peer, lock -> lock.session.close());
        candidates = new Handles<>(peer, candidate -> candidate.session.close());
        queues = new Handles<>(peer, queue -> queue.session.close());
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("write-lock acquire", this::acquire),
                entry("write-lock release", this::release),
                entry("write-lock close", command -> end(locks, command)),
                entry("election-support start", this::start),
                entry("election-support await", this::awaitOutcome),
                entry("election-support events", command -> candidates.get(command).events),
                entry("election-support host", this::leaderHost),
                entry("election-support stop", this::stop),
                entry("election-support close", command -> end(candidates, command)),
                entry("distributed-queue offer", command -> List.of(queue(command).offer(command.bytes(0)))),
                entry("distributed-queue poll", command -> found(queue(command).poll())),
                entry("distributed-queue peek", command -> found(queue(command).peek())),
                entry("distributed-queue take", this::take));
    }

    private ZooKeeper connect() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper session = new ZooKeeper(peer.connectString, SESSION_TIMEOUT_MS, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        peer.within(connected.await(peer.limitMs, TimeUnit.MILLISECONDS), "connecting");
        return session;
    }

    private static List<?> end(Handles<?> handles, Command command) throws Exception {
        handles.end(command);
        return Verb.DONE;
    }

    private List<?> acquire(Command command) throws Exception {
        Lock lock = locks.orMake(command, () -> new Lock(connect(), command.path()));
        lock.lock.lock();
        peer.within(lock.acquired.tryAcquire(peer.limitMs, TimeUnit.MILLISECONDS), "acquiring the lock");
        return Verb.DONE;
    }

    private List<?> release(Command command) {
        locks.get(command).lock.unlock();
        return Verb.DONE;
    }

    /** Argument: the host name. Answers with the last event: what start came to at once. */
    private List<?> start(Command command) throws Exception {
        Candidate candidate = candidates.orMake(
                command, () -> new Candidate(connect(), command.path(), command.text(0)));
        candidate.support.start();
        return List.of(candidate.last());
    }

    /** Answers with ELECTED_COMPLETE or FAILED; the latter comes of an offer that goes while all offers are read. */
    private List<?> awaitOutcome(Command command) throws Exception {
        Candidate candidate = candidates.get(command);
        peer.eventually(candidate::hasOutcome, "becoming the leader");
        return List.of(candidate.last());
    }

    private List<?> leaderHost(Command command) throws Exception {
        String host = candidates.get(command).support.getLeaderHostName();
        return host == null ? List.of() : List.of(host);
    }

    private List<?> stop(Command command) {
        candidates.get(command).support.stop();
        return Verb.DONE;
    }

    private DistributedQueue queue(Command command) throws Exception {
        Queue queue = queues.orMake(command, () -> {
            ZooKeeper session = connect();
            return new Queue(session, new DistributedQueue(session, command.path(), null));
        });
        return queue.queue;
    }

    private static List<?> found(byte[] item) {
        return item == null ? List.of() : List.of(item);
    }

    /** The queue itself waits without a limit. */
    private List<?> take(Command command) throws Exception {
        DistributedQueue queue = queue(command);
        Callable<byte[]> taking = queue::take;
        Future<byte[]> item = threads.submit(taking);
        try {
            return List.of(item.get(peer.limitMs, TimeUnit.MILLISECONDS));
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        } finally {
            item.cancel(true);
        }
    }
}
