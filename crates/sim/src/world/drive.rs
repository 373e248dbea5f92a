//! Steps a server as the real server's core does: one input, its outputs in order, then txns into the
//! tree as long as the node wants, outputs again after each.
//!
//! A server may crash between any two outputs. Txns are applied one at a time, so that the checkers see
//! the tree after each.

use std::ops::ControlFlow;

use herdsman_node::{Input, Node, Now, Output, Outputs, membership_in};
use herdsman_proto::txn::Entry;
use herdsman_proto::{QuorumPacket, ServerId, ServerState, Txn, Zxid};
use herdsman_tree::Tree;
use herdsman_zab::log::LogStorage;
use herdsman_zab::quorum::Electorate;
use herdsman_zab::{Mistake, Output as PeerOutput, RoleStatus, StepDownReason, TreeAfterCut, Zab};

use super::disks::Job;
use super::{Event, Mirror, Process, Server, ServerIndex, World};
use crate::checkers::Fact;
use crate::chronicle::fingerprint;

impl World {
    /// Gives a server's node an input.
    pub(super) fn step(&mut self, place: ServerIndex, input: Input<'_>) {
        self.drive(place, |node, now, tree, out| node.step(now, input, tree, out));
    }

    /// Gives a server's node something from agreement's world.
    pub(super) fn step_peer(&mut self, place: ServerIndex, input: herdsman_zab::Input) {
        self.step(place, Input::Peer(input));
    }

    fn drive(
        &mut self,
        place: ServerIndex,
        step: impl FnOnce(&mut Node, Now, &Tree, &mut Outputs),
    ) {
        let Some(mut process) = self.servers[place].process.take() else { return };
        let now = self.servers[place].clock.now(self.now_ms);
        let mut out = Outputs::default();
        step(&mut process.node, now, &process.tree, &mut out);
        self.carry_on(place, process, out);
    }

    /// Carries out outputs, and what follows from them.
    pub(super) fn carry_on(
        &mut self,
        place: ServerIndex,
        mut process: Box<Process>,
        mut out: Outputs,
    ) {
        loop {
            if self.deliver(place, &mut process, &mut out).is_break() {
                return self.crash_process(place, process);
            }
            if !process.node.wants_tree() || self.waits_for_more(place, &mut process) {
                break;
            }
            // A role that ends with this txn answers it still.
            let answered = process.node.answers();
            let txns =
                if self.plan.applied_late_per_mille > 0 { self.random.index(4) + 1 } else { 1 };
            let now = self.servers[place].clock.now(self.now_ms);
            process.node.apply(now, &mut process.tree, txns, &mut out);
            if answered || process.node.answers() {
                self.observe(place, &mut process);
            }
        }
        self.check_answered(place);
        self.report_memberships(place, &process);
        self.schedule_tick(place, &mut process);
        self.servers[place].process = Some(process);
        self.start_disk(place);
    }

    /// Another thread may be the one that puts txns into the tree, and there may be more inputs before it does.
    fn waits_for_more(&mut self, place: ServerIndex, process: &mut Process) -> bool {
        let times = self.plan.applied_late_per_mille;
        if times == 0 || process.applies_later || !self.random.per_mille(times) {
            return process.applies_later;
        }
        process.applies_later = true;
        let delay_ms = self.random.below(self.plan.latency_ms.1 + 1);
        let life = self.servers[place].life;
        self.later(delay_ms, Event::Apply { place, life });
        true
    }

    pub(super) fn apply(&mut self, place: ServerIndex, life: u64) {
        if !self.alive(place, life) {
            return;
        }
        let Some(mut process) = self.servers[place].process.take() else { return };
        process.applies_later = false;
        self.carry_on(place, process, Outputs::default());
    }

    /// Tells the checkers what a server that answers clients has come to.
    fn observe(&mut self, place: ServerIndex, process: &mut Process) {
        let last = process.tree.last_zxid();
        let news = self.servers[place].mirror.between(process.delivered, last);
        for (previous, zxid, hash, payload) in news {
            self.report(&Fact::Delivered { place, previous, zxid, hash });
            if self.failure.is_none() && zxid > self.chronicle.last() {
                self.check_quorum_has(zxid, hash);
                let entry = Entry::decode(&payload).expect("what was logged can be read");
                self.report(&Fact::Committed { zxid, entry: &entry });
                let is_sweep = matches!(entry.txn, Txn::Delete { container: true, .. });
                self.counts.swept += u64::from(is_sweep);
                self.chronicle.add(zxid, hash, &payload);
            }
            self.mix(hash);
            if let Some(entry) = self.chronicle.get(zxid).map(|committed| committed.entry.clone()) {
                self.note_applied(place, &entry);
            }
        }
        process.delivered = last;
        self.report(&Fact::Shown { place, tree: &process.tree });
    }

