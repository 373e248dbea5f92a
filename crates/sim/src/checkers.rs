//! What must never happen, and what must: one property a file, each with its source.
//!
//! In: [`Fact`]s, one at a time, in the order in which they become true. Out: nothing, or the first
//! sentence that says what is wrong. A checker believes no server: facts are what the world itself saw a
//! server do (log, deliver, become leader) and what clients received.

use bytes::Bytes;
use herdsman_node::LocalSessions;
use herdsman_proto::txn::Entry;
use herdsman_proto::{EventType, Id, Membership, ServerId, SessionId, Txn, Zxid};
use herdsman_tree::Tree;

use crate::chronicle::{Chronicle, has_effect};
use crate::client::Op;
use crate::world::{Mirror, ServerIndex};

mod agreement;
mod digests;
mod durability;
mod ephemerals;
mod expiry;
mod forward_only;
mod handshake;
mod integrity;
mod leadership;
mod lifetimes;
mod linearizable_writes;
pub mod liveness;
mod memberships;
mod outcomes;
mod prefix_consistency;
mod primary_integrity;
mod primary_order;
mod read_only;
mod read_your_writes;
mod reads;
mod session_fifo;
mod watches;

/// Something that has become true.
#[derive(Debug)]
pub enum Fact<'a> {
    /// A leader has proposed a txn.
    Proposed {
        /// Which server.
        place: ServerIndex,
        /// Its zxid.
        zxid: Zxid,
        /// Fingerprint of its bytes.
        hash: u64,
    },
    /// A server leads.
    Established {
        /// Which.
        place: ServerIndex,
        /// In which epoch.
        epoch: u32,
        /// What it has logged.
        log: &'a Mirror,
    },
    /// A server has done all that its last input asked for, and its disk neither cuts nor replaces the log.
    Memberships {
        /// Which server.
        place: ServerIndex,
        /// The membership that is in force there.
        in_force: &'a Membership,
        /// The one that is pending there.
        pending: Option<&'a Membership>,
        /// What it has logged.
        log: &'a Mirror,
    },
    /// A leader has proposed a membership.
    MembershipProposed {
        /// The new one.
        membership: &'a Membership,
        /// Servers that observe at the moment, so that their acks do not count.
        observing: &'a [ServerId],
    },
    /// A server has applied a txn and shows it to clients.
    Delivered {
        /// Which server.
        place: ServerIndex,
        /// The one before in its history.
        previous: Zxid,
        /// Its zxid.
        zxid: Zxid,
        /// Fingerprint of its bytes.
        hash: u64,
    },
    /// A txn was delivered for the first time; the chronicle does not have it yet.
    Committed {
        /// Its zxid.
        zxid: Zxid,
        /// The txn.
        entry: &'a Entry,
    },
    /// A server has lost its disk: what it knew is gone.
    LostDisk {
        /// Which server.
        place: ServerIndex,
    },
    /// A server that serves clients has come to this txn.
    Shown {
        /// Which server.
        place: ServerIndex,
        /// Its tree.
        tree: &'a Tree,
    },
    /// A server's own check found its tree to be another than the leader's.
    DigestMismatch {
        /// Which server.
        place: ServerIndex,
        /// After which txn.
        zxid: Zxid,
    },
    /// A client has sent a request.
    Invoked {
        /// Which client.
        client: usize,
        /// In which session.
        session: SessionId,
        /// Its number.
        xid: i32,
        /// What it asks for.
        op: &'a Op,
    },
    /// A client has got an answer.
    Replied(Reply<'a>),
    /// A client has got a watch event.
    Notified {
        /// Which client.
        client: usize,
        /// What happened.
        kind: EventType,
        /// To which path.
        path: &'a str,
        /// By which txn; below zero for a change that was found when watches were set again.
        zxid: Zxid,
        /// What the client has proven to be.
        ids: &'a [Id],
        /// The server has no leader.
        read_only: bool,
    },
    /// A server has accepted a client.
    Connected {
        /// Which client.
        client: usize,
        /// The session that it asked for; `NONE` for a new one.
        asked: SessionId,
        /// The one that it got.
        session: SessionId,
        /// With the timeout that it asked for.
        timeout_is_right: bool,
        /// By a server without a leader, though the client did not accept such a one.
        read_only_unasked: bool,
    },
    /// A client was told that its session is over.
    Expired {
        /// Which client.
        client: usize,
        /// Which session.
        session: SessionId,
        /// The last zxid that the client had seen in it.
        seen: Zxid,
    },
    /// A client has lost its connection.
    Disconnected {
        /// Which client.
        client: usize,
    },
    /// Faults have stopped, requests too: these are all trees.
    AtRest {
        /// Of each server.
        trees: &'a [(ServerIndex, &'a Tree)],
    },
}

