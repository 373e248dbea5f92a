"""Parties: who is there."""

from peer import Handles


def verbs(peer):
    client = peer.client
    table = {}
    for recipe, make in (("party", client.Party), ("shallow-party", client.ShallowParty)):
        table.update(_party_verbs(peer, recipe, make))
    return table


def _party_verbs(peer, recipe, make):
    handles = Handles()

    def members(command):
        return sorted(make(command.path))

    def join(command):
        """Argument: the member's identifier."""
        handles.add(command, make(command.path, command.text(0))).join()

    def leave(command):
        handles.remove(command).leave()

    def await_members(command):
        """Until exactly the given members are there."""
        wanted = sorted(argument.decode("utf-8") for argument in command.arguments)
        peer.eventually(lambda: members(command) == wanted, "seeing exactly %s" % wanted)

    return {
        recipe + " join": join,
        recipe + " members": members,
        recipe + " await": await_members,
        recipe + " leave": leave,
    }
