"""Locks, read and write locks, and semaphores."""

from kazoo.exceptions import LockTimeout

from peer import Handles


def verbs(peer):
    client = peer.client
    table = {}
    for recipe, make in (("lock", client.Lock), ("rlock", client.ReadLock), ("wlock", client.WriteLock)):
        table.update(_lock_verbs(peer, recipe, make))
    table.update(_semaphore_verbs(peer))
    return table


def _attempt(handles, command, handle, acquire):
    """Keeps the handle if the lock was acquired. Gives whether it was."""
    handles.add(command, handle)
    acquired = False
    try:
        acquired = acquire()
    except LockTimeout:
        pass
    finally:
        if not acquired:
            handles.remove(command)
    return acquired


def _acquire_within(handle, wait_ms):
    """kazoo takes no wait of zero; not to wait is another argument."""
    if wait_ms == 0:
        return handle.acquire(blocking=False)
    return handle.acquire(timeout=wait_ms / 1000)


def _lock_verbs(peer, recipe, make):
    handles = Handles()

    def acquire(command):
        """Argument: an identifier, if wanted."""
        lock = make(command.path, command.text(0) if command.has(0) else None)
        if not _attempt(handles, command, lock, lambda: lock.acquire(timeout=peer.limit_seconds)):
            raise peer.too_long("acquiring")

    def try_acquire(command):
        wait_ms = command.integer(0)
        lock = make(command.path)
        return [_attempt(handles, command, lock, lambda: _acquire_within(lock, wait_ms))]

    def release(command):
        handles.remove(command).release()

    return {
        recipe + " acquire": acquire,
        recipe + " try": try_acquire,
        recipe + " release": release,
        recipe + " contenders": lambda command: make(command.path).contenders(),
    }


def _semaphore_verbs(peer):
    handles = Handles()

    def make(command):
        identifier = command.text(1) if command.has(1) else None
        return peer.client.Semaphore(command.path, identifier, max_leases=command.integer(0))

    def acquire(command):
        """Arguments: the number of leases and, if wanted, an identifier."""
        semaphore = make(command)
        if not _attempt(handles, command, semaphore, lambda: semaphore.acquire(timeout=peer.limit_seconds)):
            raise peer.too_long("acquiring")

    def try_acquire(command):
        """Arguments: the number of leases and the wait in milliseconds."""
        wait_ms = command.integer(1)
        semaphore = peer.client.Semaphore(command.path, max_leases=command.integer(0))
        return [_attempt(handles, command, semaphore, lambda: _acquire_within(semaphore, wait_ms))]

    def release(command):
        handles.remove(command).release()

    return {
        "semaphore acquire": acquire,
        "semaphore try": try_acquire,
        "semaphore release": release,
        "semaphore holders": lambda command: sorted(peer.client.Semaphore(command.path).lease_holders()),
    }
