//! A few nodes in one process, with a network and disks that take no time, unless a test delays them.
//!
//! All events pass through one queue in their order, so a run is the same every time. Elections, synchronization and
//! broadcast are the real ones. Absent: delays, crashes, files; the simulator has those.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use herdsman_node::{Input, Node, NodeSettings, Now, Output, Outputs, ServesAs, membership_of};
use herdsman_proto::txn::Entry;
use herdsman_proto::{Membership, QuorumPacket, ServerId, Zxid};
use herdsman_tree::{Tree, TreeOptions};
use herdsman_zab::history::HistoryLimits;
use herdsman_zab::log::LogStorage;
use herdsman_zab::settings::{ObserverMasters, Reconfig};
use herdsman_zab::{
    EpochKind, Epochs, InitialFiles, InitialState, Input as PeerInput, LearnerPort, LinkId,
    Output as PeerOutput, RoleStatus, TreeAfterCut, Voting, ZabSettings,
};

use crate::driver::{WALL_MS, one_for_each_watcher, options};

/// More events happen only if two nodes keep each other busy forever.
const EVENTS_MAX: usize = 100_000;

/// How long a node tries to connect to a server that cannot be reached.
const CONNECT_MS: u64 = 200;

/// A node's number.
pub type NodeNumber = i64;

/// Observes each output: the node, its state, the output, and the bytes that this refers to.
pub type Observe<'a> = &'a mut dyn FnMut(NodeNumber, &Member, &Output, &[u8]);

/// A node, its tree and its log, which keeps everything.
pub struct Member {
    pub node: Node,
    pub tree: Tree,
    log: Log,
    epochs: Epochs,
    /// What the disk says about voting.
    voting: Voting,
}

type Log = Vec<(Zxid, Bytes)>;

/// What a node finds on its disk.
struct Files {
    log: Log,
    epochs: Epochs,
    voting: Voting,
    damage: Damage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    None,
    Unusable,
}

impl Default for Files {
    fn default() -> Self {
        let (epochs, voting) = (Epochs::default(), Voting::Allowed);
        Files { log: Log::new(), epochs, voting, damage: Damage::None }
    }
}

/// What has happened to a node's files before it starts again.
#[derive(Clone, Copy)]
pub enum FileEvent {
    /// Nothing.
    Kept,
    /// They are all gone.
    Wiped,
    /// They are there and cannot be used.
    Damaged,
}

pub struct Cluster {
    settings: NodeSettings,
    observer_masters: ObserverMasters,
    membership: Arc<Membership>,
    pub members: BTreeMap<NodeNumber, Member>,
    pub now_ms: u64,
    /// Learner and leader of each link.
    links: BTreeMap<LinkId, (NodeNumber, NodeNumber)>,
    /// Events to come, and their nodes.
    queue: VecDeque<(NodeNumber, PeerInput)>,
    /// Nodes whose packets to the leader wait, and those packets.
    held: BTreeMap<NodeNumber, Vec<(NodeNumber, PeerInput)>>,
    /// Nodes that are cut off from all others.
    cut: BTreeSet<NodeNumber>,
    /// Nodes whose trees wait: another thread will apply what is committed.
    late: BTreeSet<NodeNumber>,
    links_made: u64,
    /// Attempts to connect that will be given up: when, and by which node.
    failing: BTreeMap<NodeNumber, u64>,
    /// Trees on their way.
    trees: BTreeMap<LinkId, Log>,
}

impl Cluster {
    /// Voters 1, 2, …, all empty. They look for a leader.
    pub fn new(settings: &NodeSettings, count: NodeNumber, see: Observe<'_>) -> Self {
        Self::with_observers(settings, [count, 0], ObserverMasters::Off, see)
    }

    /// So many voters and, behind them, observers.
    pub fn with_observers(
        settings: &NodeSettings,
        [voters, observers]: [NodeNumber; 2],
        observer_masters: ObserverMasters,
        see: Observe<'_>,
    ) -> Self {
        let mut cluster = Cluster {
            settings: settings.clone(),
            observer_masters,
            membership: Arc::new(membership(voters, observers)),
            members: BTreeMap::new(),
            now_ms: 0,
            links: BTreeMap::new(),
            queue: VecDeque::new(),
            held: BTreeMap::new(),
            cut: BTreeSet::new(),
            late: BTreeSet::new(),
            links_made: 0,
            failing: BTreeMap::new(),
            trees: BTreeMap::new(),
        };
        let mut started = Vec::new();
        for place in 1..=voters + observers {
            started.push((place, cluster.begin(place, Files::default())));
        }
        for (place, mut out) in started {
            cluster.carry_out(place, &mut out, see);
        }
        cluster.settle(see);
        cluster
    }

