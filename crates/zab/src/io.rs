//! The inputs and outputs of agreement, each a closed list.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::{Membership, Notification, QuorumPacket, ServerId, Zxid};

use crate::leader::checks::Check;
use crate::log::LogStorage;
use crate::replica::Voting;

/// One connection between a learner and the server that it learns from, unique in the life of the process. Packets
/// that are sent on it arrive in order, or the link is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The port of a server to which a learner connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnerPort {
    /// The port on which a leader accepts its learners.
    Quorum,
    /// The port on which a follower accepts its observers.
    ObserverMaster,
}

/// Which of the two epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// Promised: no older leader will be followed.
    Accepted,
    /// Followed: the log is a history of this epoch.
    Current,
}

/// An event.
#[derive(Clone, Debug)]
pub enum Input {
    /// Another server's vote has arrived.
    Notification {
        /// The sender.
        from: ServerId,
        /// Its message.
        message: Notification,
    },
    /// A peer has connected to one of this server's ports for learners.
    LinkOpened {
        /// The new link.
        link: LinkId,
        /// The port to which it connected.
        port: LearnerPort,
    },
    /// The connection that [`Output::Connect`] requested is open.
    Connected {
        /// The new link.
        link: LinkId,
    },
    /// The driver has given up the connection that [`Output::Connect`] requested.
    ConnectFailed,
    /// A packet has arrived.
    Packet {
        /// The link on which it came.
        link: LinkId,
        /// The packet. After [`QuorumPacket::Snap`] the driver reads the whole tree before it delivers
        /// this input, and keeps it for [`Output::Replay`] and [`Output::InstallSnapshot`].
        packet: QuorumPacket,
    },
    /// A learner that catches up makes progress which takes time: part of a tree arrives, but not yet a whole packet;
    /// the other side accepts bytes that are sent to it; or nothing is read because this server's own disk is behind.
    Heard {
        /// The link concerned.
        link: LinkId,
    },
    /// The tree that [`Output::SendSnapshot`] requested is on its way, to its last byte.
    SnapshotSent {
        /// The link on which it was sent.
        link: LinkId,
    },
    /// The txns that [`Output::SendLog`] requested are on their way.
    LogSent {
        /// The link on which they were sent.
        link: LinkId,
        /// The last of them.
        to: Zxid,
    },
    /// The log does not hold what [`Output::SendLog`] requested, or holds so much that a tree is shorter. Nothing was
    /// sent.
    LogMissed {
        /// The link of the learner.
        link: LinkId,
    },
    /// A link is lost.
    LinkLost {
        /// The lost link.
        link: LinkId,
    },
    /// All txns that were to be appended, up to this one, are durable.
    Flushed {
        /// The last durable txn.
        zxid: Zxid,
    },
    /// An epoch is durable.
    EpochSaved {
        /// Which epoch.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// The log was cut as [`Output::Truncate`] requested.
    Truncated {
        /// The last txn that is left.
        zxid: Zxid,
        /// What happened to the tree.
        tree: TreeAfterCut,
    },
    /// The log could not be cut there; it is unchanged.
    TruncateMissed,
    /// The snapshot of [`Output::InstallSnapshot`] is installed and durable.
    SnapshotInstalled {
        /// The last txn in it.
        zxid: Zxid,
        /// The membership in the tree: the last one that a txn carried, agreed on or not.
        in_tree: Option<Membership>,
    },
    /// The snapshot of [`Output::InstallSnapshot`] could not be installed; nothing has changed.
    InstallMissed,
    /// What [`Output::AllowVoting`] requested is done and durable.
    VotingAllowed,
    /// The disk accepts no writes at the moment, or never will again: nothing may be promised.
    StorageLost,
    /// The disk accepts writes again; the earlier requests to it are still being carried out.
    StorageBack,
    /// Time has passed.
    Tick,
}

/// What happens to the tree when the log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeAfterCut {
    /// It contains nothing of what is cut off, and stays.
    Kept,
    /// It is loaded again from disk.
    Reloaded,
}

/// Why a link is closed, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This server does not lead, or no longer does.
    NotLeading,
    /// This server follows no leader, or another one.
    NotFollowing,
    /// The packet is not valid in this state.
    UnexpectedPacket,
    /// The other side's membership is newer than ours.
    NewerConfig,
    /// The other side's history is newer than this leader's.
    AheadOfLeader,
    /// The other side claims to have promised an epoch that is implausibly far ahead.
    ImplausibleEpoch,
    /// The leader's epoch is older than one that was promised.
    OldEpoch,
    /// Nothing was received for too long.
    TimedOut,
    /// A proposal does not follow the previous one.
    Gap,
    /// The same server has connected again.
    Replaced,
    /// The server whose id it claims uses another link.
    AlreadyConnected,
    /// The membership has changed since NEWLEADER was sent: it must reconnect to learn the new one.
    MembershipChanged,
    /// A limit on links is reached.
    TooMany,
    /// A limit on its pending requests is reached.
    TooManyPending,
    /// This server does not follow, or no longer does, so it cannot serve observers.
    NotObserverMaster,
    /// Only observers are served at the observer master's port.
    NotAnObserver,
}

