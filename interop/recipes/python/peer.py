"""What the recipes of one process share: the session, the limit for everything that waits, and the open handles."""

import threading
import time

from kazoo.client import KazooClient

SESSION_TIMEOUT_SECONDS = 10
LOOK_AGAIN_SECONDS = 0.02


class Peer:
    def __init__(self, hosts, limit_seconds):
        self.hosts = hosts
        self.limit_seconds = limit_seconds
        self.client = KazooClient(hosts=hosts, timeout=SESSION_TIMEOUT_SECONDS)
        self.client.start(timeout=limit_seconds)

    def close(self):
        self.client.stop()
        self.client.close()

    def too_long(self, what):
        return TimeoutError("%s took longer than %d ms" % (what, self.limit_seconds * 1000))

    def eventually(self, condition, what):
        """Waits for a state that kazoo gives no sign of."""
        deadline = time.monotonic() + self.limit_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise self.too_long(what)
            time.sleep(LOOK_AGAIN_SECONDS)

    def bounded(self, body, what):
        """Runs a call of kazoo's that would wait for ever; after the limit it is left to itself."""
        outcome = []

        def run():
            try:
                outcome.append((body(), None))
            except Exception as failed:
                outcome.append((None, failed))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.limit_seconds)
        if not outcome:
            raise self.too_long(what)
        result, failed = outcome[0]
        if failed is not None:
            raise failed
        return result


class Handles:
    """The objects of one recipe that outlive a command, by path and name."""

    def __init__(self):
        self._by_key = {}
        self._guard = threading.Lock()

    def add(self, command, handle):
        with self._guard:
            if command.key in self._by_key:
                raise ValueError("already open: " + command.key)
            self._by_key[command.key] = handle
        return handle

    def or_make(self, command, make):
        with self._guard:
            if command.key not in self._by_key:
                self._by_key[command.key] = make()
            return self._by_key[command.key]

    def get(self, command):
        with self._guard:
            if command.key not in self._by_key:
                raise ValueError("not open: %s %s" % (command.recipe, command.key))
            return self._by_key[command.key]

    def remove(self, command):
        handle = self.get(command)
        with self._guard:
            self._by_key.pop(command.key, None)
        return handle
