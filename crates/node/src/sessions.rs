//! Which sessions are open, where their clients are connected, and when they end.
//! Apache: `SessionTrackerImpl`.

use std::collections::BTreeMap;

use herdsman_proto::{ErrorCode, SessionId};

use crate::expiry::Expiry;
use crate::io::ConnId;

/// One open session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its timeout.
    pub timeout_ms: i32,
    /// The connection it is attached to.
    pub conn: Option<ConnId>,
    /// Its end is on the way to the log.
    pub closing: bool,
    bucket: Option<u64>,
}

/// All open sessions.
#[derive(Debug)]
pub struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    expiry: Expiry,
    next_id: i64,
    /// A driver reports signs of life in steps of this, so a deadline is this much longer.
    touch_step_ms: u64,
}

impl Sessions {
    /// No sessions. Ids start from the server's id and the time, so that a server that was started
    /// again does not hand out an id twice.
    #[must_use]
    pub fn new(server_id: u8, wall_ms: i64, tick_ms: u64, touch_step_ms: u64) -> Self {
        let low_56 = (((wall_ms << 24) as u64) >> 8) as i64;
        let next_id = (i64::from(server_id) << 56) | low_56;
        Sessions { by_id: BTreeMap::new(), expiry: Expiry::new(tick_ms), next_id, touch_step_ms }
    }

    /// An id that no session has.
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

    /// Starts to track a session.
    pub fn open(&mut self, id: SessionId, timeout_ms: i32, conn: Option<ConnId>, now_ms: u64) {
        let session = Session { timeout_ms, conn, closing: false, bucket: None };
        self.by_id.insert(id, session);
        self.touch(id, now_ms);
    }

    /// The session, if it is open.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Number of open sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// No session is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The client is alive: its deadline moves.
    pub fn touch(&mut self, id: SessionId, now_ms: u64) {
        let Some(session) = self.by_id.get_mut(&id).filter(|session| !session.closing) else {
            return;
        };
        let timeout_ms = u64::try_from(session.timeout_ms).unwrap_or(0);
        let bucket = self.expiry.bucket(now_ms + timeout_ms + self.touch_step_ms);
        self.expiry.set(id, session.bucket, bucket);
        session.bucket = Some(bucket);
    }

    /// Every client gets its whole timeout again, as after a restart.
    pub fn touch_all(&mut self, now_ms: u64) {
        let all: Vec<_> = self.by_id.keys().copied().collect();
        for id in all {
            self.touch(id, now_ms);
        }
    }

    /// Attaches an open session to a connection. Gives the connection it had before, or the error
    /// if it is over.
    pub fn attach(
        &mut self,
        id: SessionId,
        conn: ConnId,
        timeout_ms: i32,
        now_ms: u64,
    ) -> Result<Option<ConnId>, ErrorCode> {
        let session = self.by_id.get_mut(&id).filter(|session| !session.closing);
        let session = session.ok_or(ErrorCode::SessionExpired)?;
        session.timeout_ms = timeout_ms;
        let before = session.conn.replace(conn);
        self.touch(id, now_ms);
        Ok(before.filter(|&before| before != conn))
    }

    /// The connection is gone; the session lives on until its deadline.
    pub fn detach(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.by_id.get_mut(&id).filter(|session| session.conn == Some(conn))
        {
            session.conn = None;
        }
    }

    /// May this connection write in this session's name?
    pub fn check(&self, id: SessionId, conn: ConnId) -> Result<(), ErrorCode> {
        match self.by_id.get(&id) {
            Some(session) if session.closing => Err(ErrorCode::SessionExpired),
            Some(session) if session.conn != Some(conn) => Err(ErrorCode::SessionMoved),
            Some(_) => Ok(()),
            None => Err(ErrorCode::SessionExpired),
        }
    }

    /// The session's end is on its way: it takes nothing more and has no deadline.
    pub fn set_closing(&mut self, id: SessionId) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.closing = true;
            if let Some(bucket) = session.bucket.take() {
                self.expiry.remove(id, bucket);
            }
        }
    }

    /// The session's end is committed.
    pub fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.set_closing(id);
        self.by_id.remove(&id)
    }

    /// When the next session may end.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.expiry.next()
    }

    /// Sessions whose time is up; they are closing from now on.
    pub fn take_due(&mut self, now_ms: u64) -> Vec<SessionId> {
        let due = self.expiry.take_due(now_ms);
        for id in &due {
            let session = self.by_id.get_mut(id).expect("only tracked sessions have deadlines");
            session.bucket = None;
            session.closing = true;
        }
        due
    }

    /// Deadlines and the sessions that have them, earliest first.
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
        sessions.open(id, 4000, Some(CONN), 0);
        assert!(sessions.take_due(4999).is_empty());
        sessions.touch(id, 4999);
        assert!(sessions.take_due(9000).is_empty());
        assert_eq!(sessions.take_due(10_000), [id]);
        assert_eq!(sessions.check(id, CONN), Err(ErrorCode::SessionExpired));
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
        sessions.open(id, 4000, Some(CONN), 0);
        assert_eq!(sessions.attach(id, ConnId(2), 4000, 10), Ok(Some(CONN)));
        assert_eq!(sessions.check(id, CONN), Err(ErrorCode::SessionMoved));
        assert_eq!(sessions.check(id, ConnId(2)), Ok(()));
        sessions.detach(id, CONN);
        assert_eq!(sessions.check(id, ConnId(2)), Ok(()));
    }
}
