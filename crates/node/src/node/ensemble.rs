//! The node in an ensemble: carries out what agreement requests, and changes roles.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::request::ReconfigRequest;
use herdsman_proto::txn::Entry;
use herdsman_proto::{
    ErrorCode, JuteReader, Membership, OpCode, QuorumPacket, Request, ServerState, SessionId, Txn,
    TxnHeader, WriteRequest, Xid, Zxid,
};
use herdsman_tree::{Caller, Overlay, Tree};
use herdsman_zab::log::LogStorage;
use herdsman_zab::settings::ZabSettings;
use herdsman_zab::{
    Check, InitialState, Input, LinkId, Output as PeerOutput, RoleStatus, StepDownReason,
    TreeAfterCut, Voting, Zab,
};

use super::{Node, NodeSettings, Role};
use crate::cxids::Numbering;
use crate::forwarding::Forwarding;
use crate::io::{CloseReason, Now, Output, Outputs, StorageState};
use crate::pending::Pending;
use crate::reconfig::plan_reconfig;

/// Agreement, and the node's state that depends on it.
#[derive(Debug)]
pub(super) struct Ensemble {
    pub(super) zab: Zab,
    /// Actions that agreement has just requested.
    pub(super) asked: Vec<PeerOutput>,
    /// A role that begins once everything that is committed by then is applied.
    upcoming: Option<RoleStatus>,
    /// Requests of learners to a leader whose role has not begun yet. A driver applies what is committed after
    /// every batch of inputs, so these are few.
    deferred: Vec<(LinkId, QuorumPacket)>,
    /// Set while the role continues only until everything that was committed in it is applied, or until something
    /// comes from the next leader, so that these requests are answered, above all the change of membership by which a
    /// leader leaves.
    leaving: Option<Now>,
    /// The cxid of the txn that this server has requested in its current role, see `ask_for_proof`.
    proof: Option<i32>,
}

impl Ensemble {
    /// Keeps a learner's packet until this leader's role begins; returns it if this server is not about to lead.
    pub(super) fn defer(&mut self, link: LinkId, packet: QuorumPacket) -> Option<QuorumPacket> {
        if !matches!(self.upcoming, Some(RoleStatus::Leading { .. })) {
            return Some(packet);
        }
        self.deferred.push((link, packet));
        None
    }

    pub(super) fn take_deferred(&mut self) -> Vec<(LinkId, QuorumPacket)> {
        std::mem::take(&mut self.deferred)
    }

    /// Handles a sync of a learner's client, which wants to see everything that was committed before now.
    pub(super) fn sync(&mut self, link: LinkId) {
        self.zab.sync(link, &mut self.asked);
    }
}

impl Node {
    /// Starts a node of an ensemble. It serves no clients until there is a leader.
    #[must_use]
    pub fn join(
        settings: NodeSettings,
        peers: ZabSettings,
        initial: InitialState,
        tree: &Tree,
        now: Now,
        out: &mut Outputs,
    ) -> Self {
        let mut node = Node::new(settings, tree, now);
        node.role = Role::Idle { looking_since_ms: None };
        node.sessions.forget_all();
        let mut asked = Vec::new();
        let zab = Zab::new(peers, initial, now.monotonic_ms, &mut asked);
        node.ensemble = Some(Ensemble {
            zab,
            asked,
            upcoming: None,
            deferred: Vec::new(),
            leaving: None,
            proof: None,
        });
        node.carry_out(now, out);
        node
    }

    /// Agreement with the other servers; `None` on a standalone server.
    #[must_use]
    pub fn zab(&self) -> Option<&Zab> {
        self.ensemble.as_ref().map(|ensemble| &ensemble.zab)
    }

    pub(super) fn is_learning(&self) -> bool {
        matches!(self.role, Role::Learning(_))
    }

    pub(super) fn has_upcoming_role(&self) -> bool {
        self.ensemble.as_ref().is_some_and(|it| it.leaving.is_some() || it.upcoming.is_some())
    }

    /// Whether this server has lost its leader, but some of what was committed is not applied yet.
    pub(super) fn is_leaving_role(&self) -> bool {
        self.ensemble.as_ref().is_some_and(|ensemble| ensemble.leaving.is_some())
    }

