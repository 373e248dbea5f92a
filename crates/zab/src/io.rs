//! What agreement hears and what it asks for: two closed lists.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::{Membership, Notification, QuorumPacket, ServerId, Zxid};

use crate::leader::checks::Check;
use crate::log::LogStorage;

/// One connection between a learner and whom it learns from, unique in the life of the process. A packet that
/// was sent on it arrives in order or the link is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Which of a server's ports a learner comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerPort {
    /// Where a leader has its learners.
    Quorum,
    /// Where a follower has its observers.
    ObserverMaster,
}

/// Which of the two epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// Promised: no older leader will be followed.
    Accepted,
    /// Followed: the log is a history of this epoch.
    Current,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Another server's vote.
    Notification {
        /// Whose.
        from: ServerId,
        /// What it says.
        message: Notification,
    },
    /// Somebody connected to one of this server's ports for learners.
    LinkOpened {
        /// On this link.
        link: LinkId,
        /// Which port.
        port: LearnerPort,
    },
    /// The connection that [`Output::Connect`] asked for stands.
    Connected {
        /// It.
        link: LinkId,
    },
    /// The connection that [`Output::Connect`] asked for was given up.
    ConnectFailed,
    /// A packet came in.
    Packet {
        /// On this link.
        link: LinkId,
        /// What. Behind [`QuorumPacket::Snap`] the driver reads the whole tree before it delivers
        /// this input, and keeps it for [`Output::Replay`] and [`Output::InstallSnapshot`].
        packet: QuorumPacket,
    },
    /// Something takes its time while a learner catches up: bytes of a tree come in that do not make a packet yet, the
    /// other side takes the bytes that are sent to it, or nothing is read because this server's own disk is behind.
    Heard {
        /// On this link.
        link: LinkId,
    },
    /// The tree that [`Output::SendSnapshot`] asked for is on its way, to its last byte.
    SnapshotSent {
        /// On this link.
        link: LinkId,
    },
    /// The txns that [`Output::SendLog`] asked for are on their way.
    LogSent {
        /// On this link.
        link: LinkId,
        /// The last of them.
        to: Zxid,
    },
    /// The log does not hold what [`Output::SendLog`] asked for, or holds so much that a tree is shorter. Nothing was
    /// sent.
    LogMissed {
        /// On this link.
        link: LinkId,
    },
    /// A link is gone.
    LinkLost {
        /// Which.
        link: LinkId,
    },
    /// Everything that was asked to be appended up to here is durable.
    Flushed {
        /// The last durable txn.
        zxid: Zxid,
    },
    /// An epoch is durable.
    EpochSaved {
        /// Which one.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// The log ends where [`Output::Truncate`] said.
    Truncated {
        /// There.
        zxid: Zxid,
        /// What became of the tree.
        tree: TreeAfterCut,
    },
    /// The log could not be cut there; it is as it was.
    TruncateMissed,
    /// What [`Output::InstallSnapshot`] asked for is done and durable.
    SnapshotInstalled {
        /// The last txn in it.
        zxid: Zxid,
        /// The membership in the tree: the last that a txn has brought, agreed on or not.
        in_tree: Option<Membership>,
    },
    /// What [`Output::InstallSnapshot`] asked for could not be done; everything is as it was.
    InstallMissed,
    /// What [`Output::AllowVoting`] asked for is done and durable.
    VotingAllowed,
    /// The disk takes nothing at the moment, or never again: nothing may be promised.
    StorageLost,
    /// The disk takes writes again; what was asked of it before is still being done.
    StorageBack,
    /// Time has passed.
    Tick,
}

/// What becomes of the tree when the log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeAfterCut {
    /// It shows nothing of what is cut off, and stays.
    Kept,
    /// It is loaded again from disk.
    Reloaded,
}

/// Why a link is closed, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This server does not lead, or no longer.
    NotLeading,
    /// This server follows nobody, or somebody else.
    NotFollowing,
    /// A packet that makes no sense here.
    UnexpectedPacket,
    /// The other side's membership is newer than ours.
    NewerConfig,
    /// The other side's history is newer than this leader's.
    AheadOfLeader,
    /// The other side says that it has promised an epoch that is too far ahead to be true.
    ImplausibleEpoch,
    /// The leader's epoch is older than one that was promised.
    OldEpoch,
    /// Nothing was heard for too long.
    TimedOut,
    /// A proposal does not continue the ones before.
    Gap,
    /// The same server has connected again.
    Replaced,
    /// The server whose number it has uses another link.
    AlreadyConnected,
    /// The membership has changed since NEWLEADER was sent: it must reconnect to learn the new one.
    MembershipChanged,
    /// Too many at once.
    TooMany,
    /// This server does not follow, or no longer, so it has nothing for observers.
    NotObserverMaster,
    /// Only observers are served at the observer master's port.
    NotAnObserver,
}

