//! The session table: which sessions are open, where their clients are connected, and when they expire.
//!
//! A leader or standalone server tracks all sessions of the ensemble, and the local ones of its own clients. A learner
//! tracks its local sessions only: the leader ends the others. All servers remember which sessions have ended.
//! Apache: `SessionTrackerImpl`, `UpgradeableSessionTracker`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use herdsman_proto::{ErrorCode, SessionId};
use herdsman_zab::LinkId;

use crate::ended::EndedSessions;
use crate::expiry::ExpiryQueue;
use crate::io::ConnId;

/// The connection or learner through which a session's client sends its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// A connection to this server.
    Conn(ConnId),
    /// The learner to which it is connected.
    Learner(LinkId),
    /// A connection to this server that is closed. Until the client connects again, no connection or learner may send
    /// its requests, least of all a learner that it left before.
    Closed,
}

/// Whether the whole ensemble knows a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionScope {
    /// The whole ensemble: a txn opened it, and a txn ends it.
    Global,
    /// Only this server knows it. No txn opens or ends it, and it owns no ephemerals.
    Local,
}

/// One open session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its timeout.
    pub timeout_ms: i32,
    /// The connection or learner of its client.
    pub owner: Option<SessionOwner>,
    /// Its end is proposed.
    pub closing: bool,
    /// Whether the whole ensemble knows it.
    pub scope: SessionScope,
    bucket: Option<u64>,
}

impl Session {
    /// Returns the connection to this server, if it has one.
    #[must_use]
    pub fn conn(&self) -> Option<ConnId> {
        match self.owner {
            Some(SessionOwner::Conn(conn)) => Some(conn),
            _ => None,
        }
    }

    /// Returns when it expires if its client stays silent, by the driver's clock. `None` while it is closing.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u64> {
        self.bucket
    }
}

/// All open sessions.
#[derive(Debug)]
pub struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    /// The local ones of `by_id`, of which there may be very few among very many, or the other way round.
    local: BTreeSet<SessionId>,
    expiry: ExpiryQueue,
    ended: EndedSessions,
    next_id: i64,
    /// When too many sessions are due to end in one step: the time of the next step.
    none_due_until_ms: u64,
    expired: u64,
    /// The interval at which the driver reports signs of life; deadlines are extended by it.
    touch_step_ms: u64,
}

impl Sessions {
    /// Creates an empty table. Ids start from the server's id and the time, so that a restarted server
    /// does not assign an id twice.
    #[must_use]
    pub fn new(server_id: u8, wall_ms: i64, tick_ms: u64, touch_step_ms: u64) -> Self {
        let low_56 = (((wall_ms << 24) as u64) >> 8) as i64;
        let next_id = (i64::from(server_id) << 56) | low_56;
        Sessions {
            by_id: BTreeMap::new(),
            local: BTreeSet::new(),
            expiry: ExpiryQueue::new(tick_ms),
            ended: EndedSessions::default(),
            next_id,
            none_due_until_ms: 0,
            expired: 0,
            touch_step_ms,
        }
    }

    /// Returns an id that no session has.
    pub fn allocate(&mut self) -> SessionId {
        loop {
            let id = SessionId(self.next_id);
            self.next_id += 1;
            // The smallest number marks container znodes.
            if id.0 != i64::MIN && id != SessionId::NONE && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Starts to track a session of the whole ensemble.
    pub fn open(
        &mut self,
        id: SessionId,
        timeout_ms: i32,
        owner: Option<SessionOwner>,
        now_ms: u64,
    ) {
        let scope = SessionScope::Global;
        self.track(id, Session { timeout_ms, owner, closing: false, scope, bucket: None }, now_ms);
    }

    /// Starts to track a session that only this server knows.
    pub fn open_local(&mut self, id: SessionId, timeout_ms: i32, conn: ConnId, now_ms: u64) {
        let (owner, scope) = (Some(SessionOwner::Conn(conn)), SessionScope::Local);
        self.track(id, Session { timeout_ms, owner, closing: false, scope, bucket: None }, now_ms);
    }

    fn track(&mut self, id: SessionId, session: Session, now_ms: u64) {
        if let Some(bucket) = self.by_id.get(&id).and_then(|session| session.bucket) {
            self.expiry.remove(id, bucket);
        }
        match session.scope {
            SessionScope::Local => self.local.insert(id),
            SessionScope::Global => self.local.remove(&id),
        };
        self.by_id.insert(id, session);
        self.touch(id, now_ms);
    }

    /// Makes a local session a session of the whole ensemble.
    pub fn upgrade(&mut self, id: SessionId) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.scope = SessionScope::Global;
        }
        self.local.remove(&id);
    }

    /// Stops tracking all sessions. Local sessions, which no other server knows, end with that.
    pub fn forget_all(&mut self) {
        self.by_id.clear();
        for id in std::mem::take(&mut self.local) {
            self.ended.insert(id);
        }
        self.expiry.clear();
    }