/// The role of this server, once it can act in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleStatus {
    /// It looks for a leader and serves no clients.
    Looking,
    /// It leads: it may propose, from the start of this epoch.
    Leading {
        /// Its epoch.
        epoch: u32,
    },
    /// It follows a leader and is up to date.
    Following {
        /// The link to the leader.
        link: LinkId,
        /// The leader.
        leader: ServerId,
    },
    /// It follows a leader without a vote, and is up to date.
    Observing {
        /// The link to the leader.
        link: LinkId,
        /// The leader.
        leader: ServerId,
    },
}

/// An action for the driver to carry out. Actions on the disk happen in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send our vote to another server, connecting to it if necessary. A newer message replaces one that
    /// is not sent yet.
    Notify {
        /// The receiver.
        to: ServerId,
        /// The message.
        message: Notification,
    },
    /// Connect to a server as a learner; answered by `Connected` or `ConnectFailed`. A newer request
    /// replaces it, [`Output::RoleChanged`] with `Looking` cancels it.
    Connect {
        /// The server.
        to: ServerId,
        /// The port.
        port: LearnerPort,
    },
    /// Send a packet.
    Send {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: QuorumPacket,
    },
    /// Send SNAP and then the tree, which goes on changing meanwhile. Report `SnapshotSent` when all of it
    /// has been read from the tree. Later packets for the link wait behind it.
    SendSnapshot {
        /// The link.
        link: LinkId,
        /// The zxid in SNAP: the tree contains at least this.
        zxid: Zxid,
    },
    /// Send the txns of the log after `after`, up to `to`, each as PROPOSAL and COMMIT, and report `LogSent` when all
    /// of them have been read. Later packets for the link wait behind them. All of these txns are durable.
    SendLog {
        /// The link.
        link: LinkId,
        /// The txn before the first one.
        after: Zxid,
        /// The last one.
        to: Zxid,
        /// Set if nothing was sent yet: if the log holds `after`, or the next txn of the same epoch, and everything
        /// after it, send DIFF with this zxid first; else report `LogMissed`.
        diff: Option<Zxid>,
    },
    /// Close a link once earlier packets are out. No `LinkLost` follows.
    Close {
        /// The link.
        link: LinkId,
        /// The reason.
        reason: CloseReason,
    },
    /// Append a txn to the log and report `Flushed` when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its bytes.
        payload: Bytes,
        /// Whether it is written at all. In memory only: nothing is written and nothing reported.
        storage: LogStorage,
    },
    /// Make an epoch durable and report `EpochSaved`.
    SaveEpoch {
        /// Which epoch.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// Cut the log after this txn, then report `Truncated` or `TruncateMissed`.
    Truncate {
        /// The last txn to keep.
        zxid: Zxid,
        /// Whether the tree contains what is cut off.
        tree: TreeAfterCut,
    },
    /// Begin with an empty tree, as if it had come after SNAP on this link: all txns come from the leader.
    BeginEmpty {
        /// The link to the leader.
        link: LinkId,
    },
    /// Apply a txn to the tree that came after SNAP. Nothing on disk changes.
    Replay {
        /// The link on which the tree came.
        link: LinkId,
        /// The txn's zxid.
        zxid: Zxid,
        /// Its bytes.
        payload: Bytes,
    },
    /// Write the tree that came after SNAP, with the txns that were applied to it, as a snapshot; only then delete the
    /// old log and replace the old tree. Report `SnapshotInstalled`.
    InstallSnapshot {
        /// The link on which the tree came.
        link: LinkId,
        /// The zxid of SNAP.
        zxid: Zxid,
        /// If voting is suspended, that must be durable before anything is replaced: what is replaced may be all that
        /// shows what this server has acknowledged.
        voting: Voting,
    },
    /// A membership is pending: decisions need its servers, so they must be reachable. Its txn is in the log;
    /// it need not be stored anywhere else.
    MembershipPending {
        /// The pending membership.
        membership: Arc<Membership>,
    },
    /// Use this membership from now on, and store it.
    Activate {
        /// The membership in force.
        membership: Arc<Membership>,
    },
    /// This server was not allowed to vote and is up to date now ([`crate::Zab::prove_quorum`]): durably allow it to
    /// vote, and report `VotingAllowed`.
    AllowVoting,
    /// Everything up to this txn is agreed on and durable here: it may be applied.
    Commit {
        /// The last such txn.
        zxid: Zxid,
    },
    /// A quorum still followed this leader after the check began, and after all checks before it.
    CheckPassed {
        /// The check.
        check: Check,
    },
    /// This server's role has changed.
    RoleChanged(RoleStatus),
}
