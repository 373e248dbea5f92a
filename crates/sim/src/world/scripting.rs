//! What the author of a script may do to a world by hand, beyond what chance does.

use herdsman_node::StorageState;
use herdsman_proto::ServerState;
use herdsman_zab::Zab;

use super::{Mirror, ServerIndex, World};
use crate::checkers::Fact;
use crate::storage::Storage;

impl World {
    /// Votes for this server are exaggerated from now on, so that it wins elections; `None`: nobody's.
    pub fn favour(&mut self, place: Option<ServerIndex>) {
        self.fault_state.favour(place);
    }

    /// The operator says that a server is new: it votes though others may have a history.
    pub fn initialize(&mut self, place: ServerIndex) {
        self.servers[place].storage.initialize();
    }

    /// A server's disk stands still: whatever it is asked to do is not done, and not reported.
    pub fn freeze_disk(&mut self, place: ServerIndex) {
        self.servers[place].frozen = true;
    }

    /// A server's disk goes on.
    pub fn thaw_disk(&mut self, place: ServerIndex) {
        self.servers[place].frozen = false;
        self.start_disk(place);
    }

    /// A server's disk has room for so many bytes more; `None`: for everything.
    pub fn set_room(&mut self, place: ServerIndex, bytes: Option<u64>) {
        self.limit_room(place, bytes);
    }

    /// Every link of a server breaks.
    pub fn break_links(&mut self, place: ServerIndex) {
        let links = self.open_links();
        for (link, ..) in
            links.into_iter().filter(|(_, one, other)| *one == place || *other == place)
        {
            self.break_link(link);
        }
    }

    /// A server that is down loses its disk. It will know that, and not vote.
    pub fn lose_disk(&mut self, place: ServerIndex) {
        assert!(self.servers[place].process.is_none(), "server {place} runs");
        self.servers[place].storage = Storage::new();
        self.servers[place].mirror = Mirror::default();
        self.servers[place].flushed = herdsman_proto::Zxid::ZERO;
        (self.servers[place].promised, self.servers[place].followed) = (0, 0);
        self.servers[place].storage.suspend_voting("its disk was lost");
        self.report(&Fact::LostDisk { place });
    }

    /// A server crashes after so many more outputs.
    pub fn crash_after(&mut self, place: ServerIndex, outputs: u64) {
        self.servers[place].crash_after = Some(outputs);
    }

    /// A server crashes, and its disk has done nothing of what it was asked to do and had not reported.
    pub fn crash_hard(&mut self, place: ServerIndex) {
        if let Some(process) = &mut self.servers[place].process {
            process.jobs.iter_mut().for_each(|lane| lane.clear());
        }
        self.crash(place);
    }

    /// A server's process ends, and the system goes on: what was written stays, synced or not.
    pub fn kill(&mut self, place: ServerIndex) {
        self.note(|| format!("{place} is killed"));
        let server = &mut self.servers[place];
        server.repair = None;
        server.crash_after = None;
        if server.process.take().is_some() {
            self.lose_links_of(place);
            self.lose_conns_of(place);
        }
    }

    /// What a server does, in a word.
    #[must_use]
    pub fn state(&self, place: ServerIndex) -> &'static str {
        let Some(process) = &self.servers[place].process else { return "down" };
        if process.node.storage() == StorageState::Failed {
            return "failed";
        }
        match process.node.zab().map(Zab::state) {
            Some(ServerState::Leading) => "leading",
            Some(ServerState::Following) => "following",
            Some(ServerState::Observing) => "observing",
            _ => "looking",
        }
    }

    /// Whether a server serves clients.
    #[must_use]
    pub fn serves(&self, place: ServerIndex) -> bool {
        let process = self.servers[place].process.as_ref();
        process.is_some_and(|process| process.node.serves_clients())
    }
}