    /// Forgets all sessions, and tracks these from now on: each gets a whole timeout.
    pub fn restart(&mut self, all: impl Iterator<Item = (SessionId, i32)>, now_ms: u64) {
        self.forget_all();
        for (id, timeout_ms) in all {
            self.open(id, timeout_ms, None, now_ms);
        }
    }

    /// Returns the session, if it is open.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Whether only this server knows the session.
    #[must_use]
    pub fn is_local(&self, id: SessionId) -> bool {
        self.local.contains(&id)
    }

    /// Returns the number of local sessions.
    #[must_use]
    pub fn local_len(&self) -> usize {
        self.local.len()
    }

    /// Iterates over the local sessions after this id, in order of their ids. The others cost nothing.
    pub fn local_after(&self, after: SessionId) -> impl Iterator<Item = (SessionId, &Session)> {
        let behind = self.local.range((Bound::Excluded(after), Bound::Unbounded));
        behind.map(|id| (*id, self.by_id.get(id).expect("a local session is tracked")))
    }

    /// Returns the number of tracked sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no session is tracked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Notes that the client is alive: its deadline moves.
    pub fn touch(&mut self, id: SessionId, now_ms: u64) {
        let Some(session) = self.by_id.get_mut(&id).filter(|session| !session.closing) else {
            return;
        };
        let timeout_ms = u64::try_from(session.timeout_ms).unwrap_or(0);
        let bucket = self.expiry.bucket(now_ms + timeout_ms + self.touch_step_ms);
        self.expiry.set(id, session.bucket, bucket);
        session.bucket = Some(bucket);
    }

    /// Gives every client its whole timeout again, as after a restart.
    pub fn touch_all(&mut self, now_ms: u64) {
        let all: Vec<_> = self.by_id.keys().copied().collect();
        for id in all {
            self.touch(id, now_ms);
        }
    }

    /// Moves an open session to `owner`. Returns its owner before, or the error if it is over.
    pub fn attach(
        &mut self,
        id: SessionId,
        owner: SessionOwner,
        timeout_ms: i32,
        now_ms: u64,
    ) -> Result<Option<SessionOwner>, ErrorCode> {
        let session = self.by_id.get_mut(&id).filter(|session| !session.closing);
        let session = session.ok_or(ErrorCode::SessionExpired)?;
        session.timeout_ms = timeout_ms;
        let before = session.owner.replace(owner);
        self.touch(id, now_ms);
        Ok(before.filter(|&before| before != owner))
    }

    /// Detaches a closed connection; the session stays open until its deadline.
    pub fn detach(&mut self, id: SessionId, conn: ConnId) {
        let owner = Some(SessionOwner::Conn(conn));
        if let Some(session) = self.by_id.get_mut(&id).filter(|session| session.owner == owner) {
            session.owner = Some(SessionOwner::Closed);
        }
    }

    /// Checks that this connection or learner may send requests of the session. A session that has no owner since
    /// this server began to decide is assigned to the first that sends one.
    pub fn check(&mut self, id: SessionId, owner: SessionOwner) -> Result<(), ErrorCode> {
        let session = self.by_id.get_mut(&id).filter(|session| !session.closing);
        let session = session.ok_or(ErrorCode::SessionExpired)?;
        if *session.owner.get_or_insert(owner) == owner {
            Ok(())
        } else {
            Err(ErrorCode::SessionMoved)
        }
    }

