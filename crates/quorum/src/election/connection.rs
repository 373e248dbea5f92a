//! An established election connection: length-prefixed messages in both directions.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use herdsman_proto::{JuteReader, Notification};
use herdsman_zab::Input;
use tracing::debug;

use super::Election;
use super::peer::{Delivery, Peer};
use crate::incoming::{Fill, Incoming};
use crate::receiver::Receiver;
use crate::stream::PeerStream;
use crate::threads::cut;

/// The longest message.
const FRAME_BYTES_MAX: usize = 512 * 1024;

/// Encodes a message with its length.
pub(crate) fn frame(message: &Notification) -> Bytes {
    let mut frame = vec![0; 4];
    message.encode(&mut frame);
    let length = i32::try_from(frame.len() - 4).expect("a vote is shorter than 2 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.into()
}

/// Serves a connection that the peer has opened, until it ends.
pub(super) fn serve_accepted(
    election: &Arc<Election>,
    peer: &Arc<Peer>,
    incoming: Incoming,
    stream: &Arc<PeerStream>,
    receiver: Arc<dyn Receiver>,
) -> io::Result<()> {
    stream.socket().set_write_timeout(Some(election.context.settings.connect_timeout))?;
    let Some(serial) = begin(election, peer, stream)? else { return Ok(()) };
    Connection { election: Arc::clone(election), peer: Arc::clone(peer), serial, receiver }
        .read(incoming);
    Ok(())
}

/// Serves a connection that was opened here, with a separate thread.
pub(super) fn serve_dialled(
    election: &Arc<Election>,
    peer: &Arc<Peer>,
    incoming: Incoming,
    receiver: Arc<dyn Receiver>,
) -> io::Result<()> {
    let Some(serial) = begin(election, peer, incoming.stream())? else { return Ok(()) };
    let connection =
        Connection { election: Arc::clone(election), peer: Arc::clone(peer), serial, receiver };
    let read = move || connection.read(incoming);
    let started = election.context.threads.spawn(format!("votes-{}", peer.id), read);
    if started.is_err() {
        peer.disconnected(serial, Delivery::Doubtful);
    }
    started
}

/// Makes it the peer's current connection and starts its writer. `None` if the peer was retired.
fn begin(
    election: &Arc<Election>,
    peer: &Arc<Peer>,
    stream: &Arc<PeerStream>,
) -> io::Result<Option<u64>> {
    give_up_after(election.context.settings.hello_timeout, stream.socket());
    let address = stream.socket().peer_addr()?;
    let Some(serial) = peer.connected(Arc::clone(stream), Instant::now()) else {
        return Ok(None);
    };
    let id = peer.id;
    election.news.info(format_args!("election connection to server {id} at {address} opened"));
    let (electing, talking, stream) = (Arc::clone(election), Arc::clone(peer), Arc::clone(stream));
    let write = move || write(&electing, &talking, serial, &stream);
    let started = election.context.threads.spawn(format!("votes-{}-out", peer.id), write);
    if let Err(error) = started {
        peer.disconnected(serial, Delivery::Doubtful);
        return Err(error);
    }
    Ok(Some(serial))
}

/// After a partition, TCP may retransmit only after minutes. A new connection is faster
/// than one that makes no progress.
#[cfg(target_os = "linux")]
pub(super) fn give_up_after(timeout: Duration, stream: &TcpStream) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(timeout)) {
        debug!("cannot limit the time that votes take: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn give_up_after(_timeout: Duration, _stream: &TcpStream) {}

fn write(election: &Election, peer: &Peer, serial: u64, stream: &PeerStream) {
    let mut next = peer.first_frame(serial);
    loop {
        if let Some(frame) = &next
            && let Err(error) = stream.write_all(frame)
        {
            debug!("cannot send a vote to server {}: {error}", peer.id);
            peer.disconnected(serial, Delivery::Doubtful);
            break;
        }
        next = peer.next_frame(serial, &election.context.threads);
        if next.is_none() {
            break;
        }
    }
    // The reader detects the end.
    cut(stream.socket());
}

struct Connection {
    election: Arc<Election>,
    peer: Arc<Peer>,
    serial: u64,
    receiver: Arc<dyn Receiver>,
}

impl Connection {
    fn read(self, mut incoming: Incoming) {
        let ended = self.read_until_end(&mut incoming);
        let delivery = if ended.is_ok() { Delivery::Likely } else { Delivery::Doubtful };
        match ended {
            Ok(()) => {
                let id = self.peer.id;
                self.election.news.info(format_args!("election connection to server {id} closed"));
            }
            Err(error) => self.complain(&error),
        }
        self.peer.disconnected(self.serial, delivery);
        self.election.forget_if_idle(self.peer.id);
    }

    fn read_until_end(&self, incoming: &mut Incoming) -> io::Result<()> {
        let mut inputs = Vec::new();
        loop {
            let read = self.read_frames(incoming, &mut inputs);
            if !inputs.is_empty() && self.peer.heard(self.serial) {
                self.receiver.handle(&mut inputs);
            }
            inputs.clear();
            read?;
            if incoming.fill(None)? == Fill::End {
                return Ok(());
            }
        }
    }

    /// Decodes all complete messages of the buffer. Skips those that are not votes, as Apache does: they
    /// may be from a later version, and closing the connection would only make the peer resend them.
    fn read_frames(&self, incoming: &mut Incoming, inputs: &mut Vec<Input>) -> io::Result<()> {
        while let Some(length) = frame_length(incoming.bytes())? {
            let Some(payload) = incoming.bytes().get(4..4 + length) else { break };
            match Notification::decode(payload) {
                Ok(mut message) => {
                    // A server without a leader adopts a later membership: only from authenticated or listed servers.
                    if self.peer.is_unlisted() && !incoming.stream().is_proven() {
                        message.config.clear();
                    }
                    inputs.push(Input::Notification { from: self.peer.id, message });
                }
                Err(error) => {
                    let id = self.peer.id;
                    self.election.warnings.warn(format_args!(
                        "server {id} sent a malformed vote of {length} bytes: {error}"
                    ));
                }
            }
            incoming.consume(4 + length);
        }
        Ok(())
    }

    fn complain(&self, error: &io::Error) {
        let id = self.peer.id;
        self.election
            .warnings
            .warn(format_args!("election connection to server {id} broke: {error}"));
    }
}

/// The length of the first message, once it has been received.
fn frame_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Ok(length) = JuteReader::new(bytes).int() else { return Ok(None) };
    match usize::try_from(length) {
        Ok(length) if (1..=FRAME_BYTES_MAX).contains(&length) => Ok(Some(length)),
        _ => {
            let problem = format!("invalid message length {length}");
            Err(io::Error::new(io::ErrorKind::InvalidData, problem))
        }
    }
}
