//! The script generator: a seed and the replies so far determine the next action.
//!
//! In: random numbers, the state of the slots, paths and versions learned from replies that were equal on
//! both sides. Out: actions. Omitted on purpose, because Apache's own answer is random or wrong:
//! - op 20 (deleteContainer) and op -10 (createSession) from a client: Apache accepts them, we do not.
//! - createTTL with flags that are not TTL flags and a negative ttl: Apache logs a txn that it cannot
//!   apply, and stops.
//! - auth, unknown ops and session ends in the middle of a burst: Apache answers the first two from another
//!   thread than the rest.
//! - setACL in a burst: Apache's pending znode keeps its old ACL, so whether the next op sees the new one
//!   depends on how fast the first is applied.
//! - with local sessions: createContainer with an ephemeral's flag, for which Apache returns -112, and
//!   Herdsman creates a container, as both do otherwise; a multi that cannot be decoded, of which Apache's
//!   learners execute the first ops; an ephemeral in a burst, because the txn that upgrades the session may
//!   precede or follow the reply to an earlier request.
//! - ops under a hard quota in a burst: Apache checks the quota against what is applied so far.

mod acls;
mod malformed;
mod paths;
mod quotas;
mod reads;
mod sessions;
mod writes;

use std::collections::BTreeMap;

use herdsman_proto::{Acl, Perms};

use crate::action::{Action, Hello};
use crate::call::Call;
use crate::canon::Learned;
use crate::pair::Pair;
use crate::rng::Rng;
use crate::roles::Kind;
use crate::side::SlotState;

/// The maximum number of created paths that are kept.
const CREATED_MAX: usize = 24;
/// The maximum number of requests in one burst.
const BURST_MAX: usize = 12;

/// Generates one script.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    root: String,
    slots: usize,
    /// The servers on each side.
    servers: usize,
    local_sessions: bool,
    created: Vec<String>,
    versions: BTreeMap<String, i32>,
    newest_offset: i64,
    queued: Vec<Action>,
    cuts: usize,
}

/// The position of a request, which limits what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Alone,
    InBurst,
}

impl Generator {
    /// Creates a generator for this seed, number of sessions and kind of servers.
    #[must_use]
    pub fn new(seed: u64, slots: usize, kind: Kind) -> Self {
        let root = format!("/d{seed}");
        let open = [Acl::world(Perms::ALL)];
        let create = Call::create(&writes::plain_create(root.as_bytes(), b"root", &open));
        Generator {
            rng: Rng::new(seed),
            root,
            slots,
            servers: kind.servers(),
            local_sessions: matches!(kind, Kind::WithLocalSessions(_)),
            created: Vec::new(),
            versions: BTreeMap::new(),
            newest_offset: 0,
            queued: vec![Action::call(0, create)],
            cuts: 0,
        }
    }

    /// Returns the next action.
    pub fn next(&mut self, pair: &Pair) -> Action {
        self.newest_offset = pair.newest_offset();
        for slot in 0..self.slots {
            match pair.state(slot) {
                SlotState::Vacant => return self.open(slot),
                SlotState::Detached => return self.reattach(slot),
                SlotState::Attached => {}
            }
        }
        if let Some(action) = self.queued.pop() {
            return action;
        }
        let slot = self.rng.below(self.slots);
        // In an ensemble sessions move often.
        let session_actions = if self.servers > 1 { 12 } else { 4 };
        match self.rng.weighted(&[35, 24, 8, 9, 3, 9, session_actions, 3, 2, 4, 1]) {
            0 => Action::call(slot, self.write(Place::Alone)),
            1 => Action::call(slot, self.read(Place::Alone)),
            2 => Action::call(slot, self.watch_op()),
            3 => Action::call(slot, self.multi(Place::Alone)),
            4 => Action::call(slot, self.multi_read()),
            // The server closes such a connection at the first write. How many requests after it still take
            // a zxid is random, and Herdsman accepts the end of a session only from its new server.
            5 | 6 if pair.has_moved(slot) => self.reattach(slot),
            5 => self.burst(slot),
            6 => self.session_action(slot),
            7 => Action::call(slot, self.auth()),
            8 => self.malformed(slot),
            9 => Action::call(slot, self.quota()),
            _ => self.word(),
        }
    }

    /// Records what replies showed.
    pub fn learn(&mut self, learned: &[Learned]) {
        for fact in learned {
            if let Some(version) = fact.version {
                self.versions.insert(fact.path.clone(), version);
            }
            let Some(created) = &fact.created else {
                continue;
            };
            if created.starts_with(&self.root) && created.len() < 100 {
                self.created.push(created.clone());
            }
            if self.created.len() > CREATED_MAX {
                self.created.remove(0);
            }
        }
    }

    fn burst(&mut self, slot: usize) -> Action {
        let count = 2 + self.rng.below(BURST_MAX - 1);
        let calls = (0..count)
            .map(|_| match self.rng.weighted(&[50, 30, 8, 8, 4]) {
                0 => self.write(Place::InBurst),
                1 => self.read(Place::InBurst),
                2 => self.watch_op(),
                3 => self.multi(Place::InBurst),
                _ => Call::ping(),
            })
            .collect();
        Action::Send { slot, calls }
    }

    fn open(&mut self, slot: usize) -> Action {
        // Not before the script's root exists: queued requests must not be on a connection that is closed.
        if self.servers > 1 && self.queued.is_empty() && self.rng.percent(15) {
            return self.claim(slot);
        }
        let mut hello = if self.rng.percent(70) { Hello::new_session() } else { self.odd_hello() };
        self.choose_server(&mut hello);
        Action::Hello { slot, hello }
    }

    fn word(&mut self) -> Action {
        let words = [
            "ruok", "isro", "conf", "wchs", "srvr", "wchc", "wchp", "mntr", "dump", "dirs", "gtmk",
        ];
        let word = (*self.rng.pick(&words)).to_owned();
        Action::Word { word, server: self.any_server() }
    }
}