/// What this server has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleStatus {
    /// It looks for a leader and serves nobody.
    Looking,
    /// It leads: it may propose, from the start of this epoch.
    Leading {
        /// Its epoch.
        epoch: u32,
    },
    /// It follows over this link and is up to date.
    Following {
        /// To the leader.
        link: LinkId,
        /// The leader.
        leader: ServerId,
    },
    /// The same, without a vote.
    Observing {
        /// To the leader.
        link: LinkId,
        /// The leader.
        leader: ServerId,
    },
}

/// Something to carry out. What concerns the disk happens in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell another server our vote, connecting to it if need be. A newer message replaces one that
    /// is not sent yet.
    Notify {
        /// Whom.
        to: ServerId,
        /// What.
        message: Notification,
    },
    /// Connect to a server as a learner; answered by `Connected` or `ConnectFailed`. A newer one
    /// replaces it, [`Output::RoleChanged`] with `Looking` ends it.
    Connect {
        /// Which server.
        to: ServerId,
        /// Which of its ports.
        port: LearnerPort,
    },
    /// Send a packet.
    Send {
        /// On this link.
        link: LinkId,
        /// What.
        packet: QuorumPacket,
    },
    /// Send SNAP and behind it the tree, while it goes on changing, and report `SnapshotSent` when all
    /// of it was taken from the tree. What is sent to the link afterwards waits behind it.
    SendSnapshot {
        /// On this link.
        link: LinkId,
        /// The zxid in SNAP: the tree contains at least this.
        zxid: Zxid,
    },
    /// Send the txns of the log after `after`, up to `to`, each as PROPOSAL and COMMIT, and report `LogSent` when all
    /// of them were read. What is sent to the link afterwards waits behind them. All of them are durable.
    SendLog {
        /// On this link.
        link: LinkId,
        /// The txn before the first one.
        after: Zxid,
        /// The last one.
        to: Zxid,
        /// Nothing was sent yet. If the log holds `after`, or the next txn of the same epoch, and everything behind
        /// it, send DIFF with this zxid first; else report `LogMissed`.
        diff: Option<Zxid>,
    },
    /// Close a link once what was sent before is out. No `LinkLost` follows.
    Close {
        /// Which.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// Append a txn to the log and report `Flushed` when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its bytes.
        payload: Bytes,
        /// In memory only: nothing is written and nothing reported.
        storage: LogStorage,
    },
    /// Make an epoch durable and report `EpochSaved`.
    SaveEpoch {
        /// Which.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// Cut the log after this txn, report `Truncated` or `TruncateMissed`.
    Truncate {
        /// The last txn to keep.
        zxid: Zxid,
        /// Whether the tree shows what is cut off.
        tree: TreeAfterCut,
    },
    /// Keep an empty tree, as if it had come behind SNAP on this link: all txns come from the leader.
    BeginEmpty {
        /// It.
        link: LinkId,
    },
    /// Apply a txn to the tree that came behind SNAP. Nothing on disk changes.
    Replay {
        /// The link on which the tree came.
        link: LinkId,
        /// The txn's zxid.
        zxid: Zxid,
        /// Its bytes.
        payload: Bytes,
    },
    /// Write the tree that came behind SNAP, with the txns that were applied to it, as a snapshot, only then drop the
    /// old log, and put the tree in the old one's place. Report `SnapshotInstalled`.
    InstallSnapshot {
        /// The link on which the tree came.
        link: LinkId,
        /// The zxid of SNAP.
        zxid: Zxid,
    },
    /// A membership is pending: its servers have a say, so they must be reachable. Its txn is in the log;
    /// nothing else has to remember it.
    MembershipPending {
        /// It.
        membership: Arc<Membership>,
    },
    /// Go by this membership from now on, and remember it.
    Activate {
        /// It.
        membership: Arc<Membership>,
    },
    /// This server was told not to vote and is up to date now ([`crate::Zab::prove_quorum`]): forget that durably,
    /// and report `VotingAllowed`.
    AllowVoting,
    /// Everything up to here is agreed on and durable here: it may be applied.
    Commit {
        /// The last one.
        zxid: Zxid,
    },
    /// A quorum still followed this leader after the check began, and after all checks before it.
    CheckPassed {
        /// Which.
        check: Check,
    },
    /// This server's role has changed.
    RoleChanged(RoleStatus),
}
