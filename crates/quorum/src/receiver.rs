//! The interface through which the network calls the rest of the server.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::Zxid;
use herdsman_proto::membership::Endpoint;
use herdsman_proto::quorum::fetch::{Chain, MemberState};
use herdsman_zab::{Input, LinkId};

/// Receives network events. All methods are called by network threads, many at a time, and
/// may block: the peer that caused the call is then not read. They must not stop the network.
///
/// A call may already be under way when its link is closed or its connection attempt
/// is cancelled. Ids are never reused, so a receiver detects late calls: it ignores inputs of
/// links that it does not know.
pub trait Receiver: Send + Sync + 'static {
    /// Handles inputs in the order in which they happened on one connection. May drain the list or leave it as it is.
    fn handle(&self, inputs: &mut Vec<Input>);

    /// Waits, up to `wait`, until there is space for more packets of a leader, and returns whether there is. Links that
    /// this server opened are not read before.
    fn wait_for_room(&self, link: LinkId, wait: Duration) -> ReadPermission;

    /// A connection attempt has ended. If it is not the current one, an open link
    /// must be closed and a failure is ignored.
    fn handle_connect(&self, link: LinkId, result: ConnectResult);

    /// Reads the tree that follows SNAP with this zxid, up to the signature at its end and not a
    /// byte more, and stores it until the `Packet` input of that SNAP, which follows. An error fails
    /// the link.
    ///
    /// # Errors
    /// The error of `input`, or what is wrong with the tree.
    fn receive_tree(&self, link: LinkId, zxid: Zxid, input: &mut dyn Read) -> io::Result<()>;

    /// A port could be opened at none of its addresses, and is not retried any more. Apache ends the process
    /// then, with exit code 14.
    fn handle_port_failed(&self, failure: PortFailure);

    /// Returns the state of this server for members that fetch records.
    fn report_member(&self) -> MemberReport;

    /// Reads the valid records of this server's log files after `after` and before `before`, in order, and passes each
    /// to `send` until that breaks. Between pieces of the files it checks `is_wanted`, also if nothing is to be sent,
    /// and stops when that is false. Returns the chain that they prove.
    fn read_records(
        &self,
        range: (Zxid, Zxid),
        is_wanted: &dyn Fn() -> bool,
        send: &mut SendRecord<'_>,
    ) -> Chain;
}

/// Sends one record to a member that fetches records, and waits until the socket accepts it. Breaks if the rest is not
/// needed.
pub type SendRecord<'a> = dyn FnMut(Zxid, Bytes) -> ControlFlow<()> + 'a;

/// The state of this server that is reported to members that fetch records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The last txn in its log.
    pub last_zxid: Zxid,
    /// Its role.
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
    /// Yes, however much is queued for the disk, because this server has caught up and serves clients: it reports
    /// them to the leader in replies to packets on this link. The link is closed when too much is queued.
    Active {
        /// Bytes that are queued for the disk.
        queued_bytes: usize,
    },
}

/// How an attempt to connect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectResult {
    /// The link is open; its packets follow.
    Connected,
    /// The attempt failed.
    Failed,
}

/// One of a member's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// For votes.
    Election,
    /// For learners.
    Quorum,
    /// For the observers of a follower.
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
    "cannot listen on {endpoint} ({kind} port) after {tries} tries: {source}; {advice}",
    kind = kind.name(), advice = bind_advice(source)
)]
pub struct PortFailure {
    /// The kind of port.
    pub kind: PortKind,
    /// Its address.
    pub endpoint: Endpoint,
    /// The number of attempts.
    pub tries: u32,
    /// The last error.
    pub source: io::Error,
}

/// What the cause of a failure to open a port may be, and what to do.
pub(super) fn bind_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address: check that myid and this server's server line are right"
        }
        io::ErrorKind::AddrInUse => {
            "another process listens there (is this server running already, or another one with the same number \
            in its file myid?), or the port is in use as the local port of an outgoing connection: add the port \
            to net.ipv4.ip_local_reserved_ports, then that cannot happen again"
        }
        _ => "choose a port that this process may open, in the server line",
    }
}

/// A long transmission to a learner: a tree, or a part of the log. It is dropped by the sending thread if the link is
/// lost, or by the writing thread; dropping it must not take a lock that a sender holds.
pub trait StreamSource: Send {
    /// Appends the next bytes, some ten thousand at a time. Called by the thread that writes to the link, without
    /// any lock. Long operations check from time to time whether the link is still open.
    fn fill(&mut self, out: &mut Vec<u8>, is_wanted: &dyn Fn() -> bool) -> StreamStep;
}

/// Whether a stream is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// More follows.
    More,
    /// That was all.
    Done,
    /// The rest is no longer available; the link is closed.
    Broken,
}
