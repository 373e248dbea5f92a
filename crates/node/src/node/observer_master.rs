//! A follower that serves observers: forwards their clients' requests to the leader, and returns the answers.
//!
//! Committed txns need no separate return path, agreement sends each to the observers. The leader's other
//! answers come in the order of the questions, so [`Forwarding`](crate::forwarding) stores the requesters.
//!
//! To the leader all those clients look like this follower's, so it does not notice when a session moves
//! between servers behind the same follower. This follower does: it closes its own client's connection,
//! and a write that an observer forwards for a client that has left it is returned to the observer, which
//! closes that connection. Such a write must not be ordered after what the client has written since. The leader gets a
//! request in its place that it can only refuse: an Apache observer does not understand the packet that
//! returns the write, and would wait forever for a txn with that cxid, with all its other writes queued after it.
//!
//! Apache: `ObserverMaster`, `FollowerZooKeeperServer.processObserverRequest`. There a write of a session
//! that has moved in this way still counts.

use herdsman_proto::{OpCode, QuorumPacket, Request, SessionId, WriteRequest};
use herdsman_zab::{LinkId, Output as PeerOutput};

use super::{Node, Role};
use crate::forwarding::Requester;
use crate::io::{CloseReason, Now, Output, Outputs};

impl Node {
    /// Handles a packet of an observer that concerns its clients.
    pub(super) fn take_from_observer(
        &mut self,
        observer: LinkId,
        packet: QuorumPacket,
        out: &mut Outputs,
    ) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        let requester = Requester::Observer(observer);
        let accepted = match &packet {
            QuorumPacket::Request { session, op, .. } => match OpCode::from_code(*op) {
                Some(OpCode::Sync) => forwarding.ask_sync(observer),
                _ if forwarding.has_left(*session, observer) => {
                    return send_back(observer, forwarding.link(), &packet, out);
                }
                Some(OpCode::CreateSession) => {
                    forwarding.attach_elsewhere(*session, observer);
                    Ok(())
                }
                _ => Ok(()),
            },
            QuorumPacket::Revalidate { session, timeout_ms } => {
                forwarding.ask_about(*session, *timeout_ms, requester)
            }
            QuorumPacket::Ping { touched, .. } => {
                for (session, timeout_ms) in touched {
                    forwarding.touch_elsewhere(*session, *timeout_ms);
                }
                return;
            }
            _ => return,
        };
        match accepted {
            Ok(()) => {
                let link = forwarding.link();
                out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
            }
            Err(_) => self.dismiss_observer(observer),
        }
    }

    /// Handles a write that this observer's master has returned: its session has moved.
    pub(super) fn take_back(&mut self, session: SessionId, cxid: i32, out: &mut Outputs) {
        let Role::Learning(forwarding) = &mut self.role else { return };
        if let Some(conn) = forwarding.conn_of_write(session, cxid) {
            forwarding.detach(session, conn);
            out.close(conn, CloseReason::SessionMoved);
        }
    }

    fn dismiss_observer(&mut self, observer: LinkId) {
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.zab.dismiss_observer(observer, &mut ensemble.asked);
        }
    }

    /// Passes the leader's answer about a session to the observer that asked.
    pub(super) fn revalidated_for_observer(
        &mut self,
        observer: LinkId,
        session: SessionId,
        timeout_ms: i32,
        valid: bool,
        out: &mut Outputs,
    ) {
        let packet = QuorumPacket::Revalidated { session, valid };
        out.list.push(Output::Peer(PeerOutput::Send { link: observer, packet }));
        let Role::Learning(forwarding) = &mut self.role else { return };
        if valid {
            if let Some(conn) = forwarding.attach_elsewhere(session, observer) {
                out.close(conn, CloseReason::SessionMoved);
            }
            forwarding.touch_elsewhere(session, timeout_ms);
        }
    }

    /// Begins to serve observers: this follower can forward requests from now on.
    pub(super) fn serve_observers(&mut self, now: Now, out: &mut Outputs) {
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.zab.serve_observers(now.monotonic_ms, &mut ensemble.asked);
        }
        self.carry_out(now, out);
    }
}

/// Returns a write to its observer, and sends the leader a request that becomes an error txn with the same cxid.
fn send_back(observer: LinkId, leader: LinkId, packet: &QuorumPacket, out: &mut Outputs) {
    let &QuorumPacket::Request { session, cxid, op, .. } = packet else { return };
    let request = |op, body: Vec<u8>| QuorumPacket::Request {
        session,
        cxid,
        op,
        body: body.into(),
        ids: Vec::new(),
    };
    let mut no_path = Vec::new();
    let delete = WriteRequest::Delete { path: "".into(), version: -1 };
    Request::Write(delete).encode(&mut no_path);
    let refused = request(OpCode::Delete.code(), no_path);
    for (link, packet) in [(observer, request(op, Vec::new())), (leader, refused)] {
        out.list.push(Output::Peer(PeerOutput::Send { link, packet }));
    }
}