    /// Notes that the session's end is proposed: it accepts no requests and has no deadline.
    pub fn set_closing(&mut self, id: SessionId) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.closing = true;
            if let Some(bucket) = session.bucket.take() {
                self.expiry.remove(id, bucket);
            }
        }
    }

    /// Notes that the session is over, whether it was tracked here or not. Returns it if it was tracked.
    pub fn end(&mut self, id: SessionId) -> Option<Session> {
        self.ended.insert(id);
        self.release(id)
    }

    /// Whether the session is known to be over.
    #[must_use]
    pub fn has_ended(&self, id: SessionId) -> bool {
        self.ended.contains(id)
    }

    /// Stops tracking the session. Returns it if it was tracked.
    pub fn release(&mut self, id: SessionId) -> Option<Session> {
        self.set_closing(id);
        self.local.remove(&id);
        self.by_id.remove(&id)
    }

    /// Returns when the next session may expire.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.expiry.next().map(|deadline_ms| deadline_ms.max(self.none_due_until_ms))
    }

    /// Takes a session whose deadline has passed; it is closing from now on. One that is touched before it is taken
    /// stays open, as if this server had checked slightly later: its end was not announced yet.
    pub fn take_due(&mut self, now_ms: u64) -> Option<SessionId> {
        if now_ms < self.none_due_until_ms {
            return None;
        }
        let id = self.expiry.take_due(now_ms)?;
        let session = self.by_id.get_mut(&id).expect("only tracked sessions have deadlines");
        session.bucket = None;
        session.closing = true;
        self.expired += 1;
        Some(id)
    }

    /// Returns how many sessions have expired.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Lets no session expire before this time, so that other requests are served first.
    pub fn pause_expiry(&mut self, until_ms: u64) {
        self.none_due_until_ms = until_ms;
    }

    /// Iterates over deadlines and the sessions that have them, earliest first.
    pub fn deadlines(&self) -> impl Iterator<Item = (u64, Vec<SessionId>)> + '_ {
        self.expiry.buckets().map(|(bucket, sessions)| (bucket, sessions.iter().copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONN: ConnId = ConnId(1);

    fn sessions() -> Sessions {
        Sessions::new(1, 1_700_000_000_000, 1000, 50)
    }

    #[test]
    fn ids_carry_the_servers_id_in_front() {
        let mut sessions = sessions();
        let (first, second) = (sessions.allocate(), sessions.allocate());
        assert_eq!(first.0 >> 56, 1);
        assert_eq!(second.0, first.0 + 1);
    }

    #[test]
    fn a_touched_session_lives_longer() {
        let mut sessions = sessions();
        let id = sessions.allocate();
        sessions.open(id, 4000, Some(SessionOwner::Conn(CONN)), 0);
        assert_eq!(sessions.take_due(4999), None);
        sessions.touch(id, 4999);
        assert_eq!(sessions.take_due(9000), None);
        assert_eq!(sessions.get(id).unwrap().deadline_ms(), Some(10_000));
        assert_eq!(sessions.take_due(10_000), Some(id));
        assert_eq!(sessions.get(id).unwrap().deadline_ms(), None);
        assert_eq!(sessions.check(id, SessionOwner::Conn(CONN)), Err(ErrorCode::SessionExpired));
    }

    #[test]
    fn local_sessions_are_listed_from_any_place() {
        let mut sessions = sessions();
        let ids: Vec<_> = (0..4).map(|_| sessions.allocate()).collect();
        sessions.open(ids[0], 4000, None, 0);
        for id in &ids[1..] {
            sessions.open_local(*id, 4000, CONN, 0);
        }
        let local_after =
            |after| -> Vec<_> { sessions.local_after(after).map(|(id, _)| id).collect() };
        assert_eq!(local_after(SessionId(i64::MIN)), ids[1..]);
        assert_eq!(local_after(ids[1]), ids[2..]);
    }

    /// A global session used to be passed over in each page of the local ones.
    #[test]
    fn local_sessions_are_counted_through_all_changes() {
        let mut sessions = sessions();
        let ids: Vec<_> = (0..5).map(|_| sessions.allocate()).collect();
        let check = |sessions: &Sessions, local: &[SessionId]| {
            assert!(sessions.local_after(SessionId(i64::MIN)).map(|(id, _)| id).eq(local.to_vec()));
            assert_eq!((sessions.local_len(), sessions.local.len()), (local.len(), local.len()));
            assert!(ids.iter().all(|id| sessions.is_local(*id) == local.contains(id)));
        };
        ids.iter().for_each(|id| sessions.open_local(*id, 4000, CONN, 0));
        check(&sessions, &ids);
        sessions.upgrade(ids[0]);
        sessions.open(ids[1], 4000, None, 0);
        sessions.end(ids[2]);
        check(&sessions, &ids[3..]);
        sessions.release(ids[3]);
        check(&sessions, &ids[4..]);
        sessions.forget_all();
        check(&sessions, &[]);
        assert!(sessions.has_ended(ids[4]) && !sessions.has_ended(ids[0]));
    }

    #[test]
    fn a_session_is_never_ended_before_its_timeout() {
        let mut sessions = sessions();
        for timeout_ms in 1..3000 {
            let id = sessions.allocate();
            sessions.open(id, timeout_ms, None, 500);
            let deadline = sessions.by_id[&id].bucket.unwrap();
            assert!(deadline > 500 + timeout_ms as u64 + 50);
        }
    }

    #[test]
    fn a_session_that_moved_takes_nothing_from_its_old_connection() {
        let mut sessions = sessions();
        let id = sessions.allocate();
        let (old, new) = (SessionOwner::Conn(CONN), SessionOwner::Learner(LinkId(2)));
        sessions.open(id, 4000, Some(old), 0);
        assert_eq!(sessions.attach(id, new, 4000, 10), Ok(Some(old)));
        assert_eq!(sessions.check(id, old), Err(ErrorCode::SessionMoved));
        assert_eq!(sessions.check(id, new), Ok(()));
        sessions.detach(id, CONN);
        assert_eq!(sessions.check(id, new), Ok(()));
        assert_eq!(sessions.attach(id, old, 4000, 20), Ok(Some(new)));
        sessions.detach(id, CONN);
        assert_eq!(sessions.check(id, new), Err(ErrorCode::SessionMoved));
    }
}
