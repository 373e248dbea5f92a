//! Commit, apply, reply: what happens once a txn is durable.

use std::collections::BTreeMap;

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, JuteWrite, Perms, SessionId, Txn, WatchedEvent, Zxid, reply};
use herdsman_tree::acl_list::ProvenIds;
use herdsman_tree::{Events, Outcome, Tree, read};

use super::{Conn, Node, Role};
use crate::io::{Answered, CloseReason, ConnId, Now, Output, Outputs};
use crate::pending::{Pending, RequestOrigin};
use crate::reads;

/// Changes of znodes after which no further txn is applied before readers get the lock of the tree.
const CHANGES_MAX: usize = 1024;

impl Node {
    /// Applies committed txns to the tree, up to `txns_max`, fewer if these make many changes or if `out`
    /// becomes large: readers wait meanwhile. The driver delivers `out` before it lets readers see the tree again: an
    /// event must reach its watcher before any read that shows the change. The caller passes an empty `out`, or
    /// possibly nothing is applied.
    pub fn apply(&mut self, now: Now, tree: &mut Tree, txns_max: usize, out: &mut Outputs) {
        self.answer_postponed(tree, out);
        let mut changes = 0;
        for _ in 0..txns_max {
            if changes >= CHANGES_MAX {
                break;
            }
            self.answer_before_next_txn(tree, out);
            if out.is_large() {
                break;
            }
            changes += self.next_txn().map_or(1, |entry| changes_of(entry, tree));
            let Some(waiting) = self.in_flight.pop_ready(self.committed) else {
                break;
            };
            match waiting {
                Pending::Txn { entry, origin } => {
                    let origin = origin.or_else(|| self.origin_at_learner(&entry));
                    self.apply_txn(&entry, origin, tree, out);
                    self.applied_at_learner(&entry, tree, out);
                    self.note_proof(entry.header, out);
                }
                Pending::Connect { entry, conn, read_only } => {
                    self.apply_txn(&entry, None, tree, out);
                    let session = entry.header.session;
                    if let Some(open) =
                        self.sessions.get(session).filter(|open| open.conn() == Some(conn))
                    {
                        self.attached(conn, session, open.timeout_ms, read_only, out);
                    }
                }
                other => self.answer(other, tree, out),
            }
        }
        self.answer_revalidations(now, tree, out);
        self.applied_in_ensemble(now, tree, out);
    }

    fn apply_txn(
        &mut self,
        entry: &Entry,
        origin: Option<RequestOrigin>,
        tree: &mut Tree,
        out: &mut Outputs,
    ) {
        let (last, zxid) = (tree.last_zxid(), entry.header.zxid);
        assert!(last.is_continued_by(zxid), "{zxid} would be applied after {last}");
        let mut events = std::mem::take(&mut self.events);
        let outcome = tree.apply(entry, &mut events);
        self.overlay.applied(zxid);
        self.send_events(&events, tree, out);
        events.clear();
        self.events = events;
        let decides = matches!(self.role, Role::Deciding { .. });
        if !decides && entry.digest.is_some_and(|digest| !tree.has_digest(&digest)) {
            out.list.push(Output::DigestMismatch { zxid });
        }
        if let Some(origin) = origin {
            let outcome = self.explain_refusal(origin, outcome);
            self.send_outcome(entry, origin, &outcome, out);
        }
        if let Txn::CloseSession { .. } = entry.txn {
            self.session_ended(entry.header.session, origin.is_some(), out);
        }
    }

    fn send_outcome(
        &self,
        entry: &Entry,
        origin: RequestOrigin,
        outcome: &Outcome,
        out: &mut Outputs,
    ) {
        let zxid = entry.header.zxid;
        if has_moved(outcome) {
            return out.close(origin.conn, CloseReason::SessionMoved);
        }
        let answered = match outcome {
            Outcome::Failed(_) => origin.refused_at(zxid),
            _ => origin.answered_at(zxid),
        };
        out.send(origin.conn, Some(answered), |out| {
            _ = reply::reply(out, origin.xid, zxid, |out| outcome.encode_reply(out));
        });
    }

    pub(super) fn session_ended(&mut self, session: SessionId, by_client: bool, out: &mut Outputs) {
        let reason =
            if by_client { CloseReason::SessionClosed } else { CloseReason::SessionExpired };
        let decided = self.sessions.end(session).and_then(|session| session.conn());
        let learned = match &mut self.role {
            Role::Learning(forwarding) => forwarding.end(session),
            _ => None,
        };
        if let Some(conn) = decided.or(learned) {
            out.close(conn, reason);
        }
    }

