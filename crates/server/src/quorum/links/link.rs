//! One link: its queue, and whether it stands.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use herdsman_proto::{DecodeError, QuorumPacket, Zxid};
use herdsman_zab::LinkId;
use parking_lot::{Condvar, Mutex};

use super::traffic::{LinkReport, Traffic};
use crate::clock::millis;
use crate::quorum::receiver::TreeSource;
use crate::quorum::settings::NetworkSettings;
use crate::quorum::threads::{Threads, cut};

/// How long a link that is closed may take to get its queue out.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// A buffer that grew beyond this is not used again.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Who opened a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The other side.
    Accepted,
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
    #[error("a learner wants to send a tree")]
    TreeFromLearner,
    #[error("the tree that came cannot be used: {0}")]
    Tree(io::Error),
    #[error("the tree that it was sent is gone")]
    TreeGone,
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
    /// SNAP and a tree.
    Tree { zxid: Zxid, source: Box<dyn TreeSource> },
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
    /// Of all packets in the queue and in the writer's hands.
    bytes: usize,
    /// Packets in the queue.
    packets: usize,
    spare: Vec<u8>,
}

pub(super) struct Link {
    pub id: LinkId,
    pub stream: Arc<TcpStream>,
    pub peer: SocketAddr,
    pub origin: Origin,
    outgoing: Mutex<Outgoing>,
    changed: Condvar,
    idle_limit_ms: AtomicU64,
    queue_bytes_max: usize,
    pub traffic: Traffic,
}

impl Link {
    pub fn new(
        id: LinkId,
        stream: Arc<TcpStream>,
        peer: SocketAddr,
        origin: Origin,
        settings: &NetworkSettings,
    ) -> Self {
        let outgoing = Outgoing {
            state: State::Open,
            pieces: VecDeque::new(),
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

    pub fn send(&self, packet: &QuorumPacket) {
        let mut outgoing = self.outgoing.lock();
        let Outgoing { state: State::Open, pieces, bytes, packets, spare } = &mut *outgoing else {
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
        }
        self.changed.notify_one();
    }

    pub fn report(&self) -> LinkReport {
        let outgoing = self.outgoing.lock();
        self.traffic.report(self.peer, outgoing.packets, outgoing.bytes)
    }

    pub fn send_snapshot(&self, zxid: Zxid, source: Box<dyn TreeSource>) {
        let mut outgoing = self.outgoing.lock();
        if matches!(outgoing.state, State::Open) {
            outgoing.pieces.push_back(Piece::Tree { zxid, source });
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
    pub fn next_piece(&self, written: Option<Vec<u8>>, threads: &Threads) -> Option<Piece> {
        let mut outgoing = self.outgoing.lock();
        if let Some(mut buffer) = written {
            outgoing.bytes -= buffer.len();
            if buffer.capacity() <= SPARE_BYTES_MAX {
                buffer.clear();
                outgoing.spare = buffer;
            }
        }
        loop {
            if threads.is_stopping() || matches!(outgoing.state, State::Lost(_)) {
                return None;
            }
            if let Some(piece) = outgoing.pieces.pop_front() {
                if outgoing.pieces.is_empty() {
                    outgoing.packets = 0;
                }
                return Some(piece);
            }
            if matches!(outgoing.state, State::Closing { .. }) {
                return None;
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
        cut(&self.stream);
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
            cut(&self.stream);
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