    pub(super) fn step_peers(&mut self, now: Now, input: Input, tree: &Tree, out: &mut Outputs) {
        if self.concerns_next_term(&input) {
            self.leave_old_role(now, out);
        }
        let input = match input {
            Input::Packet { link, packet } => {
                match self.take_session_packet(now, link, packet, tree, out) {
                    Some(packet) => Input::Packet { link, packet },
                    None => return self.carry_out(now, out),
                }
            }
            Input::Truncated { zxid, tree: TreeAfterCut::Kept } => {
                self.in_flight.cut_after(zxid);
                input
            }
            Input::Truncated { zxid, .. } | Input::SnapshotInstalled { zxid, .. } => {
                // The tree has been replaced by one that ends with this txn.
                self.in_flight.clear();
                self.committed = zxid;
                input
            }
            other => other,
        };
        let Some(ensemble) = &mut self.ensemble else { return };
        if let Input::Packet {
            link,
            packet:
                QuorumPacket::Proposal { payload, .. }
                | QuorumPacket::Inform { payload, .. }
                | QuorumPacket::InformAndActivate { payload, .. },
        } = &input
            && ensemble.zab.is_to_leader(*link)
            && Entry::decode(payload).is_err()
        {
            ensemble.zab.step_down(
                now.monotonic_ms,
                StepDownReason::LeaderRefused,
                &mut ensemble.asked,
            );
        } else {
            ensemble.zab.step(now.monotonic_ms, input, &mut ensemble.asked);
        }
        self.carry_out(now, out);
    }

    pub(super) fn tick_peers(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let due = |deadline_ms| deadline_ms <= now.monotonic_ms;
        if self.zab().and_then(Zab::next_deadline).is_some_and(due) {
            self.step_peers(now, Input::Tick, tree, out);
        }
        let exhausted = self.last_proposed.counter() >= self.settings.epoch_txns_max;
        if exhausted && matches!(self.role, Role::Deciding { .. }) && !self.is_leaving_role() {
            self.step_down(now, StepDownReason::EpochExhausted, out);
        }
    }

    fn step_down(&mut self, now: Now, reason: StepDownReason, out: &mut Outputs) {
        if let Some(Ensemble { zab, asked, .. }) = &mut self.ensemble {
            zab.step_down(now.monotonic_ms, reason, asked);
            self.carry_out(now, out);
        }
    }

    pub(super) fn tell_peers_of_storage(&mut self, now: Now, tree: &Tree, out: &mut Outputs) {
        let input = match self.storage {
            StorageState::Writable => Input::StorageBack,
            StorageState::Full | StorageState::Failed => Input::StorageLost,
        };
        self.step_peers(now, input, tree, out);
    }

    pub(super) fn propose_to_peers(
        &mut self,
        now: Now,
        zxid: Zxid,
        payload: Bytes,
        out: &mut Outputs,
    ) {
        if let Some(Ensemble { zab, asked, .. }) = &mut self.ensemble {
            zab.propose(now.monotonic_ms, zxid, payload, asked);
        }
        self.carry_out(now, out);
    }

    /// Begins the check that a sync of this server's own client has to wait for; none on a standalone server.
    pub(super) fn begin_check(&mut self, now: Now, out: &mut Outputs) -> Check {
        let Some(Ensemble { zab, asked, .. }) = &mut self.ensemble else { return Check::default() };
        let check = zab.begin_check(asked);
        self.carry_out(now, out);
        check
    }

    /// Turns a request into a txn. A change of membership is checked here, because the tree cannot.
    pub(super) fn prepare(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        caller: Caller<'_>,
        write: &WriteRequest<'_>,
    ) -> Entry {
        match (write, self.zab()) {
            (WriteRequest::Reconfig(request), Some(zab)) if tree.options().reconfig_enabled => {
                let text = self.plan_reconfig(zab, request, header.zxid);
                self.overlay.prepare_reconfig(tree, header, caller, text)
            }
            _ => self.overlay.prepare(tree, header, caller, write),
        }
    }

