//! Sessions whose end takes several txns, because they own very many ephemerals.
//!
//! One txn that deletes a million znodes stalls every server for seconds while it is prepared and applied. So such an
//! end begins with a txn that marks the session as ending (`Overlay::prepare_session_ending`). Then come txns that each
//! delete some of its ephemerals, and at last a closeSession txn for the rest.
//!
//! Invariants: from the first of these txns on, the session accepts no request and is not resumed, also under a new
//! leader, which finds the mark in its tree and continues. So no client that may still use a session misses an
//! ephemeral of it. The closeSession txn is the last one, so no ephemeral outlives its session. One txn of this kind is
//! in flight at a time, and sessions take turns.
//!
//! Apache deletes all ephemerals of a session in one txn.

use std::collections::{BTreeMap, VecDeque};

use herdsman_proto::{SessionId, Zxid};

use crate::io::ConnId;
use crate::pending::RequestOrigin;

/// Time between two txns.
const STEP_MS: u64 = 1;

/// The request that ends a session; the default if it expired.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloseRequest {
    /// Its number in the closeSession txn.
    pub cxid: i32,
    /// The request, if it was sent by a client of this server.
    pub origin: Option<RequestOrigin>,
}

/// The sessions that are ending.
#[derive(Debug, Default)]
pub struct ClosingSessions {
    requests: BTreeMap<SessionId, CloseRequest>,
    /// The same sessions, the next one first.
    turns: VecDeque<SessionId>,
    /// The last txn that deletes ephemerals.
    last_step: Zxid,
    next_step_ms: u64,
}

impl ClosingSessions {
    /// Adds a session. If it is known already, only a client that waits for its end is added.
    pub fn insert(&mut self, session: SessionId, request: CloseRequest) {
        match self.requests.get_mut(&session) {
            Some(known) if known.origin.is_none() => *known = request,
            Some(_) => {}
            None => {
                self.requests.insert(session, request);
                self.turns.push_back(session);
            }
        }
    }

    /// Whether the session is one of these.
    #[must_use]
    pub fn contains(&self, session: SessionId) -> bool {
        self.requests.contains_key(&session)
    }

    /// Whether this connection waits for the end of its session. It may not send anything any more.
    #[must_use]
    pub fn is_awaited_by(&self, session: SessionId, conn: ConnId) -> bool {
        let request = self.requests.get(&session);
        request.and_then(|request| request.origin).is_some_and(|origin| origin.conn == conn)
    }

    /// Returns the connections that wait for the end of their session.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.requests.values().filter_map(|request| request.origin).map(|origin| origin.conn)
    }

    /// Returns when the next txn is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        (!self.turns.is_empty()).then_some(self.next_step_ms)
    }

    /// Takes the next session if it is time for a txn and the one before is `applied`. It is either finished with, or
    /// put back with [`ClosingSessions::continue_later`].
    pub fn take_due(&mut self, now_ms: u64, applied: Zxid) -> Option<(SessionId, CloseRequest)> {
        if now_ms < self.next_deadline()? {
            return None;
        }
        self.next_step_ms = now_ms + STEP_MS;
        if applied < self.last_step {
            return None;
        }
        let session = self.turns.pop_front()?;
        self.requests.remove(&session).map(|request| (session, request))
    }

    /// Puts back a session of which this txn deletes some ephemerals, behind the others.
    pub fn continue_later(&mut self, session: SessionId, request: CloseRequest, step: Zxid) {
        self.last_step = step;
        self.insert(session, request);
    }
}
