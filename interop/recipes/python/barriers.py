"""Barriers and double barriers."""

from peer import Handles


def verbs(peer):
    entered = Handles()

    def barrier(command):
        return peer.client.Barrier(command.path)

    def wait(command):
        if not barrier(command).wait(timeout=peer.limit_seconds):
            raise peer.too_long("the barrier's removal")

    def enter(command):
        member = entered.add(command, peer.client.DoubleBarrier(command.path, command.integer(0)))
        peer.bounded(member.enter, "entering")
        if not member.participating:
            entered.remove(command)
            raise RuntimeError("kazoo could not enter and does not say why")

    def leave(command):
        """Each round is a new member: the object, which keeps its node's name, is dropped."""
        peer.bounded(entered.remove(command).leave, "leaving")

    return {
        "barrier set": lambda command: barrier(command).create(),
        "barrier remove": lambda command: [bool(barrier(command).remove())],
        "barrier wait": wait,
        "double-barrier enter": enter,
        "double-barrier leave": leave,
    }