    /// Starts a node, whose outputs are still to be carried out.
    fn begin(&mut self, place: NodeNumber, files: Files) -> Outputs {
        let Files { log, epochs, voting, damage } = files;
        let server_id = u8::try_from(place).expect("few servers");
        let settings = NodeSettings { server_id, ..self.settings.clone() };
        let mut tree = Tree::new(room_options());
        for (_, payload) in &log {
            tree.replay(&Entry::decode(payload).expect("our own bytes"));
        }
        let (voting_now, files) = match damage {
            Damage::None => (voting, InitialFiles::of(tree.last_zxid(), epochs)),
            Damage::Unusable => (Voting::Suspended, InitialFiles::Unusable),
        };
        let is_usable = damage == Damage::None;
        let origin = InitialState {
            membership: Arc::clone(&self.membership),
            in_tree: membership_of(&tree),
            voting: voting_now,
            epochs,
            base: Zxid::ZERO,
            tail: if is_usable { log.clone() } else { Log::new() },
            files,
        };
        if !is_usable {
            tree = Tree::new(room_options());
        }
        let mut out = Outputs::default();
        let mut peers = peer_settings(ServerId(place), settings.tick_ms);
        peers.observer_masters = self.observer_masters;
        let node = Node::join(settings, peers, origin, &tree, now(self.now_ms), &mut out);
        self.members.insert(place, Member { node, tree, log, epochs, voting });
        out
    }

    /// Starts a node again from its files, after something has happened to them.
    pub fn restart(&mut self, place: NodeNumber, event: FileEvent, see: Observe<'_>) {
        let was_cut = self.cut.contains(&place);
        self.cut(place, see);
        if !was_cut {
            self.cut.remove(&place);
        }
        self.failing.remove(&place);
        let Member { log, epochs, voting, .. } = self.members.remove(&place).expect("a node");
        let files = match event {
            FileEvent::Kept => Files { log, epochs, voting, damage: Damage::None },
            FileEvent::Wiped => Files::default(),
            FileEvent::Damaged => Files { log, epochs, voting, damage: Damage::Unusable },
        };
        let mut out = self.begin(place, files);
        self.carry_out(place, &mut out, see);
        self.settle(see);
    }

    /// Gives a node an input, and lets happen what follows from it.
    pub fn step(&mut self, place: NodeNumber, input: Input<'_>, see: Observe<'_>) {
        self.step_alone(place, input, see);
        self.settle(see);
    }

    /// Lets time pass; every deadline is met on its millisecond.
    pub fn wait(&mut self, wait_ms: u64, see: Observe<'_>) {
        let until_ms = self.now_ms + wait_ms;
        for _ in 0..EVENTS_MAX {
            let ticks = self
                .members
                .iter()
                .filter_map(|(&place, member)| Some((member.node.next_deadline()?, place, false)));
            let fails = self.failing.iter().map(|(&place, &at_ms)| (at_ms, place, true));
            match ticks.chain(fails).min().filter(|(at_ms, ..)| *at_ms <= until_ms) {
                Some((at_ms, place, fails)) => {
                    self.now_ms = self.now_ms.max(at_ms);
                    let input = if fails {
                        self.failing.remove(&place);
                        Input::Peer(PeerInput::ConnectFailed)
                    } else {
                        Input::Tick
                    };
                    self.step(place, input, see);
                }
                None => {
                    self.now_ms = until_ms;
                    return;
                }
            }
        }
        panic!("a deadline does not move");
    }

    /// From now on packets of this node to the leader wait.
    pub fn hold(&mut self, place: NodeNumber) {
        self.held.entry(place).or_default();
    }

    /// They arrive.
    pub fn release(&mut self, place: NodeNumber, see: Observe<'_>) {
        self.queue.extend(self.held.remove(&place).unwrap_or_default());
        self.settle(see);
    }

    /// Nothing passes between this node and the others, and both sides notice.
    pub fn cut(&mut self, place: NodeNumber, see: Observe<'_>) {
        self.cut.insert(place);
        self.held.remove(&place);
        let lost =
            self.links.extract_if(.., |_, (learner, leader)| *learner == place || *leader == place);
        for (link, (learner, leader)) in lost {
            self.queue.push_back((learner, PeerInput::LinkLost { link }));
            self.queue.push_back((leader, PeerInput::LinkLost { link }));
        }
        self.settle(see);
    }

    /// From now on this node applies nothing.
    pub fn delay(&mut self, place: NodeNumber) {
        self.late.insert(place);
    }

    /// It applies everything again.
    pub fn apply(&mut self, place: NodeNumber, see: Observe<'_>) {
        self.late.remove(&place);
        self.apply_alone(place, see);
        self.settle(see);
    }

