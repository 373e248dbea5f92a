//! Connects the core to the network of the ensemble: carries out outputs and passes inputs on.
//!
//! In: outputs of the protocol core, under the core's lock, so nothing here may block. Out: inputs for the
//! core, from the network's threads. Deliberately not here: any decision.

mod leader_link;
mod streams;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use herdsman_node::{Input, Node, Now, Output as NodeOutput};
use herdsman_proto::quorum::fetch::Chain;
use herdsman_proto::{QuorumPacket, ServerId, Zxid};
use herdsman_store::{LogPosition, receive_snapshot};
use herdsman_tree::{Tree, TreeOptions};
use herdsman_zab::log::LogStorage;
use herdsman_zab::{LinkId, Output, RoleStatus, Zab};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::core::Core;
use crate::ensemble::long_pings::{divided, is_long_ping};
use crate::ensemble::records::{member_state, send_records};
use crate::ensemble::role_log::{RoleChange, RoleLog, ZabView};
use crate::error::ServerFailure;
use crate::log::commit::CommitQueue;
use crate::log::disk_keeper::DiskChange;
use crate::operators::stats::EnsembleStats;
use herdsman_quorum::{
    ConnectResult, MemberReport, PortFailure, QuorumNetwork, ReadPermission, Receiver, SendRecord,
};
use herdsman_runtime::LimitedLog;

use leader_link::LeaderLink;
pub use streams::LogFiles;
use streams::{LogStream, TreeStream};

/// Interval of progress inputs while a tree is received or applied.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(200);

/// The core's connection to the other servers.
pub struct Peers {
    /// Sockets and threads.
    pub network: QuorumNetwork,
    commit_queue: Arc<CommitQueue>,
    settings: PeerSettings,
    core: Weak<Core>,
    /// The end of the last part of the log that was sent on each link.
    log_positions: Mutex<BTreeMap<LinkId, LogPosition>>,
    /// The link to the leader, from the attempt to connect on.
    leader_link: Mutex<LeaderLink>,
    /// Log lines and statistics. Locked after the core, or alone.
    role_log: Mutex<RoleLog>,
}

/// Settings that do not change.
#[derive(Clone)]
pub struct PeerSettings {
    /// The id of this server.
    pub me: ServerId,
    /// Whether txns are written to disk.
    pub log_storage: LogStorage,
    /// The idle limit of a link between a leader and an up-to-date learner.
    pub sync_limit_ms: u64,
    /// The options of a tree that is received.
    pub tree: TreeOptions,
    /// The limit for fields in it.
    pub field_bytes_max: usize,
    /// The log, for learners that lack more than is in memory.
    pub log_files: LogFiles,
}

impl Peers {
    /// Connects the network to a core that is being created.
    #[must_use]
    pub fn new(
        network: QuorumNetwork,
        commit_queue: Arc<CommitQueue>,
        settings: PeerSettings,
        core: Weak<Core>,
    ) -> Self {
        let role_log = RoleLog::new(settings.me, 0);
        Peers {
            network,
            commit_queue,
            settings,
            core,
            log_positions: Mutex::default(),
            leader_link: Mutex::default(),
            role_log: Mutex::new(role_log),
        }
    }

    /// Logs and counts the node's outputs, before they are carried out.
    pub fn note(&self, now: Now, node: &Node, outputs: &[NodeOutput], stats: &EnsembleStats) {
        let Some(zab) = node.zab() else { return };
        let view = ZabView::of(zab);
        let mut log = self.role_log.lock();
        for output in outputs {
            if let NodeOutput::Peer(output) = output {
                log.note(now, output, &view, stats);
            }
        }
        log.after_step(now, &view, stats);
        for line in log.take_lines() {
            line.log();
        }
    }

    /// Logs the membership at startup.
    pub fn begin(&self, node: &Node, stats: &EnsembleStats) {
        let Some(zab) = node.zab() else { return };
        let mut log = self.role_log.lock();
        log.begin(zab.membership(), &ZabView::of(zab), stats);
        for line in log.take_lines() {
            line.log();
        }
    }

    /// Since when this server leads, by the core's clock.
    pub fn leading_since_ms(&self) -> Option<u64> {
        self.role_log.lock().leading_since_ms()
    }

    /// The last changes of this server's role, oldest first.
    pub fn role_history(&self) -> Vec<RoleChange> {
        self.role_log.lock().history()
    }

