//! Ends somebody else's session, for tests of what a client does when its session is over.
//!
//! In: a server's address and the number of a session. Out: the session is over, its ephemerals are
//! gone, and its client learns of it when it connects again. It is done as Apache's own tests do
//! it: take the session up on a connection of one's own and close it there. Works with any server
//! whose passwords follow from the session's number: Apache ZooKeeper, and Herdsman without a session key.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use herdsman_proto::reply;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ConnectRequest, ConnectResponse, OpCode, SessionId, Xid, Zxid};
use thiserror::Error;

/// For one answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// For all attempts together.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
const SESSION_TIMEOUT_MS: i32 = 10_000;
/// A server's part of the handshake is less than 50 bytes, a reply without a body 16.
const ANSWER_BYTES_MAX: usize = 1024;

/// Why a session could not be ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExpireError {
    /// The server cannot be reached or does not answer in time.
    #[error("cannot end session {session} at {address}: {source}")]
    Unreachable {
        /// Which session.
        session: SessionId,
        /// Which server.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The session is taken up elsewhere again and again, or the server is without a leader.
    #[error("session {session} at {address} is still alive after many attempts to end it")]
    StillAlive {
        /// Which session.
        session: SessionId,
        /// Which server.
        address: SocketAddr,
    },
}

/// Ends a session by force. When this returns, the server says of that session that it is over; one
/// that was over before, or never was, is no error. Blocks for some round trips.
///
/// ```
/// use herdsman_proto::SessionId;
///
/// let server = herdsman_testing::TestServer::start();
/// let session = SessionId(0x1234); // the client says which
/// herdsman_testing::expire_session(server.address(), session)?;
/// # Ok::<(), herdsman_testing::expire_session::ExpireError>(())
/// ```
pub fn expire_session(address: SocketAddr, session: SessionId) -> Result<(), ExpireError> {
    if session == SessionId::NONE {
        // Taken up, that would be a new session each time.
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    let mut last_error = None;
    while Instant::now() < deadline {
        match take_up_and_close(address, session) {
            Ok(Found::Over) => return Ok(()),
            // Its client may have taken it back in between, so look again.
            Ok(Found::Alive) => last_error = None,
            Err(error) if is_closed(&error) => last_error = None,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ExpireError::Unreachable { session, address, source: error });
            }
            Err(error) => last_error = Some(error),
        }
        std::thread::sleep(PAUSE);
    }
    Err(match last_error {
        Some(source) => ExpireError::Unreachable { session, address, source },
        None => ExpireError::StillAlive { session, address },
    })
}

/// How a session was found.
enum Found {
    Alive,
    Over,
}

fn take_up_and_close(address: SocketAddr, session: SessionId) -> io::Result<Found> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.write_all(&handshake_and_close(session))?;
    let answer = receive(&mut stream)?;
    let answer = ConnectResponse::decode(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    if answer.session == SessionId::NONE {
        return Ok(Found::Over);
    }
    receive(&mut stream)?;
    Ok(Found::Alive)
}

/// In one write: the client whose connection this ends should not get its session back before it is
/// closed.
fn handshake_and_close(session: SessionId) -> Vec<u8> {
    let handshake = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: SESSION_TIMEOUT_MS,
        session,
        password: &session.apache_password(),
        read_only: Some(false),
    };
    let mut frames = Vec::new();
    handshake.encode_frame(&mut frames);
    reply::frame(&mut frames, |out| {
        RequestHeader { xid: Xid(1), op: OpCode::CloseSession.code() }.encode(out);
    });
    frames
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer of a server"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// The server has closed the connection: it has no leader, or the session has moved on.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}