    /// Everybody reaches everybody again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Everybody who is not cut off reaches this node again.
    pub fn heal_one(&mut self, place: NodeNumber) {
        self.cut.remove(&place);
    }

    fn settle(&mut self, see: Observe<'_>) {
        for _ in 0..EVENTS_MAX {
            let Some((place, input)) = self.queue.pop_front() else { return };
            self.step_alone(place, Input::Peer(input), see);
        }
        panic!("the nodes do not come to rest");
    }

    fn step_alone(&mut self, place: NodeNumber, input: Input<'_>, see: Observe<'_>) {
        let now = now(self.now_ms);
        let mut out = Outputs::default();
        let Member { node, tree, .. } = self.members.get_mut(&place).expect("a known node");
        node.step(now, input, tree, &mut out);
        self.carry_out(place, &mut out, see);
        self.apply_alone(place, see);
    }

    fn apply_alone(&mut self, place: NodeNumber, see: Observe<'_>) {
        let mut out = Outputs::default();
        while self.members[&place].node.wants_tree() && !self.late.contains(&place) {
            let Member { node, tree, .. } = self.members.get_mut(&place).expect("a known node");
            node.apply(now(self.now_ms), tree, 2, &mut out);
            self.carry_out(place, &mut out, see);
        }
    }

    fn carry_out(&mut self, place: NodeNumber, out: &mut Outputs, see: Observe<'_>) {
        for output in &one_for_each_watcher(out) {
            see(place, &self.members[&place], output, &out.bytes);
            if let Output::Peer(output) = output {
                self.carry_out_for_peers(place, output.clone());
            }
        }
        out.clear();
    }

    fn carry_out_for_peers(&mut self, place: NodeNumber, output: PeerOutput) {
        match output {
            PeerOutput::Notify { to, message } => {
                let from = ServerId(place);
                if self.reaches(place, to.0) {
                    self.queue.push_back((to.0, PeerInput::Notification { from, message }));
                }
            }
            PeerOutput::Connect { to, port } => self.connect(place, to.0, port),
            PeerOutput::Send { link, packet } => {
                if let Some(to) = self.other_end(place, link) {
                    let mail = (to, PeerInput::Packet { link, packet });
                    match self.held.get_mut(&place) {
                        Some(held) => held.push(mail),
                        None => self.queue.push_back(mail),
                    }
                }
            }
            PeerOutput::Close { link, .. } => {
                if let Some(to) = self.other_end(place, link) {
                    self.links.remove(&link);
                    self.queue.push_back((to, PeerInput::LinkLost { link }));
                }
            }
            PeerOutput::Append { zxid, payload, .. } => {
                self.member(place).log.push((zxid, payload));
                self.queue.push_back((place, PeerInput::Flushed { zxid }));
            }
            PeerOutput::SaveEpoch { kind, epoch } => {
                self.member(place).save_epoch(kind, epoch);
                self.queue.push_back((place, PeerInput::EpochSaved { kind, epoch }));
            }
            PeerOutput::Truncate { zxid, .. } => {
                let member = self.member(place);
                member.log.retain(|(logged, _)| *logged <= zxid);
                member.reload();
                self.queue.push_back((
                    place,
                    PeerInput::Truncated { zxid, tree: TreeAfterCut::Reloaded },
                ));
            }
            PeerOutput::SendSnapshot { link, zxid } => self.send_tree(place, link, zxid),
            PeerOutput::SendLog { link, after, to, diff } => {
                self.send_log(place, link, (after, to), diff);
            }
            PeerOutput::BeginEmpty { link } => {
                self.trees.insert(link, Log::new());
            }
            PeerOutput::Replay { link, zxid, payload } => {
                self.trees.get_mut(&link).expect("it was sent").push((zxid, payload));
            }
            PeerOutput::InstallSnapshot { link, zxid, voting } => {
                if voting == Voting::Suspended {
                    self.member(place).voting = voting;
                }
                self.install_tree(place, link, zxid);
            }
            PeerOutput::RoleChanged(RoleStatus::Looking) => {
                self.failing.remove(&place);
            }
            PeerOutput::RoleChanged(_)
            | PeerOutput::MembershipPending { .. }
            | PeerOutput::Activate { .. } => {}
            PeerOutput::AllowVoting => {
                self.member(place).voting = Voting::Allowed;
                self.queue.push_back((place, PeerInput::VotingAllowed));
            }
            PeerOutput::Commit { .. } | PeerOutput::CheckPassed { .. } => {
                unreachable!("the node keeps it")
            }
        }
    }

    fn member(&mut self, place: NodeNumber) -> &mut Member {
        self.members.get_mut(&place).expect("a known node")
    }

