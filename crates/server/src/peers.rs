//! Between the core and the network of the ensemble: outputs go out, inputs come in.
//!
//! In: what agreement asks for, under the core's lock, so nothing here may block. Out: inputs for the
//! core, from the network's threads. Deliberately not here: any decision.

use std::io::{self, Read};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use herdsman_node::{Input, Node, Now, Output as NodeOutput};
use herdsman_proto::{QuorumPacket, ServerId, Zxid};
use herdsman_store::{WireSnapshot, receive_snapshot};
use herdsman_tree::{Tree, TreeOptions};
use herdsman_zab::log::Kept;
use herdsman_zab::{LinkId, Output, SnapshotBase, Standing};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::commit::CommitQueue;
use crate::core::Core;
use crate::disk_keeper::DiskChange;
use crate::quorum::{ConnectResult, PortFailure, QuorumNetwork, Receiver, TreeSource, TreeStep};
use crate::role_log::{RoleChange, RoleLog, View};
use crate::stats::EnsembleStats;

/// Znodes of a tree that are written down under one guard.
const NODES_PER_GUARD: usize = 128;

/// How often the core hears that a tree is still coming, or still being taken.
const HEARD_EVERY: Duration = Duration::from_millis(200);

/// What the core has to do with the other servers.
pub struct Peers {
    /// Sockets and threads.
    pub network: QuorumNetwork,
    commit_queue: Arc<CommitQueue>,
    settings: PeerSettings,
    core: Weak<Core>,
    /// The attempt to connect to a leader whose result is wanted.
    attempt: Mutex<Option<LinkId>>,
    /// The tree that came behind SNAP and has not been put in place.
    received: Mutex<Option<(LinkId, Tree)>>,
    /// What is told and counted about all this. Taken behind the core's lock, or alone.
    role_log: Mutex<RoleLog>,
}

/// What they are told once.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// This server.
    pub me: ServerId,
    /// Whether txns are written to disk.
    pub kept: Kept,
    /// Silence on a link between a leader and an up-to-date learner.
    pub sync_limit_ms: u64,
    /// The rules of a tree that is received.
    pub tree: TreeOptions,
    /// The longest field in it.
    pub field_bytes_max: usize,
}

