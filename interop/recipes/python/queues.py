"""Queues and locking queues. Items are bytes."""

from peer import Handles

PRIORITY = 100


def verbs(peer):
    table = _locking_queue_verbs(peer)
    table.update(
        {
            "queue put": lambda command: _put(peer.client.Queue(command.path), command),
            "queue get": lambda command: _found(peer.client.Queue(command.path).get()),
            "queue size": lambda command: [len(peer.client.Queue(command.path))],
        }
    )
    return table


def _put(queue, command):
    """Arguments: the item and, if wanted, a priority."""
    queue.put(command.bytes(0), command.integer(1) if command.has(1) else PRIORITY)


def _found(item):
    """No word at all for an empty queue, one word for an item."""
    return [] if item is None else [item]


def _locking_queue_verbs(peer):
    handles = Handles()

    def queue(command):
        return handles.or_make(command, lambda: peer.client.LockingQueue(command.path))

    def get(command):
        item = queue(command).get(timeout=peer.limit_seconds)
        if item is None:
            raise peer.too_long("an item's arrival")
        return [item]

    return {
        "locking-queue put": lambda command: _put(queue(command), command),
        "locking-queue get": get,
        "locking-queue holds": lambda command: [queue(command).holds_lock()],
        "locking-queue consume": lambda command: [queue(command).consume()],
        "locking-queue release": lambda command: [queue(command).release()],
        "locking-queue size": lambda command: [len(queue(command))],
    }
