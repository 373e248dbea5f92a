//! One link: its queue and its state.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use herdsman_proto::{DecodeError, QuorumPacket, ServerId};
use herdsman_zab::LinkId;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::traffic::{LinkReport, Traffic};
use crate::receiver::StreamSource;
use crate::settings::NetworkSettings;
use crate::stream::PeerStream;
use crate::threads::{Threads, cut};
use herdsman_runtime::millis;

/// How long a closing link may take to send what is queued.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// A buffer that grew beyond this is not used again.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Which side opened a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The peer.
    Accepted {
        /// Its connection slot.
        slot: u64,
    },
    /// This server.
    Connected,
}

/// Why a link was lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum Loss {
    #[error("connection closed by the peer")]
    Ended,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no data received for {0} ms")]
    Silent(u64),
    #[error("timed out waiting for the first packet")]
    FirstPacketLate,
    #[error("malformed packet: {0}")]
    Garbage(#[from] DecodeError),
    #[error("a packet is longer than {0} bytes")]
    PacketTooLong(usize),
    #[error("too many connections from servers that are not in the membership (limit {0})")]
    TooManyUnlisted(usize),
    #[error("{0}")]
    IdentityMismatch(io::Error),
    #[error("unexpected snapshot from a learner")]
    TreeFromLearner,
    #[error("FETCH from server {0}, which is not a member")]
    FetchByNonMember(ServerId),
    #[error("unexpected FETCH or RECORD packet on this link")]
    UnexpectedFetch,
    #[error("cannot use the received snapshot: {0}")]
    Tree(io::Error),
    #[error("the tree was replaced, or the log could not be read, while it was being sent")]
    StreamGone,
    #[error(
        "this server's disk is too slow: {0} bytes of txns are queued; rejoining when they are written"
    )]
    DiskBehind(usize),
    #[error("send queue is full: {0} bytes are waiting and the peer does not read")]
    QueueFull(usize),
    #[error("peer has not read anything for {0} ms")]
    NotReading(u64),
    #[error("the link was closed or the network is stopping")]
    Closed,
}

/// How a link ended.
pub(super) enum Ended {
    /// Closed by this server; `by` is the deadline for draining.
    Closed { by: Instant },
    /// It was lost.
    Lost(Loss),
}

/// Something to write.
pub(super) enum Piece {
    /// Encoded packets, concatenated.
    Packets(Vec<u8>),
    /// A tree or a part of the log.
    Stream(Box<dyn StreamSource>),
}

enum State {
    Open,
    /// Sends what is queued, until this deadline.
    Closing {
        by: Instant,
    },
    /// `None` after the reader has taken the reason.
    Lost(Option<Loss>),
}

struct Outgoing {
    state: State,
    pieces: VecDeque<Piece>,
    /// A piece is being written, by the writer or by a flushing thread.
    writing: bool,
    /// Bytes of packets that are queued or being written.
    bytes: usize,
    /// Packets in the queue.
    packets: usize,
    spare: Vec<u8>,
}

impl Outgoing {
    fn begins_with_packets(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::Packets(_)))
    }

    /// Takes the next piece to write.
    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        if self.pieces.is_empty() {
            self.packets = 0;
        }
        self.writing = true;
        Some(piece)
    }

    /// Returns a packet buffer of which `sent` bytes were written.
    fn put_back(&mut self, mut buffer: Vec<u8>, sent: usize) {
        self.writing = false;
        self.bytes -= sent;
        if sent < buffer.len() {
            buffer.drain(..sent);
            self.packets += 1;
            self.pieces.push_front(Piece::Packets(buffer));
        } else if buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.spare = buffer;
        }
    }
}

/// The result of writing the previous piece.
pub(super) enum Written {
    /// There was none.
    Nothing,
    /// The packets were written; the buffer can be reused.
    Packets(Vec<u8>),
    /// The stream was written.
    Stream,
}

pub(super) struct Link {
    pub id: LinkId,
    pub stream: Arc<PeerStream>,
    pub peer: SocketAddr,
    pub origin: Origin,
    outgoing: Mutex<Outgoing>,
    changed: Condvar,
    /// Packets are queued and no flush is pending.
    unflushed: AtomicBool,
    idle_limit_ms: AtomicU64,
    queue_bytes_max: usize,
    pub traffic: Traffic,
}

impl Link {
    pub fn new(
        id: LinkId,
        stream: Arc<PeerStream>,
        peer: SocketAddr,
        origin: Origin,
        settings: &NetworkSettings,
    ) -> Self {
        let outgoing = Outgoing {
            state: State::Open,
            pieces: VecDeque::new(),
            writing: false,
            bytes: 0,
            packets: 0,
            spare: Vec::new(),
        };
        Link {
            id,
            stream,
            peer,
            origin,
            outgoing: Mutex::new(outgoing),
            changed: Condvar::new(),
            unflushed: AtomicBool::new(false),
            idle_limit_ms: AtomicU64::new(millis(settings.init_limit)),
            queue_bytes_max: settings.queue_bytes_max,
            traffic: Traffic::begin(),
        }
    }

    pub fn idle_limit(&self) -> Duration {
        Duration::from_millis(self.idle_limit_ms.load(Ordering::Relaxed).max(1))
    }

    pub fn set_idle_limit(&self, limit_ms: u64) {
        self.idle_limit_ms.store(limit_ms, Ordering::Relaxed);
    }

