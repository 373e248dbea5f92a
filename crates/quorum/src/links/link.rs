//! One link: its queue, and whether it stands.

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

/// How long a link that is closed may take to get its queue out.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// A buffer that grew beyond this is not used again.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Who opened a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The other side.
    Accepted {
        /// The number of its slot.
        slot: u64,
    },
    /// This one.
    Connected,
}

/// Why a link is gone.
#[derive(Debug, thiserror::Error)]
pub(super) enum Loss {
    #[error("the other side closed it")]
    Ended,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("nothing was heard for {0} ms")]
    Silent(u64),
    #[error("the first packet did not come in time")]
    FirstPacketLate,
    #[error("what came is no packet: {0}")]
    Garbage(#[from] DecodeError),
    #[error("a packet is longer than {0} bytes")]
    PacketTooLong(usize),
    #[error(
        "{0} servers that are not in the membership are connected already, the most that may be"
    )]
    TooManyUnlisted(usize),
    #[error("{0}")]
    Impostor(io::Error),
    #[error("a learner wants to send a tree")]
    TreeFromLearner,
    #[error("server {0}, which is not a member, asks for records of the log")]
    FetchByNonMember(ServerId),
    #[error("it asks for records of the log or sends some, which it may not on this link")]
    UnexpectedFetch,
    #[error("the tree that came cannot be used: {0}")]
    Tree(io::Error),
    #[error("the tree was replaced, or the log could not be read, while it was being sent")]
    StreamGone,
    #[error(
        "the disk of this server is too far behind: {0} bytes of txns wait for it; this server joins again when they \
         are written"
    )]
    DiskBehind(usize),
    #[error("it does not read: {0} bytes wait to be sent")]
    QueueFull(usize),
    #[error("it has read nothing for {0} ms")]
    NotReading(u64),
    #[error("the link is closed or the network stops")]
    Closed,
}

/// How a link ended.
pub(super) enum Ended {
    /// It was closed here; the other side may take until then to see it.
    Closed { by: Instant },
    /// It broke.
    Lost(Loss),
}

/// What waits to be written.
pub(super) enum Piece {
    /// Packets, one behind the other.
    Packets(Vec<u8>),
    /// A tree or a part of the log.
    Stream(Box<dyn StreamSource>),
}

enum State {
    Open,
    /// What is queued goes out, until then.
    Closing {
        by: Instant,
    },
    /// `None` once the reader has taken the reason.
    Lost(Option<Loss>),
}

struct Outgoing {
    state: State,
    pieces: VecDeque<Piece>,
    /// Somebody has a piece in hand: the writer, or a thread that flushes.
    writing: bool,
    /// Of all packets in the queue and in the writer's hands.
    bytes: usize,
    /// Packets in the queue.
    packets: usize,
    spare: Vec<u8>,
}

impl Outgoing {
    fn begins_with_packets(&self) -> bool {
        matches!(self.pieces.front(), Some(Piece::Packets(_)))
    }

    /// Takes the next piece in hand.
    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        if self.pieces.is_empty() {
            self.packets = 0;
        }
        self.writing = true;
        Some(piece)
    }

    /// Gives packets out of hand of which so many bytes are written.
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

/// What the writer has done with the piece before.
pub(super) enum Written {
    /// There was none.
    Nothing,
    /// These are out.
    Packets(Vec<u8>),
    /// It was a stream, and is out.
    Stream,
}

pub(super) struct Link {
    pub id: LinkId,
    pub stream: Arc<PeerStream>,
    pub peer: SocketAddr,
    pub origin: Origin,
    outgoing: Mutex<Outgoing>,
    changed: Condvar,
    /// Something was queued that nobody has been asked to write.
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

    /// Queues a packet, which goes out with the next [`Link::flush`].
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
            unreachable!("it was put there just now")
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

    /// Whether something was queued since it was last asked for.
    pub fn take_unflushed(&self) -> bool {
        self.unflushed.swap(false, Ordering::AcqRel)
    }

    /// Writes the packets that have gathered, as far as the socket takes them at once: a hand-off to the
    /// writer would cost more than that. The rest, trees and trouble are the writer's.
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

    /// It was neither closed nor lost.
    pub fn is_open(&self) -> bool {
        matches!(self.outgoing.lock().state, State::Open)
    }

    /// The writer has to stop in the middle of what it writes.
    pub fn is_overdue(&self) -> bool {
        match self.outgoing.lock().state {
            State::Open => false,
            State::Closing { by } => Instant::now() >= by,
            State::Lost(_) => true,
        }
    }

    /// Waits for something to write. `written` is what came of the piece before. `None` ends the
    /// writer: everything is out, or nothing can be sent any more.
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

    /// What the writer leaves behind when it ends.
    pub fn take_rest(&self) -> VecDeque<Piece> {
        std::mem::take(&mut self.outgoing.lock().pieces)
    }

    /// Something is wrong: the socket is cut, which ends the reader, which reports the first reason.
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

    /// The reader has ended. From here on the link takes nothing any more.
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

    /// The very end, for both threads.
    pub fn hang_up(&self) {
        self.lose(Loss::Closed);
    }
}