    fn report_memberships(&mut self, place: ServerIndex, process: &Process) {
        let is_replaced = |job: &Job| matches!(job, Job::Truncate { .. } | Job::Install { .. });
        let Some(zab) = process.node.zab().filter(|_| self.plan.reconfig) else { return };
        if process.jobs[0].iter().any(is_replaced) {
            return;
        }
        let log = std::mem::take(&mut self.servers[place].mirror);
        let pending = zab.pending_membership().map(|pending| &**pending);
        self.report(&Fact::Memberships { place, in_force: zab.membership(), pending, log: &log });
        self.servers[place].mirror = log;
    }

    /// What is shown to clients for the first time is on the disks of a quorum. Who votes is not looked for while
    /// the membership changes.
    fn check_quorum_has(&mut self, zxid: Zxid, hash: u64) {
        let has = |id| {
            let server = self.servers.iter().find(|server| server.id == id);
            server.is_some_and(|server| {
                let known = server.mirror.hash_of(zxid);
                let is_logged = known == Some(hash) || server.mirror.base() >= zxid;
                !server.is_sound() || (server.flushed >= zxid && is_logged)
            })
        };
        if !self.plan.reconfig && !Electorate::of(&self.plan.membership).is_quorum(has) {
            self.fail("durability", format!("{zxid} is shown, and is on the disks of no quorum"));
        }
    }

    fn schedule_tick(&mut self, place: ServerIndex, process: &mut Process) {
        let server = &self.servers[place];
        let Some(deadline_ms) = process.node.next_deadline() else { return };
        let at_ms = server.clock.when(deadline_ms).max(self.now_ms + 1);
        if process.tick_at_ms.is_none_or(|planned| at_ms < planned) {
            process.tick_at_ms = Some(at_ms);
            let life = server.life;
            self.at(at_ms, Event::Tick { place, life });
        }
    }

    pub(super) fn tick(&mut self, place: ServerIndex, life: u64) {
        if !self.alive(place, life) {
            return;
        }
        let now_ms = self.now_ms;
        let Some(process) = &mut self.servers[place].process else { return };
        if process.tick_at_ms.is_some_and(|planned| planned > now_ms) {
            return;
        }
        process.tick_at_ms = None;
        self.step(place, Input::Tick);
    }

    /// Carries out outputs in order. Breaks off where the server is to crash.
    fn deliver(
        &mut self,
        place: ServerIndex,
        process: &mut Process,
        out: &mut Outputs,
    ) -> ControlFlow<()> {
        let mut list = std::mem::take(&mut out.list).into_iter();
        while let Some(output) = list.next() {
            if let Some(left) = &mut self.servers[place].crash_after {
                if *left == 0 {
                    self.note_unlogged(place, process, std::iter::once(output).chain(list));
                    return ControlFlow::Break(());
                }
                *left -= 1;
            }
            match output {
                Output::Append { .. } => unreachable!("nobody is alone here"),
                Output::Send { conn, frames, answers } => {
                    let xid = answers.map(|answered| answered.xid);
                    self.send_to_client(conn, &out.bytes[frames], xid);
                }
                Output::Event { frame, watchers, .. } => {
                    for conn in &out.watchers[watchers] {
                        self.send_to_client(*conn, &out.bytes[frame.clone()], None);
                    }
                }
                Output::Attached { conn, session, .. } => self.attached(conn, session),
                Output::Close { conn, reason } => {
                    self.note(|| format!("{place} closes connection {} {reason:?}", conn.0));
                    self.close_conn(conn);
                }
                Output::Peer(output) => self.carry_out(place, process, output),
                Output::DigestMismatch { zxid } => {
                    self.report(&Fact::DigestMismatch { place, zxid });
                }
            }
        }
        out.clear();
        ControlFlow::Continue(())
    }

    /// A leader that crashes before it has logged its own proposal may have sent it all the same.
    fn note_unlogged(
        &mut self,
        place: ServerIndex,
        process: &Process,
        rest: impl Iterator<Item = Output>,
    ) {
        if process.node.zab().map(Zab::state) != Some(ServerState::Leading) {
            return;
        }
        for output in rest {
            if let Output::Peer(PeerOutput::Append { zxid, payload, .. }) = output {
                let hash = fingerprint(&payload);
                self.report(&Fact::Proposed { place, zxid, hash });
            }
        }
    }