    fn plan_reconfig(
        &self,
        zab: &Zab,
        request: &ReconfigRequest<'_>,
        zxid: Zxid,
    ) -> Result<String, ErrorCode> {
        let pending = zab.pending_membership().map(Arc::as_ref);
        let voters_min = self.settings.voters_min;
        let next = plan_reconfig(zab.membership(), pending, request, zxid, voters_min)?;
        if zab.has_quorum_of(&next) {
            Ok(next.to_text())
        } else {
            Err(ErrorCode::NewConfigNoQuorum)
        }
    }

    /// Passes the actions that agreement requests to the driver, and carries out those that concern the node itself.
    pub(super) fn carry_out(&mut self, now: Now, out: &mut Outputs) {
        let Some(ensemble) = &mut self.ensemble else { return };
        for asked in std::mem::take(&mut ensemble.asked) {
            match asked {
                PeerOutput::Commit { zxid } => self.committed = zxid,
                PeerOutput::CheckPassed { check } => self.in_flight.check_passed(check),
                PeerOutput::Append { zxid, payload, storage } => {
                    self.append(zxid, payload, storage, out);
                }
                PeerOutput::RoleChanged(status) => {
                    self.role_changed(status, now, out);
                    out.list.push(Output::Peer(PeerOutput::RoleChanged(status)));
                }
                other => out.list.push(Output::Peer(other)),
            }
        }
        self.note_search(now, out);
    }

    /// Passes an append to the driver. A leader's own proposals are in flight already, with their requests.
    fn append(&mut self, zxid: Zxid, payload: Bytes, storage: LogStorage, out: &mut Outputs) {
        if !matches!(self.role, Role::Deciding { .. }) {
            let entry = Entry::decode(&payload).expect("was decoded when it came in");
            self.in_flight.push(zxid, Pending::Txn { entry: Box::new(entry), origin: None });
        }
        out.list.push(Output::Peer(PeerOutput::Append { zxid, payload, storage }));
    }

    fn role_changed(&mut self, status: RoleStatus, now: Now, out: &mut Outputs) {
        let Some(ensemble) = &mut self.ensemble else { return };
        ensemble.deferred.clear();
        ensemble.upcoming = match status {
            RoleStatus::Looking => None,
            other => Some(other),
        };
        if status == RoleStatus::Looking {
            if self.has_committed() {
                self.ensemble.iter_mut().for_each(|ensemble| ensemble.leaving = Some(now));
            } else {
                self.leave_role(now, out);
            }
        }
    }

    /// Whether an input comes from the servers of the current term, or replaces the log or the tree for it.
    fn concerns_next_term(&self, input: &Input) -> bool {
        let Some(zab) = self.zab() else { return false };
        match *input {
            Input::Packet { link, .. } => {
                zab.is_to_leader(link)
                    || zab.is_active_learner(link)
                    || zab.is_active_observer(link)
            }
            Input::Truncated { .. } | Input::SnapshotInstalled { .. } => true,
            _ => false,
        }
    }

    /// Leaves the role if there is a leader again, although some of what was committed in the role is not applied yet:
    /// the role of an earlier term may handle nothing of the next one.
    fn leave_old_role(&mut self, now: Now, out: &mut Outputs) {
        let Some(ensemble) = &mut self.ensemble else { return };
        if ensemble.leaving.is_some() && ensemble.zab.state() != ServerState::Looking {
            ensemble.leaving = None;
            self.leave_role(now, out);
        }
    }

    /// Leaves the role: there has been no leader since then.
    fn leave_role(&mut self, since: Now, out: &mut Outputs) {
        self.end_role(out);
        self.ensemble.iter_mut().for_each(|ensemble| ensemble.proof = None);
        self.role = Role::Idle { looking_since_ms: Some(since.monotonic_ms) };
    }

    /// Ends the role and closes all connections: txns in flight may or may not be agreed on later, so the outcome of
    /// their requests is unknown.
    pub(super) fn end_role(&mut self, out: &mut Outputs) {
        self.role = Role::Idle { looking_since_ms: None };
        self.sessions.forget_all();
        self.in_flight.forget_origins();
        self.overlay = Overlay::new(self.settings.hash_seed);
        // A request that still arrives on one of them is too late: it must not claim a session in the next role.
        let mut conns: Vec<_> = self.conns.drain().map(|(conn, _)| conn).collect();
        conns.sort_unstable();
        for conn in conns {
            out.close(conn, CloseReason::NotServing);
        }
    }

