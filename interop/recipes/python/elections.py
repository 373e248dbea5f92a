"""Elections."""

import threading

from peer import Handles


class Candidate:
    """Runs for leader on a thread of its own and leads until it is told to let go."""

    def __init__(self, client, path, identifier):
        self.election = client.Election(path, identifier)
        self.leads = threading.Event()
        self.let_go = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        self.election.run(self._lead)

    def _lead(self):
        self.leads.set()
        self.let_go.wait()
        self.leads.clear()


def verbs(peer):
    handles = Handles()

    def run(command):
        """Argument: the identifier. The answer comes at once, not when the election is won."""
        handles.add(command, Candidate(peer.client, command.path, command.text(0))).thread.start()

    def await_leadership(command):
        if not handles.get(command).leads.wait(peer.limit_seconds):
            raise peer.too_long("becoming the leader")

    def end(candidate, what):
        candidate.thread.join(peer.limit_seconds)
        if candidate.thread.is_alive():
            raise peer.too_long(what)

    def release(command):
        candidate = handles.get(command)
        if not candidate.leads.is_set():
            raise ValueError("does not lead: " + command.key)
        handles.remove(command).let_go.set()
        end(candidate, "letting go")

    def cancel(command):
        candidate = handles.remove(command)
        candidate.let_go.set()
        candidate.election.cancel()
        end(candidate, "giving up")

    return {
        "election run": run,
        "election holds": lambda command: [handles.get(command).leads.is_set()],
        "election await": await_leadership,
        "election release": release,
        "election cancel": cancel,
        "election contenders": lambda command: peer.client.Election(command.path).contenders(),
    }
