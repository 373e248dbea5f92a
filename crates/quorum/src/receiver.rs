//! What the network asks of the rest of the server.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::Zxid;
use herdsman_proto::membership::Endpoint;
use herdsman_proto::quorum::fetch::{Chain, MemberState};
use herdsman_zab::{Input, LinkId};

/// Takes what happens on the network. All methods are called by network threads, many at a time, and
/// may block: the peer that caused the call is then not read. They must not stop the network.
///
/// A call may already be under way when the link that it is about is closed or the attempt to connect
/// cancelled. Ids are never used again, so a receiver recognises such latecomers: it ignores inputs of
/// links that it does not know.
pub trait Receiver: Send + Sync + 'static {
    /// Takes inputs, in the order in which they happened on one connection, and leaves the list empty
    /// or not, as it likes.
    fn handle(&self, inputs: &mut Vec<Input>);

    /// Waits, up to `wait`, until there is room for more of what a leader sends, and returns whether there is. A
    /// link that was opened here is not read before.
    fn wait_for_room(&self, link: LinkId, wait: Duration) -> ReadPermission;

    /// An attempt to connect has ended. If it is not the one that is wanted now, a link that stands
    /// has to be closed, and a failure means nothing.
    fn handle_connect(&self, link: LinkId, result: ConnectResult);

    /// Reads the tree that comes behind SNAP with this zxid, up to the signature at its end and not a
    /// byte more, and keeps it until the `Packet` input of that SNAP, which comes next. An error loses
    /// the link.
    ///
    /// # Errors
    /// What `input` said, or what is wrong with the tree.
    fn receive_tree(&self, link: LinkId, zxid: Zxid, input: &mut dyn Read) -> io::Result<()>;

    /// A port could not be opened, at none of its addresses, and is given up. Apache ends the process
    /// then, with exit code 14.
    fn handle_port_failed(&self, failure: PortFailure);

    /// Returns what other members are told about this server when they fetch records.
    fn report_member(&self) -> MemberReport;

    /// Reads the valid records of this server's log files after `after` and before `before`, in order, and passes each
    /// to `send` until that breaks. Returns what they prove.
    fn read_records(&self, after: Zxid, before: Zxid, send: &mut SendRecord<'_>) -> Chain;
}

/// Sends one record to a member that fetches records, and waits until the socket takes it. Breaks if the rest is not
/// wanted.
pub type SendRecord<'a> = dyn FnMut(Zxid, Bytes) -> ControlFlow<()> + 'a;

/// What members that fetch records are told about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The last txn that it has.
    pub last_zxid: Zxid,
    /// What it does.
    pub state: MemberState,
    /// Ranges of txns that are damaged: after, before.
    pub damaged: Vec<(Zxid, Zxid)>,
}

/// Whether the link to the leader may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPermission {
    /// Yes.
    Free,
    /// Not yet: this server is catching up, and its disk is behind.
    Full,
    /// Yes, however much waits for the disk, because this server has caught up and serves clients: it tells the leader
    /// about them in replies to packets on this link. The link is closed when too much waits.
    Active {
        /// Bytes that wait for the disk.
        queued_bytes: usize,
    },
}

/// How an attempt to connect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectResult {
    /// The link stands; its packets follow.
    Connected,
    /// There will be no link.
    Failed,
}

/// One of a member's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Where votes are exchanged.
    Election,
    /// Where learners connect.
    Quorum,
    /// Where observers connect to a follower.
    ObserverMaster,
}

impl PortKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            PortKind::Election => "election",
            PortKind::Quorum => "quorum",
            PortKind::ObserverMaster => "observer master",
        }
    }
}

/// A port that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {endpoint}, the {kind} port, after {tries} tries: {source}; {advice}",
    kind = kind.name(), advice = bind_advice(source)
)]
pub struct PortFailure {
    /// Which one.
    pub kind: PortKind,
    /// Where.
    pub endpoint: Endpoint,
    /// How often it was tried.
    pub tries: u32,
    /// What the system said at last.
    pub source: io::Error,
}

/// What may be wrong when a port cannot be opened, and what to do.
pub(super) fn bind_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address: is the number in the file myid the one of this \
             server, and its server line right?"
        }
        io::ErrorKind::AddrInUse => {
            "another process listens there (is this server running already, or another one with the same number \
             in its file myid?), or a connection from this machine has the port as its own end: put the port \
             into net.ipv4.ip_local_reserved_ports, then that cannot happen again"
        }
        _ => "give this server a port that it may use, in its server line",
    }
}

/// Something long on its way to a learner: a tree, or a part of the log. It may be dropped by the thread that sends it,
/// if the link is gone, or by the one that writes; so to drop it must not take a lock that a sender holds.
pub trait StreamSource: Send {
    /// Appends the next bytes, some ten thousand at a time. Called by the thread that writes to the link, while it
    /// holds no lock. What takes long asks now and then whether the link still stands.
    fn fill(&mut self, out: &mut Vec<u8>, is_wanted: &dyn Fn() -> bool) -> StreamStep;
}

/// Whether a stream is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// More follows.
    More,
    /// That was all.
    Done,
    /// The rest cannot be had any more; the link is lost.
    Broken,
}