    /// Queues a packet, which is sent with the next [`Link::flush`].
    pub fn send(&self, packet: &QuorumPacket) {
        let mut outgoing = self.outgoing.lock();
        let Outgoing { state: State::Open, pieces, bytes, packets, spare, .. } = &mut *outgoing
        else {
            return;
        };
        *packets += 1;
        self.traffic.count_sent();
        if !matches!(pieces.back(), Some(Piece::Packets(_))) {
            pieces.push_back(Piece::Packets(std::mem::take(spare)));
        }
        let Some(Piece::Packets(buffer)) = pieces.back_mut() else {
            unreachable!("a packet buffer was pushed above")
        };
        let before = buffer.len();
        packet.encode(buffer);
        *bytes += buffer.len() - before;
        if *bytes > self.queue_bytes_max {
            let loss = Loss::QueueFull(*bytes);
            self.lose_locked(&mut outgoing, loss);
            self.changed.notify_one();
        }
        self.unflushed.store(true, Ordering::Release);
    }

    /// Returns and resets whether packets were queued since the last call.
    pub fn take_unflushed(&self) -> bool {
        self.unflushed.swap(false, Ordering::AcqRel)
    }

    /// Writes the queued packets, as far as the socket accepts them at once: a hand-off to the
    /// writer would cost more than that. The writer thread handles the rest, streams and errors.
    pub fn flush(&self) {
        let mut outgoing = self.outgoing.lock();
        let is_open = matches!(outgoing.state, State::Open);
        if outgoing.writing || !is_open || !outgoing.begins_with_packets() {
            self.changed.notify_one();
            return;
        }
        let Some(Piece::Packets(buffer)) = outgoing.pop() else { return };
        let sent = MutexGuard::unlocked(&mut outgoing, || self.stream.try_write(&buffer));
        outgoing.put_back(buffer, sent);
        if !outgoing.pieces.is_empty() || !matches!(outgoing.state, State::Open) {
            self.changed.notify_one();
        }
    }

    pub fn report(&self) -> LinkReport {
        let outgoing = self.outgoing.lock();
        self.traffic.report(self.peer, outgoing.packets, outgoing.bytes)
    }

    pub fn send_stream(&self, source: Box<dyn StreamSource>) {
        let mut outgoing = self.outgoing.lock();
        if matches!(outgoing.state, State::Open) {
            outgoing.pieces.push_back(Piece::Stream(source));
            self.changed.notify_one();
        }
    }

    pub fn close(&self) {
        let mut outgoing = self.outgoing.lock();
        if !matches!(outgoing.state, State::Closing { .. }) {
            outgoing.state = State::Closing { by: Instant::now() + CLOSE_WAIT };
            self.changed.notify_one();
        }
    }

    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Whether it was neither closed nor lost.
    pub fn is_open(&self) -> bool {
        matches!(self.outgoing.lock().state, State::Open)
    }

    /// Whether the writer must stop immediately.
    pub fn is_overdue(&self) -> bool {
        match self.outgoing.lock().state {
            State::Open => false,
            State::Closing { by } => Instant::now() >= by,
            State::Lost(_) => true,
        }
    }

    /// Waits for something to write. `written` is the result of the previous piece. `None` ends the
    /// writer: everything is written, or nothing can be written any more.
    pub fn next_piece(&self, written: Written, threads: &Threads) -> Option<Piece> {
        let mut outgoing = self.outgoing.lock();
        match written {
            Written::Nothing => {}
            Written::Packets(buffer) => {
                let bytes = buffer.len();
                outgoing.put_back(buffer, bytes);
            }
            Written::Stream => outgoing.writing = false,
        }
        loop {
            if threads.is_stopping() || matches!(outgoing.state, State::Lost(_)) {
                return None;
            }
            if !outgoing.writing {
                if let Some(piece) = outgoing.pop() {
                    return Some(piece);
                }
                if matches!(outgoing.state, State::Closing { .. }) {
                    return None;
                }
            }
            self.changed.wait(&mut outgoing);
        }
    }

    /// Takes the queue that the writer leaves behind when it ends.
    pub fn take_rest(&self) -> VecDeque<Piece> {
        std::mem::take(&mut self.outgoing.lock().pieces)
    }

    /// Fails the link: shuts the socket down, which ends the reader, which reports the first error.
    pub fn lose(&self, loss: Loss) {
        self.lose_locked(&mut self.outgoing.lock(), loss);
        self.changed.notify_one();
    }

    fn lose_locked(&self, outgoing: &mut Outgoing, loss: Loss) {
        if matches!(outgoing.state, State::Open) {
            outgoing.state = State::Lost(Some(loss));
        }
        cut(self.stream.socket());
    }

    /// Called when the reader ends. The link accepts no more packets.
    pub fn end(&self, loss: Loss) -> Ended {
        let mut outgoing = self.outgoing.lock();
        let ended = match &mut outgoing.state {
            State::Closing { by } => Ended::Closed { by: *by },
            State::Lost(first) => Ended::Lost(first.take().unwrap_or(loss)),
            state @ State::Open => {
                *state = State::Lost(None);
                Ended::Lost(loss)
            }
        };
        if matches!(ended, Ended::Lost(_)) {
            cut(self.stream.socket());
        }
        drop(outgoing);
        self.changed.notify_one();
        ended
    }

    /// Shuts the socket down, which ends both threads.
    pub fn shut_down(&self) {
        self.lose(Loss::Closed);
    }
}