impl Peers {
    /// Joins the network to a core that is being made.
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
            attempt: Mutex::default(),
            received: Mutex::default(),
            role_log: Mutex::new(role_log),
        }
    }

    /// Tells and counts what the node has just asked for, before it is carried out.
    pub fn note(&self, now: Now, node: &Node, outputs: &[NodeOutput], stats: &EnsembleStats) {
        let Some(zab) = node.zab() else { return };
        let view = View::of(zab);
        let mut log = self.role_log.lock();
        for output in outputs {
            if let NodeOutput::Peer(output) = output {
                log.note(now, output, &view, stats);
            }
        }
        log.after_step(now, &view, stats);
        for line in log.take_lines() {
            line.tell();
        }
    }

    /// Tells who is who, at the start.
    pub fn begin(&self, node: &Node, stats: &EnsembleStats) {
        let Some(zab) = node.zab() else { return };
        let mut log = self.role_log.lock();
        log.begin(zab.membership(), &View::of(zab), stats);
        for line in log.take_lines() {
            line.tell();
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

    /// Learners that are connected, up to date or not.
    pub fn learners(&self) -> usize {
        self.role_log.lock().learners()
    }

    /// Carries out what agreement asks for; some of it for the connections of an I/O thread.
    pub fn carry_out(&self, output: &Output, asker: Option<usize>) {
        match output {
            Output::Notify { to, message } => self.network.notify(*to, message),
            Output::Connect { to, door } => {
                // Taken before: the result may come before this thread goes on.
                let mut attempt = self.attempt.lock();
                *attempt = Some(self.network.connect(*to, *door));
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
            Output::Close { link, .. } => self.network.close(*link),
            Output::Append { zxid, payload, kept } => {
                if *kept == Kept::OnDisk {
                    self.commit_queue.push(*zxid, payload, asker);
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
            Output::InstallSnapshot { base, zxid, entries } => {
                let tree = match base {
                    SnapshotBase::Received(link) => self.take_received(*link),
                    SnapshotBase::Empty => Some(Tree::new(self.settings.tree.clone())),
                };
                let (tree, zxid, entries) = (tree.map(Box::new), *zxid, entries.clone());
                let change = DiskChange::InstallSnapshot { tree, zxid, entries };
                self.commit_queue.push_change(change);
            }
            Output::MembershipPending { membership } => self.network.add_members(membership),
            Output::AllowVoting => self.commit_queue.push_change(DiskChange::AllowVoting),
            Output::Activate { membership } => {
                info!("the membership of version {:x} is in force", membership.version);
                self.network.set_membership(Arc::clone(membership));
                let membership = Arc::clone(membership);
                self.commit_queue.push_change(DiskChange::Activate { membership });
            }
            Output::Standing(standing) => self.standing_changed(*standing),
            Output::Commit { .. } => unreachable!("the node keeps it"),
        }
    }

    fn standing_changed(&self, standing: Standing) {
        match standing {
            Standing::Looking => {
                *self.received.lock() = None;
                *self.attempt.lock() = None;
                self.network.cancel_connect();
            }
            Standing::Leading { .. } => {}
            Standing::Following { link, .. } | Standing::Observing { link, .. } => {
                self.network.set_idle_limit(link, self.settings.sync_limit_ms);
            }
        }
    }

    /// One tree is kept at the most: a server has one leader at a time, and a tree that came too late
    /// goes when the next one comes.
    fn take_received(&self, link: LinkId) -> Option<Tree> {
        let mut received = self.received.lock();
        received.take_if(|(from, _)| *from == link).map(|(_, tree)| tree)
    }

    fn send_snapshot(&self, link: LinkId, zxid: Zxid) {
        let source =
            Box::new(TreeWalk { core: self.core.clone(), link, walk: None, told: Instant::now() });
        self.network.send_snapshot(link, zxid, source);
    }
}

/// The core as the network sees it.
pub struct PeerReceiver {
    core: Arc<Core>,
}

impl PeerReceiver {
    /// For this core.
    #[must_use]
    pub fn new(core: Arc<Core>) -> Self {
        PeerReceiver { core }
    }
}

impl Receiver for PeerReceiver {
    fn handle(&self, inputs: &mut Vec<herdsman_zab::Input>) {
        if let Some(peers) = self.core.peers() {
            let now_ms = self.core.clock.monotonic_ms();
            for input in inputs.iter().filter(|input| RoleLog::wants(input)) {
                peers.role_log.lock().hear(now_ms, input);
            }
        }
        self.core.step_all(inputs.drain(..).map(Input::Peer));
    }

    fn handle_connect(&self, link: LinkId, result: ConnectResult) {
        let Some(peers) = self.core.peers() else { return };
        let input = match result {
            ConnectResult::Connected => herdsman_zab::Input::Connected { link },
            ConnectResult::Failed => herdsman_zab::Input::ConnectFailed,
        };
        // Under the core's lock, where another attempt may just have taken this one's place.
        let wanted = || *peers.attempt.lock() == Some(link);
        if !self.core.step_if(wanted, Input::Peer(input)) && result == ConnectResult::Connected {
            peers.network.close(link);
        }
    }

    fn receive_tree(&self, link: LinkId, zxid: Zxid, input: &mut dyn Read) -> io::Result<()> {
        let Some(peers) = self.core.peers() else { return Ok(()) };
        let settings = &peers.settings;
        let mut input = ReadAloud { input, core: &self.core, link, told: Instant::now() };
        let received =
            receive_snapshot(&mut input, zxid, settings.tree.clone(), settings.field_bytes_max);
        let received = received.map_err(|error| {
            warn!("{error}");
            io::Error::other(error)
        })?;
        info!("received {} znodes, {} bytes, from the leader", received.nodes, received.bytes);
        *peers.received.lock() = Some((link, received.tree));
        Ok(())
    }

    fn handle_port_failed(&self, failure: PortFailure) {
        self.core.report_fatal(failure.to_string());
    }
}

/// Lets the core know that a tree is still coming.
struct ReadAloud<'a> {
    input: &'a mut dyn Read,
    core: &'a Core,
    link: LinkId,
    told: Instant,
}

impl Read for ReadAloud<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        if self.told.elapsed() >= HEARD_EVERY {
            self.told = Instant::now();
            self.core.step(Input::Peer(herdsman_zab::Input::Heard { link: self.link }));
        }
        Ok(bytes)
    }
}

/// A tree on its way to a learner, a guard at a time.
struct TreeWalk {
    core: Weak<Core>,
    link: LinkId,
    walk: Option<(u64, WireSnapshot)>,
    /// When the core last heard that the learner takes it.
    told: Instant,
}

impl TreeSource for TreeWalk {
    fn fill(&mut self, out: &mut Vec<u8>) -> TreeStep {
        let Some(core) = self.core.upgrade() else { return TreeStep::Broken };
        let more = {
            let tree = core.tree();
            let generation = core.tree_generation();
            let (started, walk) =
                self.walk.get_or_insert_with(|| (generation, WireSnapshot::start(&tree)));
            if *started != generation {
                return TreeStep::Broken;
            }
            walk.step(&tree, NODES_PER_GUARD, out)
        };
        if more {
            // More is asked for only when the socket has taken what came before.
            if self.told.elapsed() >= HEARD_EVERY {
                self.told = Instant::now();
                core.step(Input::Peer(herdsman_zab::Input::Heard { link: self.link }));
            }
            return TreeStep::More;
        }
        // Before anything else is sent: what follows the tree waits for this.
        core.step(Input::Peer(herdsman_zab::Input::SnapshotSent { link: self.link }));
        TreeStep::Done
    }
}