    fn carry_out(&mut self, place: ServerIndex, process: &mut Process, output: PeerOutput) {
        match output {
            PeerOutput::Notify { to, message } => self.send_vote(place, to, &message),
            PeerOutput::Connect { to, port } => self.request_connect(place, process, to, port),
            PeerOutput::Send { link, packet } => {
                self.count_plan(&packet);
                self.send_packet(place, link, &packet);
            }
            PeerOutput::SendSnapshot { link, zxid } => {
                self.counts.plans[2] += 1;
                self.send_snapshot(place, link, zxid, &process.tree);
            }
            PeerOutput::SendLog { link, after, to, diff } => {
                self.send_log(place, link, (after, to), diff);
            }
            PeerOutput::Close { link, reason } => {
                self.note(|| format!("{place} closes link {} {reason:?}", link.0));
                self.intruders.remove(&link);
                self.close_link(place, link);
            }
            PeerOutput::Append { zxid, payload, storage } => {
                self.append(place, process, zxid, payload, storage);
            }
            PeerOutput::SaveEpoch { kind, epoch } => {
                self.note(|| format!("{place} saves {kind:?} {epoch}"));
                let alone = self.plan.mistake == Some(Mistake::EpochBeforeHistory);
                process.jobs[usize::from(alone)].push_back(Job::Epoch { kind, epoch });
            }
            PeerOutput::Truncate { zxid, tree } => {
                self.note(|| format!("{place} cuts to {zxid}"));
                let kept = if tree == TreeAfterCut::Kept { ", tree kept" } else { "" };
                self.check_uncommitted(place, process, zxid);
                let last = self.servers[place].mirror.last();
                self.remark(place, format!("trunc {last} -> {zxid}{kept}"));
                process.jobs[0].push_back(Job::Truncate { zxid, tree });
            }
            PeerOutput::BeginEmpty { link } => {
                let tree = Tree::new(self.plan.tree_options());
                process.received.insert(link, (tree, Mirror::default()));
            }
            PeerOutput::Replay { link, zxid, payload } => {
                self.note(|| format!("{place} applies {zxid} to the tree that it received"));
                if let Some((tree, mirror)) = process.received.get_mut(&link) {
                    tree.replay(&Entry::decode(&payload).expect("was decoded when it came in"));
                    mirror.push(zxid, payload);
                }
            }
            PeerOutput::InstallSnapshot { link, zxid, voting } => {
                self.note(|| format!("{place} installs {zxid}"));
                self.remark(place, format!("snap {zxid}"));
                process.jobs[0].push_back(Job::Install { link, zxid, voting });
            }
            PeerOutput::MembershipPending { .. } => {}
            PeerOutput::Activate { membership } => {
                self.note(|| format!("{place} goes by membership {:x}", membership.version));
                self.counts.memberships += 1;
                self.servers[place].membership = membership;
            }
            PeerOutput::AllowVoting => process.jobs[0].push_back(Job::AllowVoting),
            PeerOutput::Commit { .. } | PeerOutput::CheckPassed { .. } => {
                unreachable!("the node keeps it to itself")
            }
            PeerOutput::RoleChanged(status) => self.role_changed(place, process, status),
        }
    }

    /// What a server knows to be agreed on is never cut off or replaced by less.
    pub(super) fn check_uncommitted(&mut self, place: ServerIndex, process: &Process, end: Zxid) {
        let committed = process.node.zab().map_or(Zxid::ZERO, |zab| zab.log().committed_txn());
        if end < committed {
            let why = format!("server {place} goes back to {end}, but has committed {committed}");
            self.fail("durability", why);
        }
    }

    fn count_plan(&mut self, packet: &QuorumPacket) {
        match packet {
            QuorumPacket::Diff { .. } => self.counts.plans[0] += 1,
            QuorumPacket::Trunc { .. } => self.counts.plans[1] += 1,
            _ => {}
        }
    }

    fn append(
        &mut self,
        place: ServerIndex,
        process: &mut Process,
        zxid: Zxid,
        payload: bytes::Bytes,
        storage: LogStorage,
    ) {
        let hash = self.servers[place].mirror.push(zxid, payload.clone());
        self.note(|| format!("{place} logs {zxid}"));
        if process.node.zab().map(Zab::state) == Some(ServerState::Leading) {
            self.report(&Fact::Proposed { place, zxid, hash });
            if let Some(membership) = membership_in(&payload) {
                let observing = self.observing();
                self.report(&Fact::MembershipProposed {
                    membership: &membership,
                    observing: &observing,
                });
            }
        }
        if storage == LogStorage::OnDisk {
            process.jobs[0].push_back(Job::Append { zxid, payload });
        }
    }

    fn observing(&self) -> Vec<ServerId> {
        let observes = |server: &&Server| {
            let zab = server.process.as_ref().and_then(|process| process.node.zab());
            zab.map(Zab::state) == Some(ServerState::Observing)
        };
        self.servers.iter().filter(observes).map(|server| server.id).collect()
    }

    fn role_changed(&mut self, place: ServerIndex, process: &mut Process, status: RoleStatus) {
        let reason = process.node.zab().and_then(Zab::last_step_down);
        self.note(|| format!("{place} is {status:?} (last reason {reason:?})"));
        let is_exhausted =
            reason == Some(StepDownReason::EpochExhausted) && status == RoleStatus::Looking;
        self.counts.epochs_exhausted += u64::from(is_exhausted);
        match status {
            RoleStatus::Leading { epoch } => {
                self.counts.leaders += 1;
                let log = std::mem::take(&mut self.servers[place].mirror);
                self.report(&Fact::Established { place, epoch, log: &log });
                self.servers[place].mirror = log;
                self.maybe_fail_power();
            }
            RoleStatus::Looking => process.connect_attempt += 1,
            RoleStatus::Following { .. } | RoleStatus::Observing { .. } => {}
        }
    }

    /// Something worth a word in a script's transcript.
    pub(super) fn remark(&mut self, place: ServerIndex, words: String) {
        self.servers[place].notes.push(words);
    }
}
