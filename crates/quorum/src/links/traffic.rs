//! Traffic counters of one link. Apache: `LearnerHandler.getLearnerHandlerInfo`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use herdsman_proto::{QuorumPacket, Zxid};

/// Counters of one link.
#[derive(Debug)]
pub(super) struct Traffic {
    established_ms: i64,
    received: AtomicU64,
    sent: AtomicU64,
    requests: AtomicU64,
    last_zxid: AtomicI64,
}

/// The state of a link, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The address of the peer.
    pub peer: SocketAddr,
    /// When it was opened, in milliseconds since 1970.
    pub established_ms: i64,
    /// Packets in the send queue.
    pub queued_packets: usize,
    /// Bytes that are queued or being written.
    pub queued_bytes: usize,
    /// Packets received.
    pub packets_received: u64,
    /// Packets sent or queued.
    pub packets_sent: u64,
    /// Client requests among the received packets.
    pub requests: u64,
    /// The zxid of the last received packet that had one.
    pub last_zxid: Zxid,
}

impl Traffic {
    pub fn begin() -> Self {
        Traffic {
            established_ms: herdsman_runtime::wall_ms(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            last_zxid: AtomicI64::new(-1),
        }
    }

    pub fn count_received(&self, packet: &QuorumPacket) {
        self.received.fetch_add(1, Ordering::Relaxed);
        match packet {
            QuorumPacket::Request { .. } => _ = self.requests.fetch_add(1, Ordering::Relaxed),
            QuorumPacket::Ack { zxid } => self.last_zxid.store(zxid.0, Ordering::Relaxed),
            _ => {}
        }
    }

    pub fn count_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets all counters to 0.
    pub fn reset(&self) {
        for counter in [&self.received, &self.sent, &self.requests] {
            counter.store(0, Ordering::Relaxed);
        }
        self.last_zxid.store(-1, Ordering::Relaxed);
    }

    pub fn report(
        &self,
        peer: SocketAddr,
        queued_packets: usize,
        queued_bytes: usize,
    ) -> LinkReport {
        LinkReport {
            peer,
            established_ms: self.established_ms,
            queued_packets,
            queued_bytes,
            packets_received: self.received.load(Ordering::Relaxed),
            packets_sent: self.sent.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            last_zxid: Zxid(self.last_zxid.load(Ordering::Relaxed)),
        }
    }
}