    /// Requests a txn from the leader if this server may not vote, to see that the leader has a quorum now. It
    /// repeats that with every ping until it may vote, because the leader may not accept requests yet.
    pub(super) fn ask_for_proof(&mut self, link: LinkId, out: &mut Outputs) {
        let Some(ensemble) = &mut self.ensemble else { return };
        if ensemble.zab.voting() == Voting::Suspended {
            let cxids = &mut self.cxids;
            let number = || cxids.number(Numbering::Server, Xid(0));
            let cxid = *ensemble.proof.get_or_insert_with(number);
            out.list.push(Output::Peer(ask_for_txn(link, cxid)));
        }
    }

    /// Allows this server to vote if this txn is the one that it has requested.
    pub(super) fn note_proof(&mut self, header: TxnHeader, out: &mut Outputs) {
        let Some(ensemble) = &mut self.ensemble else { return };
        let is_proof = header.session == SessionId::NONE && ensemble.proof == Some(header.cxid);
        if is_proof && ensemble.zab.prove_quorum() {
            out.list.push(Output::Peer(PeerOutput::AllowVoting));
        }
    }

    /// Continues after txns were applied: a new role may begin, and syncs may be done.
    pub(super) fn applied_in_ensemble(&mut self, now: Now, tree: &mut Tree, out: &mut Outputs) {
        if self.has_committed() || self.has_postponed() {
            return;
        }
        let Some(ensemble) = &mut self.ensemble else { return };
        ensemble.zab.applied(tree.last_zxid());
        let upcoming = ensemble.upcoming.take();
        if let Some(since) = ensemble.leaving.take() {
            self.leave_role(since, out);
        }
        if let Some(status) = upcoming {
            self.begin_role(status, now, tree, out);
        }
        self.answer_done_syncs(tree, out);
    }

    fn begin_role(&mut self, status: RoleStatus, now: Now, tree: &mut Tree, out: &mut Outputs) {
        if let Some(membership) = self.zab().map(Zab::membership) {
            tree.set_config(membership.to_text().as_bytes(), Zxid(membership.version as i64));
        }
        match status {
            RoleStatus::Looking => unreachable!("it is not deferred"),
            RoleStatus::Leading { epoch } => {
                self.role = Role::deciding(self.settings.sweep, now);
                self.last_proposed = Zxid::start_of(epoch);
                self.sessions.restart(tree.sessions(), now.monotonic_ms);
                self.close_orphans(now, tree, out);
                self.take_deferred(now, tree, out);
            }
            RoleStatus::Following { link, .. } | RoleStatus::Observing { link, .. } => {
                self.sessions.forget_all();
                self.role = Role::Learning(Box::new(Forwarding::new(link)));
                self.serve_observers(now, out);
                self.ask_for_proof(link, out);
            }
        }
    }
}

/// Returns the membership in the config znode of a tree, for agreement.
#[must_use]
pub fn membership_of(tree: &Tree) -> Option<Membership> {
    Membership::parse_text(&String::from_utf8_lossy(tree.config()?)).ok()
}

/// Returns a request without a session that changes nothing: the leader refuses it with an error txn.
fn ask_for_txn(link: LinkId, cxid: i32) -> PeerOutput {
    let write = WriteRequest::Delete { path: "/zookeeper".into(), version: -1 };
    let mut body = Vec::new();
    Request::Write(write).encode(&mut body);
    let packet = QuorumPacket::Request {
        session: SessionId::NONE,
        cxid,
        op: OpCode::Delete.code(),
        body: body.into(),
        ids: Vec::new(),
    };
    PeerOutput::Send { link, packet }
}

/// Returns the membership that a txn carries, if it carries one, for agreement.
#[must_use]
pub fn membership_in(payload: &[u8]) -> Option<Membership> {
    let (_, op) = Entry::decode_header(&mut JuteReader::new(payload)).ok()?;
    if op != OpCode::Reconfig.code() {
        return None;
    }
    match Entry::decode(payload).ok()?.txn {
        Txn::SetData { reconfig: true, data: Some(text), .. } => {
            Membership::parse_text(&String::from_utf8_lossy(&text)).ok()
        }
        _ => None,
    }
}