    /// Sends events to their watchers, except to those that may not read the znode (CVE-2024-23944). Closes the
    /// connections that lost events.
    fn send_events(&self, events: &Events, tree: &Tree, out: &mut Outputs) {
        // A connection may have many long ids: they are hashed once, not for each event.
        let mut proven: BTreeMap<ConnId, ProvenIds<'_>> = BTreeMap::new();
        for event in events {
            let is_open = event.acl.to_anyone().intersects(Perms::READ);
            let frame = out.fill(|out| {
                WatchedEvent { kind: event.kind, path: &event.path }.encode_frame(event.zxid, out);
            });
            let first = out.watchers.len();
            for &watcher in &event.watchers {
                let conn = ConnId::from(watcher);
                let ids = self.conns.get(&conn).map_or(&[][..], |known| &known.ids);
                let may_read = is_open || {
                    let ids = proven.entry(conn).or_insert_with(|| ProvenIds::new(ids));
                    tree.check_acl(&event.acl, Perms::READ, ids).is_ok()
                };
                if may_read {
                    out.watchers.push(conn);
                }
            }
            let watchers = first..out.watchers.len();
            if !watchers.is_empty() {
                out.list.push(Output::Event { kind: event.kind, frame, watchers });
            }
        }
        for watcher in events.watchers_with_lost_events() {
            out.close(ConnId::from(watcher), CloseReason::TooManyEvents);
        }
    }

    pub(super) fn answer(&mut self, waiting: Pending, tree: &Tree, out: &mut Outputs) {
        let zxid = tree.last_zxid();
        match waiting {
            Pending::Read { origin, body } => self.answer_read(origin, &body, tree, out),
            Pending::Sync { origin, path, .. } => {
                out.send(origin.conn, Some(origin.answered_at(zxid)), |out| {
                    _ = reply::reply(out, origin.xid, zxid, |out| {
                        out.put_string(&path);
                        Ok(())
                    });
                });
            }
            Pending::Refusal { origin, code } => {
                out.send(origin.conn, Some(origin.refused_at(zxid)), |out| {
                    reply::header_only(out, origin.xid, zxid, Some(code));
                });
            }
            Pending::LocalClose { origin, session } => {
                out.send(origin.conn, Some(origin.answered_at(zxid)), |out| {
                    reply::header_only(out, origin.xid, zxid, None);
                });
                self.session_ended(session, true, out);
            }
            Pending::Txn { .. } | Pending::Connect { .. } => {
                unreachable!("a txn is applied, not answered")
            }
        }
    }
}

impl Node {
    fn answer_read(&self, origin: RequestOrigin, body: &[u8], tree: &Tree, out: &mut Outputs) {
        let Some(Conn { session, ids, .. }) = self.conns.get(&origin.conn) else { return };
        let RequestOrigin { conn, xid, op, .. } = origin;
        let reader = read::ReadCaller { session: *session, watcher: conn.watcher(), ids };
        let mut result = Ok(());
        let frames = out.fill(|out| result = reads::answer(tree, reader, op, xid, body, out));
        let zxid = tree.last_zxid();
        let answered =
            if result.is_ok() { origin.answered_at(zxid) } else { origin.refused_at(zxid) };
        out.list.push(Output::Send { conn, frames, answers: Some(answered) });
    }
}

/// The number of znodes that a txn changes. The end of a session may not list its ephemerals.
fn changes_of(entry: &Entry, tree: &Tree) -> usize {
    match entry.txn {
        Txn::CloseSession { ephemerals: None } => tree.ephemerals_of(entry.header.session).max(1),
        ref txn => txn.changes(),
    }
}

/// Whether the session has moved to another connection. A client never gets that as a reply, not even in a multi: its
/// connection is closed.
fn has_moved(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(code) => *code == Some(ErrorCode::SessionMoved),
        Outcome::Multi(results) => results.iter().any(has_moved),
        _ => false,
    }
}

impl RequestOrigin {
    fn answered_at(self, zxid: Zxid) -> Answered {
        Answered { xid: self.xid, op: self.op, since_ms: self.since_ms, zxid, failed: false }
    }

    fn refused_at(self, zxid: Zxid) -> Answered {
        Answered { failed: true, ..self.answered_at(zxid) }
    }
}
