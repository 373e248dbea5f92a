"""The session itself: its id, and its violent end."""

from kazoo.client import KazooClient


def session_id(client):
    """In hex, or 0x0 while there is no session."""
    given = client.client_id
    return hex(given[0] & 0xFFFFFFFFFFFFFFFF) if given else "0x0"


def verbs(peer):
    def kill(_command):
        """A second connection takes the session over and closes it. The first learns of it as an expired session."""
        victim = session_id(peer.client)
        killer = KazooClient(hosts=peer.hosts, client_id=peer.client.client_id)
        killer.start(timeout=peer.limit_seconds)
        killer.stop()
        killer.close()
        return [victim]

    def await_new(command):
        """Argument, in the path's place: the id of the session that is over. Answers when another one stands."""
        client = peer.client
        peer.eventually(lambda: client.connected and session_id(client) not in (command.key, "0x0"), "a new session")
        return [session_id(client)]

    return {
        "session id": lambda _command: [session_id(peer.client)],
        "session kill": kill,
        "session await-new": await_new,
    }