/// An answer to a client.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Which client.
    pub client: usize,
    /// In which session.
    pub session: SessionId,
    /// To which request.
    pub xid: i32,
    /// What it asked for.
    pub op: &'a Op,
    /// The zxid in the header.
    pub zxid: Zxid,
    /// The error in the header, 0 for none.
    pub code: i32,
    /// The body.
    pub body: &'a Bytes,
    /// The last zxid that this client had seen before.
    pub seen: Zxid,
    /// The last zxid that an event on this connection had told of.
    pub heard: Zxid,
    /// What the client has proven to be.
    pub ids: &'a [Id],
    /// The server has no leader: it answers reads from what it has in its log.
    pub read_only: bool,
}

impl Reply<'_> {
    /// Whether the request became a txn and was answered with it.
    fn is_done_write(&self, chronicle: &Chronicle) -> bool {
        let is_local_close = *self.op == Op::CloseSession && !chronicle.was_global(self.session);
        self.op.is_write() && self.code == 0 && !is_local_close
    }
}

/// Whether this marks a session as ending, which takes several txns.
#[must_use]
pub fn begins_end(txn: &Txn) -> bool {
    matches!(txn, Txn::CreateSession { timeout_ms: -1 })
}

/// Whether this deletes some ephemerals of a session that is ending: a multi of no session.
fn is_step_of_end(entry: &Entry) -> bool {
    entry.header.session == SessionId::NONE && matches!(entry.txn, Txn::Multi(_))
}

/// One property.
pub trait Checker {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Takes a fact.
    ///
    /// # Errors
    /// The property does not hold.
    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String>;
}

/// All checkers.
pub struct Checkers {
    all: Vec<Box<dyn Checker>>,
}

impl Checkers {
    /// One of each, for an ensemble with or without local sessions, in which the txns that end a session delete at most
    /// so many ephemerals each.
    #[must_use]
    pub fn new(local_sessions: LocalSessions, ephemerals_per_txn_max: usize) -> Self {
        Checkers {
            all: vec![
                Box::new(leadership::Leadership::default()),
                Box::new(integrity::Integrity::default()),
                Box::new(agreement::Agreement::default()),
                Box::new(prefix_consistency::PrefixConsistency),
                Box::new(primary_order::PrimaryOrder::default()),
                Box::new(primary_integrity::PrimaryIntegrity),
                Box::new(digests::Digests),
                Box::new(session_fifo::SessionFifo::default()),
                Box::new(linearizable_writes::LinearizableWrites::default()),
                Box::new(durability::Durability::default()),
                Box::new(read_your_writes::ReadYourWrites),
                Box::new(reads::Reads),
                Box::new(watches::Watches::default()),
                Box::new(ephemerals::Ephemerals::new(local_sessions, ephemerals_per_txn_max)),
                Box::new(forward_only::ForwardOnly::default()),
                Box::new(outcomes::Outcomes),
                Box::new(lifetimes::Lifetimes::default()),
                Box::new(read_only::ReadOnly),
                Box::new(expiry::Expiry::default()),
                Box::new(handshake::Handshake::default()),
                Box::new(memberships::Memberships::default()),
            ],
        }
    }

    /// All but one.
    #[must_use]
    pub fn without(mut self, name: Option<&str>) -> Self {
        self.all.retain(|checker| Some(checker.name()) != name);
        self
    }

    /// The names of all properties, also of those that the world and the run check themselves.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let all = Checkers::new(LocalSessions::Off, usize::MAX).all;
        let own = ["every write is answered", "recovery", "liveness", "no panic"];
        all.iter().map(|checker| checker.name()).chain(own).collect()
    }

    /// Shows a fact to all.
    ///
    /// # Errors
    /// The first property that does not hold, and why.
    pub fn observe(
        &mut self,
        fact: &Fact<'_>,
        chronicle: &Chronicle,
    ) -> Result<(), (String, String)> {
        for checker in &mut self.all {
            if let Err(why) = checker.observe(fact, chronicle) {
                return Err((checker.name().to_owned(), why));
            }
        }
        Ok(())
    }
}
