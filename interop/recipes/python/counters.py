"""Counters: kazoo's own layout (decimal text), and Curator's (four bytes)."""


def verbs(peer):
    table = {}
    for recipe, support_curator in (("counter", False), ("curator-counter", True)):
        table.update(_counter_verbs(peer, recipe, support_curator))
    return table


def _counter_verbs(peer, recipe, support_curator):
    def counter(command):
        return peer.client.Counter(command.path, support_curator=support_curator)

    def add(command):
        """Gives the value before and the value after."""
        changed = counter(command)
        changed += command.integer(0)
        return [changed.pre_value, changed.post_value]

    return {recipe + " add": add, recipe + " value": lambda command: [counter(command).value]}