    /// Learners that are connected, synchronized or not.
    pub fn learners(&self) -> usize {
        self.role_log.lock().learners()
    }

    /// Carries out an output of the protocol core; some of them for the connections of an I/O thread.
    pub fn carry_out(&self, output: &Output, requester: Option<usize>) {
        match output {
            Output::Notify { to, message } => self.network.notify(*to, message),
            Output::Connect { to, port } => {
                // Recorded before the call: the result may be reported before this thread continues.
                let mut leader_link = self.leader_link.lock();
                leader_link.begin(self.network.connect(*to, *port));
            }
            Output::Send { link, packet } => {
                if matches!(packet, QuorumPacket::Diff { .. } | QuorumPacket::Trunc { .. }) {
                    self.network.keep(*link);
                }
                self.network.send(*link, packet);
            }
            Output::SendSnapshot { link, zxid } => {
                self.network.keep(*link);
                self.send_snapshot(*link, *zxid);
            }
            Output::SendLog { link, after, to, diff } => {
                self.network.keep(*link);
                self.send_log(*link, (*after, *to), *diff);
            }
            Output::Close { link, .. } => {
                self.log_positions.lock().remove(link);
                self.network.close(*link);
            }
            Output::Append { zxid, payload, storage } => {
                if *storage == LogStorage::OnDisk {
                    self.commit_queue.push(*zxid, payload, requester);
                }
            }
            Output::SaveEpoch { kind, epoch } => {
                let change = DiskChange::SaveEpoch { kind: *kind, epoch: *epoch };
                self.commit_queue.push_change(change);
            }
            Output::Truncate { zxid, tree } => {
                let change = DiskChange::Truncate { zxid: *zxid, tree: *tree };
                self.commit_queue.push_change(change);
            }
            Output::BeginEmpty { link } => {
                let tree = Tree::new(self.settings.tree.clone());
                self.leader_link.lock().keep_tree(*link, tree);
            }
            // The thread that reads the link does this, so the leader can send no faster than it is done.
            Output::Replay { link, payload, .. } => self.leader_link.lock().replay(*link, payload),
            Output::InstallSnapshot { link, voting, .. } => {
                let tree = self.leader_link.lock().take_tree(*link).map(Box::new);
                let change = DiskChange::InstallSnapshot { tree, voting: *voting };
                self.commit_queue.push_change(change);
            }
            Output::MembershipPending { membership } => self.network.add_members(membership),
            Output::AllowVoting => self.commit_queue.push_change(DiskChange::AllowVoting),
            Output::Activate { membership } => {
                info!("now using the membership of version {:x}", membership.version);
                self.network.set_membership(Arc::clone(membership));
                let membership = Arc::clone(membership);
                self.commit_queue.push_change(DiskChange::Activate { membership });
            }
            Output::RoleChanged(status) => self.role_changed(*status),
            Output::Commit { .. } | Output::CheckPassed { .. } => {
                unreachable!("the node keeps it")
            }
        }
    }

    fn role_changed(&self, status: RoleStatus) {
        match status {
            RoleStatus::Looking => {
                self.leader_link.lock().end();
                self.log_positions.lock().clear();
                self.network.cancel_connect();
            }
            RoleStatus::Leading { .. } => {}
            RoleStatus::Following { link, .. } | RoleStatus::Observing { link, .. } => {
                self.leader_link.lock().activate(link);
                self.network.set_idle_limit(link, self.settings.sync_limit_ms);
            }
        }
    }

    fn send_snapshot(&self, link: LinkId, zxid: Zxid) {
        let walk = TreeStream::new(self.core.clone(), link, zxid);
        self.network.send_stream(link, Box::new(walk));
    }

    fn send_log(&self, link: LinkId, (after, to): (Zxid, Zxid), diff: Option<Zxid>) {
        let position = self.log_positions.lock().remove(&link);
        let files = self.settings.log_files.clone();
        let walk = LogStream::new(self.core.clone(), link, files, (after, to), diff, position);
        self.network.send_stream(link, Box::new(walk));
    }

    /// Records the end of a part of the log that was sent on a link.
    fn note_log_position(&self, link: LinkId, position: LogPosition) {
        self.log_positions.lock().insert(link, position);
    }
}

/// Receives the network's inputs for the core.
pub struct PeerReceiver {
    core: Arc<Core>,
    /// Failed reads of the log for other members, which may repeat their requests.
    unread_records: LimitedLog,
}

