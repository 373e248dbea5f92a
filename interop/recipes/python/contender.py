"""A process that uses kazoo's recipes as it is told on standard input, so that a test can make it compete with others
for the same paths. The protocol is in README.md, one folder up.

In: the connect string and, optionally, the limit in milliseconds for everything that waits. Out: `ready` and the
session's id, then one answer a command, in the order in which they finish. Standard error is for people.
"""

import logging
import os
import sys
import threading

import barriers
import counters
import elections
import locks
import parties
import queues
import sessions
import words
from peer import Peer

LIMIT_MS = 60_000


class Command:
    """One line: tag recipe verb [path[#name] [argument…]]. Path and name are the key of the handle commands share."""

    def __init__(self, line):
        given = line.split()
        if len(given) < 3:
            raise ValueError("a command is: tag recipe verb [path [argument…]]")
        self.tag, self.recipe, self.verb = given[:3]
        self.key = words.decode(given[3]).decode("utf-8") if len(given) > 3 else ""
        self.path = self.key.split("#")[0]
        self.arguments = [words.decode(word) for word in given[4:]]

    @property
    def name(self):
        return self.recipe + " " + self.verb

    def has(self, index):
        return index < len(self.arguments)

    def bytes(self, index):
        if not self.has(index):
            raise ValueError("%s needs %d or more arguments after the path" % (self.name, index + 1))
        return self.arguments[index]

    def text(self, index):
        return self.bytes(index).decode("utf-8")

    def integer(self, index):
        return int(self.text(index))


class Contender:
    def __init__(self, peer):
        self._answer_guard = threading.Lock()
        self._verbs = {}
        for recipes in (locks, elections, barriers, counters, queues, parties, sessions):
            self._verbs.update(recipes.verbs(peer))

    def serve(self, lines):
        """Until the lines end. A command never keeps the next one waiting."""
        for line in lines:
            if line.strip():
                threading.Thread(target=lambda given=line: self.say(self._answer(given)), daemon=True).start()

    def say(self, line):
        with self._answer_guard:
            print(line, flush=True)

    def _answer(self, line):
        tag = line.split()[0]
        try:
            command = Command(line)
            if command.name not in self._verbs:
                raise ValueError("there is no " + command.name)
            values = self._verbs[command.name](command) or []
            return " ".join([tag, "ok"] + [words.encode(value) for value in values])
        except Exception as failed:
            text = " ".join(str(failed).split())
            return "%s error %s %s" % (tag, type(failed).__name__, text)


def halt_after(seconds):
    """Closing talks to the server; a server that is gone must not keep this process alive."""
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True
    timer.start()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: contender.py CONNECT_STRING [LIMIT_MS]")
    logging.basicConfig(level=logging.ERROR)
    limit_seconds = (int(sys.argv[2]) if len(sys.argv) > 2 else LIMIT_MS) / 1000
    try:
        peer = Peer(sys.argv[1], limit_seconds)
    except Exception as failed:
        sys.exit("the contender gives up: %s" % failed)
    contender = Contender(peer)
    contender.say("ready " + sessions.session_id(peer.client))
    contender.serve(iter(sys.stdin.readline, ""))
    halt_after(limit_seconds)
    peer.close()
    sys.stdout.flush()
    # Threads may still wait in a recipe; leaving this way keeps them from disturbing the interpreter's end.
    os._exit(0)


if __name__ == "__main__":
    main()
