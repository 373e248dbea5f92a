package herdsman.recipes;

import static java.util.Map.entry;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.utils.ZKPaths;

/** Mutexes, read-write locks and semaphores. */
final class Locks {
    private static final class Mutex {
        final InterProcessMutex lock;
        final CountDownLatch revoked = new CountDownLatch(1);

        Mutex(InterProcessMutex lock) {
            this.lock = lock;
        }
    }

    /** A semaphore with the leases taken from it, the oldest first. */
    private static final class Leases {
        final InterProcessSemaphoreV2 semaphore;
        final Deque<Lease> taken = new ArrayDeque<>();

        Leases(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        synchronized void add(Lease lease) {
            taken.add(lease);
        }

        synchronized Lease remove() {
            return taken.remove();
        }
    }

    private final Peer peer;
    private final Handles<OwnThread<Mutex>> mutexes;
    private final Handles<OwnThread<InterProcessReadWriteLock>> readWrites;
    private final Handles<InterProcessSemaphoreMutex> semaphoreMutexes;
    private final Handles<Leases> semaphores;

    Locks(Peer peer) {
        this.peer = peer;
        mutexes = new Handles<>(peer, OwnThread::end);
        readWrites = new Handles<>(peer, OwnThread::end);
        semaphoreMutexes = new Handles<>(peer, lock -> {});
        semaphores = new Handles<>(peer, leases -> {});
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("lock acquire", this::acquire),
                entry("lock acquire-revocable", this::acquireRevocable),
                entry("lock try", this::tryAcquire),
                entry("lock release", this::release),
                entry("lock participants", this::participants),
                entry("lock revoke", this::revoke),
                entry("lock await-revoke", this::awaitRevoke),
                entry("rwlock read-acquire", this::readAcquire),
                entry("rwlock read-release", this::readRelease),
                entry("rwlock write-acquire", this::writeAcquire),
                entry("rwlock write-release", this::writeRelease),
                entry("semaphore-mutex acquire", this::semaphoreMutexAcquire),
                entry("semaphore-mutex release", this::semaphoreMutexRelease),
                entry("semaphore acquire", this::leaseAcquire),
                entry("semaphore try", this::leaseTry),
                entry("semaphore release", this::leaseRelease));
    }

    private OwnThread<Mutex> mutex(Command command) throws Exception {
        return mutexes.orMake(command, () ->
                new OwnThread<>(new Mutex(new InterProcessMutex(peer.client, command.path()))));
    }

    private List<?> acquire(Command command) throws Exception {
        peer.within(mutex(command).on(mutex -> mutex.lock.acquire(peer.limitMs, TimeUnit.MILLISECONDS)), "acquiring");
        return Verb.DONE;
    }

    private List<?> acquireRevocable(Command command) throws Exception {
        Mutex mutex = mutex(command).owned();
        mutex.lock.makeRevocable(lock -> mutex.revoked.countDown());
        return acquire(command);
    }

    private List<?> tryAcquire(Command command) throws Exception {
        long waitMs = command.number(0);
        boolean acquired = mutex(command).on(mutex -> mutex.lock.acquire(waitMs, TimeUnit.MILLISECONDS));
        return List.of(acquired);
    }

    private List<?> release(Command command) throws Exception {
        return mutexes.get(command).on(mutex -> {
            mutex.lock.release();
            return Verb.DONE;
        });
    }

    private List<?> participants(Command command) throws Exception {
        return mutex(command).owned().lock.getParticipantNodes().stream().map(ZKPaths::getNodeFromPath).toList();
    }

    /** Asks whoever holds the lock, in whatever process, to give it up. */
    private List<?> revoke(Command command) throws Exception {
        for (String holder : mutex(command).owned().lock.getParticipantNodes()) {
            Revoker.attemptRevoke(peer.client, holder);
            return List.of(ZKPaths.getNodeFromPath(holder));
        }
        throw new IllegalStateException("nobody holds " + command.path());
    }

    private List<?> awaitRevoke(Command command) throws Exception {
        CountDownLatch revoked = mutexes.get(command).owned().revoked;
        peer.within(revoked.await(peer.limitMs, TimeUnit.MILLISECONDS), "a request to give the lock up");
        return Verb.DONE;
    }

    private OwnThread<InterProcessReadWriteLock> readWrite(Command command) throws Exception {
        return readWrites.orMake(command, () ->
                new OwnThread<>(new InterProcessReadWriteLock(peer.client, command.path())));
    }

    private List<?> readAcquire(Command command) throws Exception {
        boolean acquired = readWrite(command).on(lock -> lock.readLock().acquire(peer.limitMs, TimeUnit.MILLISECONDS));
        peer.within(acquired, "acquiring to read");
        return Verb.DONE;
    }

    private List<?> readRelease(Command command) throws Exception {
        return readWrites.get(command).on(lock -> {
            lock.readLock().release();
            return Verb.DONE;
        });
    }

    private List<?> writeAcquire(Command command) throws Exception {
        boolean acquired = readWrite(command).on(lock -> lock.writeLock().acquire(peer.limitMs, TimeUnit.MILLISECONDS));
        peer.within(acquired, "acquiring to write");
        return Verb.DONE;
    }

    private List<?> writeRelease(Command command) throws Exception {
        return readWrites.get(command).on(lock -> {
            lock.writeLock().release();
            return Verb.DONE;
        });
    }

    private List<?> semaphoreMutexAcquire(Command command) throws Exception {
        InterProcessSemaphoreMutex mutex = semaphoreMutexes.orMake(command, () ->
                new InterProcessSemaphoreMutex(peer.client, command.path()));
        peer.within(mutex.acquire(peer.limitMs, TimeUnit.MILLISECONDS), "acquiring");
        return Verb.DONE;
    }

    private List<?> semaphoreMutexRelease(Command command) throws Exception {
        semaphoreMutexes.get(command).release();
        return Verb.DONE;
    }

    private Leases leases(Command command) throws Exception {
        return semaphores.orMake(command, () ->
                new Leases(new InterProcessSemaphoreV2(peer.client, command.path(), command.integer(0))));
    }

    private List<?> leaseAcquire(Command command) throws Exception {
        Leases leases = leases(command);
        Lease lease = leases.semaphore.acquire(peer.limitMs, TimeUnit.MILLISECONDS);
        peer.within(lease != null, "acquiring");
        leases.add(lease);
        return List.of(lease.getNodeName());
    }

    private List<?> leaseTry(Command command) throws Exception {
        Leases leases = leases(command);
        Lease lease = leases.semaphore.acquire(command.number(1), TimeUnit.MILLISECONDS);
        if (lease != null) {
            leases.add(lease);
        }
        return List.of(lease != null);
    }

    private List<?> leaseRelease(Command command) throws Exception {
        semaphores.get(command).remove().close();
        return Verb.DONE;
    }
}
