//! A connection to another member's learner port that is not a link: to fetch records, or to check whether a
//! leader answers there. Used by one thread, which waits for each answer.
//!
//! A wait ends when the peer is silent for too long, or when the caller cancels it.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use herdsman_proto::quorum::LearnerInfo;
use herdsman_proto::quorum::fetch::{FetchRequest, Fetched};
use herdsman_proto::{DecodeError, JuteReader, LearnerKind, QuorumPacket};

use super::incoming::{Fill, Incoming};
use super::receiver::SendRecord;

/// How often a wait checks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// The connection. Dropping it closes it.
pub struct MemberConnection {
    incoming: Incoming,
    field_bytes_max: usize,
    silence_max: Duration,
}

/// Returns false to cancel a wait.
pub type IsWanted<'a> = dyn Fn() -> bool + 'a;

impl MemberConnection {
    pub(super) fn new(incoming: Incoming, field_bytes_max: usize, silence_max: Duration) -> Self {
        MemberConnection { incoming, field_bytes_max, silence_max }
    }

    /// Fetches records. Passes each to `take`, in the order of the log, until that breaks.
    ///
    /// # Errors
    /// The peer is gone or silent, or has sent something else; or the call was cancelled.
    pub fn fetch(
        &mut self,
        request: FetchRequest,
        is_wanted: &IsWanted<'_>,
        take: &mut SendRecord<'_>,
    ) -> io::Result<Fetched> {
        self.send(&QuorumPacket::Fetch(request))?;
        loop {
            match self.receive(is_wanted)? {
                QuorumPacket::Record { zxid, payload } => {
                    if take(zxid, payload) == ControlFlow::Break(()) {
                        return Err(io::Error::other("cancelled: no more records are needed"));
                    }
                }
                QuorumPacket::Fetched(fetched) => return Ok(fetched),
                _ => return Err(unexpected()),
            }
        }
    }

    /// Introduces this server as an observer, and waits until the peer answers as a leader does. The peer must
    /// not have promised an epoch after `accepted_epoch`.
    ///
    /// # Errors
    /// The peer does not answer like a leader, or the call was cancelled.
    pub fn await_leader_info(
        &mut self,
        info: LearnerInfo,
        accepted_epoch: u32,
        is_wanted: &IsWanted<'_>,
    ) -> io::Result<()> {
        let kind = LearnerKind::Observer;
        self.send(&QuorumPacket::Info { kind, accepted_epoch, info: Some(info) })?;
        match self.receive(is_wanted)? {
            QuorumPacket::LeaderInfo { .. } => Ok(()),
            _ => Err(unexpected()),
        }
    }

    fn send(&self, packet: &QuorumPacket) -> io::Result<()> {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        let stream = self.incoming.stream();
        stream.socket().set_write_timeout(Some(self.silence_max))?;
        stream.write_all(&bytes)
    }

    fn receive(&mut self, is_wanted: &IsWanted<'_>) -> io::Result<QuorumPacket> {
        let mut quiet = Duration::ZERO;
        let mut packet_bytes_min = 0;
        loop {
            let bytes = self.incoming.bytes();
            if bytes.len() >= packet_bytes_min {
                let mut reader = JuteReader::with_limit(bytes, self.field_bytes_max);
                match QuorumPacket::decode(&mut reader) {
                    Ok(packet) => {
                        let packet_bytes = bytes.len() - reader.rest().len();
                        self.incoming.consume(packet_bytes);
                        return Ok(packet);
                    }
                    // No more than `QuorumPacket::bytes_max`, because the reader has a limit.
                    Err(DecodeError::Truncated { wanted, available }) => {
                        packet_bytes_min = bytes.len().saturating_add(wanted - available);
                    }
                    Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                }
            }
            if !is_wanted() {
                return Err(io::Error::other("cancelled"));
            }
            match self.incoming.fill(Some(LOOK))? {
                Fill::Bytes => quiet = Duration::ZERO,
                Fill::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                Fill::Nothing => quiet += LOOK,
            }
            if quiet >= self.silence_max {
                let silence = format!("nothing was received for {} s", quiet.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, silence));
            }
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it sent an unexpected packet")
}