    /// A tree travels as the log that makes it.
    fn send_tree(&mut self, place: NodeNumber, link: LinkId, zxid: Zxid) {
        let member = self.member(place);
        let last = member.tree.last_zxid();
        let log = member.log.iter().filter(|(logged, _)| *logged <= last).cloned().collect();
        self.trees.insert(link, log);
        if let Some(to) = self.other_end(place, link) {
            let packet = QuorumPacket::Snap { zxid };
            self.queue.push_back((to, PeerInput::Packet { link, packet }));
        }
        self.queue.push_back((place, PeerInput::SnapshotSent { link }));
    }

    /// These logs are trees: a learner that has just arrived gets one.
    fn send_log(
        &mut self,
        place: NodeNumber,
        link: LinkId,
        (after, to): (Zxid, Zxid),
        diff: Option<Zxid>,
    ) {
        if diff.is_some() {
            return self.queue.push_back((place, PeerInput::LogMissed { link }));
        }
        let log = self.member(place).log.clone();
        if let Some(learner) = self.other_end(place, link) {
            for (zxid, payload) in log.into_iter().filter(|(zxid, _)| after < *zxid && *zxid <= to)
            {
                let packets =
                    [QuorumPacket::Proposal { zxid, payload }, QuorumPacket::Commit { zxid }];
                for packet in packets {
                    self.queue.push_back((learner, PeerInput::Packet { link, packet }));
                }
            }
        }
        self.queue.push_back((place, PeerInput::LogSent { link, to }));
    }

    fn install_tree(&mut self, place: NodeNumber, link: LinkId, zxid: Zxid) {
        let log = self.trees.remove(&link).expect("it was sent");
        let zxid = log.last().map_or(zxid, |(last, _)| *last);
        let member = self.member(place);
        member.log = log;
        member.reload();
        let in_tree = membership_of(&member.tree);
        self.queue.push_back((place, PeerInput::SnapshotInstalled { zxid, in_tree }));
    }

    fn connect(&mut self, learner: NodeNumber, leader: NodeNumber, port: LearnerPort) {
        if !self.reaches(learner, leader) {
            self.failing.insert(learner, self.now_ms + CONNECT_MS);
            return;
        }
        self.failing.remove(&learner);
        self.links_made += 1;
        let link = LinkId(self.links_made);
        self.links.insert(link, (learner, leader));
        self.queue.push_back((leader, PeerInput::LinkOpened { link, port }));
        self.queue.push_back((learner, PeerInput::Connected { link }));
    }

    fn reaches(&self, one: NodeNumber, other: NodeNumber) -> bool {
        one != other && !self.cut.contains(&one) && !self.cut.contains(&other)
    }

    /// Who is at the other end of a link.
    pub fn other_end(&self, place: NodeNumber, link: LinkId) -> Option<NodeNumber> {
        let (learner, leader) = *self.links.get(&link)?;
        Some(if place == learner { leader } else { learner })
    }
}

impl Member {
    fn save_epoch(&mut self, kind: EpochKind, epoch: u32) {
        match kind {
            EpochKind::Current => self.epochs.current = epoch,
            EpochKind::Accepted => self.epochs.accepted = epoch,
        }
    }

    /// The tree, made again from the log.
    fn reload(&mut self) {
        self.tree = Tree::new(room_options());
        for (_, payload) in &self.log {
            self.tree.replay(&Entry::decode(payload).expect("our own bytes"));
        }
    }

    pub fn leads(&self) -> bool {
        self.node.serves_as() == Some(ServesAs::Leader)
    }
}

fn now(now_ms: u64) -> Now {
    Now { monotonic_ms: now_ms, wall_ms: WALL_MS + now_ms as i64 }
}

fn membership(voters: NodeNumber, observers: NodeNumber) -> Membership {
    let members = (1..=voters + observers).map(|id| {
        let role = if id > voters { "observer" } else { "participant" };
        format!("server.{id}=10.0.0.{id}:2888:3888:{role}\n")
    });
    let text: String = members.chain(["version=0".to_owned()]).collect();
    Membership::parse_text(&text).expect("our own text")
}

/// Anybody may change the membership.
fn room_options() -> TreeOptions {
    TreeOptions { reconfig_enabled: true, skip_acl: true, ..options() }
}

fn peer_settings(me: ServerId, tick_ms: u64) -> ZabSettings {
    ZabSettings {
        me,
        tick_ms,
        init_limit_ticks: 5,
        sync_limit_ticks: 2,
        finalize_wait_ms: 10,
        notification_min_ms: 100,
        notification_max_ms: 1000,
        log_storage: LogStorage::OnDisk,
        history: HistoryLimits { txns_max: 500, bytes_max: 1 << 20 },
        parked_bytes_max: 1 << 20,
        reconfig: Reconfig::Enabled(herdsman_node::membership_in),
        observer_masters: ObserverMasters::Off,
        mistake: None,
    }
}