impl PeerReceiver {
    /// Creates the receiver of a core.
    #[must_use]
    pub fn new(core: Arc<Core>) -> Self {
        PeerReceiver { core, unread_records: LimitedLog::default() }
    }
}

impl Receiver for PeerReceiver {
    fn handle(&self, inputs: &mut Vec<herdsman_zab::Input>) {
        if let Some(peers) = self.core.peers() {
            let now_ms = self.core.clock.monotonic_ms();
            for input in inputs.iter().filter(|input| RoleLog::wants(input)) {
                peers.role_log.lock().observe(now_ms, input);
                if let herdsman_zab::Input::LinkLost { link } = input {
                    peers.log_positions.lock().remove(link);
                }
            }
        }
        if inputs.iter().any(is_long_ping) {
            for input in inputs.drain(..).flat_map(divided) {
                self.core.step(Input::Peer(input));
            }
        }
        self.core.step_all(inputs.drain(..).map(Input::Peer));
    }

    fn wait_for_room(&self, link: LinkId, wait: Duration) -> ReadPermission {
        let Some(peers) = self.core.peers() else { return ReadPermission::Free };
        let is_active = peers.leader_link.lock().is_active(link);
        let room = peers.commit_queue.room(is_active, wait);
        if room == ReadPermission::Full {
            self.core.step(Input::Peer(herdsman_zab::Input::Heard { link }));
        }
        room
    }

    fn handle_connect(&self, link: LinkId, result: ConnectResult) {
        let Some(peers) = self.core.peers() else { return };
        let input = match result {
            ConnectResult::Connected => herdsman_zab::Input::Connected { link },
            ConnectResult::Failed => herdsman_zab::Input::ConnectFailed,
        };
        // Under the core's lock, because another attempt may just have replaced this one.
        let wanted = || peers.leader_link.lock().is_current(link);
        if !self.core.step_if(wanted, Input::Peer(input)) && result == ConnectResult::Connected {
            peers.network.close(link);
        }
    }

    fn receive_tree(&self, link: LinkId, zxid: Zxid, input: &mut dyn Read) -> io::Result<()> {
        let Some(peers) = self.core.peers() else { return Ok(()) };
        let settings = &peers.settings;
        let mut input = HeartbeatReader { input, core: &self.core, link, reported: Instant::now() };
        let received =
            receive_snapshot(&mut input, zxid, settings.tree.clone(), settings.field_bytes_max);
        let received = received.map_err(|error| {
            warn!("{error}");
            io::Error::other(error)
        })?;
        info!("received {} znodes, {} bytes, from the leader", received.nodes, received.bytes);
        peers.leader_link.lock().keep_tree(link, received.tree);
        Ok(())
    }

    fn handle_port_failed(&self, failure: PortFailure) {
        self.core.report_fatal(ServerFailure::Port(failure.to_string()));
    }

    fn report_member(&self) -> MemberReport {
        let (state, last_zxid) = self.core.with_node(|node| {
            let last_zxid = node.zab().map_or(Zxid::ZERO, |zab| zab.log().flushed());
            (member_state(node), last_zxid)
        });
        MemberReport { last_zxid, state, damaged: Vec::new() }
    }

    fn read_records(
        &self,
        range: (Zxid, Zxid),
        is_wanted: &dyn Fn() -> bool,
        send: &mut SendRecord<'_>,
    ) -> Chain {
        let Some(peers) = self.core.peers() else { return Chain::Broken };
        // The files that a leader's tree is about to replace may not even be of one history.
        if self.core.with_node(|node| node.zab().is_some_and(Zab::starts_over)) {
            return Chain::Broken;
        }
        let LogFiles { disk, dirs, .. } = &peers.settings.log_files;
        send_records(disk, dirs, range, is_wanted, &self.unread_records, send)
    }
}

/// Notifies the core from time to time that a tree is still being received.
struct HeartbeatReader<'a> {
    input: &'a mut dyn Read,
    core: &'a Core,
    link: LinkId,
    reported: Instant,
}

impl Read for HeartbeatReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        if self.reported.elapsed() >= HEARTBEAT_EVERY {
            self.reported = Instant::now();
            self.core.step(Input::Peer(herdsman_zab::Input::Heard { link: self.link }));
        }
        Ok(bytes)
    }
}
