//! Expires the session of another client, to test what that client does then.
//!
//! In: a server's address and a session id. Out: the session has ended, its ephemerals are deleted, and its
//! client learns of it when it reconnects. As in Apache's own tests, this resumes the session on a separate
//! connection and closes it there. It works with any server whose session passwords are derived from the
//! session id: Apache ZooKeeper, and Herdsman without a session key.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use herdsman_proto::reply;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ConnectRequest, ConnectResponse, OpCode, SessionId, Xid, Zxid};
use thiserror::Error;

/// Limit for one response of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit for all attempts together.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
const SESSION_TIMEOUT_MS: i32 = 10_000;
/// A server's handshake response is less than 50 bytes, a reply without a body 16.
const ANSWER_BYTES_MAX: usize = 1024;

/// Why a session could not be expired.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExpireError {
    /// The server cannot be reached or does not respond in time.
    #[error("cannot expire session {session} at {address}: {source}")]
    Unreachable {
        /// The session.
        session: SessionId,
        /// The server.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The session is resumed elsewhere again and again, or the server has no leader.
    #[error("session {session} at {address} is still alive after repeated attempts to expire it")]
    StillAlive {
        /// The session.
        session: SessionId,
        /// The server.
        address: SocketAddr,
    },
}

/// Expires a session. When this returns, the server reports that the session has ended; a session that had
/// already ended, or never existed, is not an error. Blocks for a few round trips.
///
/// ```
/// use herdsman_proto::SessionId;
///
/// let server = herdsman_testing::TestServer::start();
/// let session = SessionId(0x1234); // from the client
/// herdsman_testing::expire_session(server.address(), session)?;
/// # Ok::<(), herdsman_testing::expire_session::ExpireError>(())
/// ```
pub fn expire_session(address: SocketAddr, session: SessionId) -> Result<(), ExpireError> {
    if session == SessionId::NONE {
        // Resuming it would create a new session each time.
        return Ok(());
    }
    let deadline = Instant::now() + TOTAL_TIMEOUT;
    let mut last_error = None;
    while Instant::now() < deadline {
        match resume_and_close(address, session) {
            Ok(Found::Ended) => return Ok(()),
            // Its client may have resumed it in between, so check again.
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

/// The state in which a session was found.
enum Found {
    Alive,
    Ended,
}

fn resume_and_close(address: SocketAddr, session: SessionId) -> io::Result<Found> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.write_all(&handshake_and_close(session))?;
    let answer = receive(&mut stream)?;
    let answer = ConnectResponse::decode(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    if answer.session == SessionId::NONE {
        return Ok(Found::Ended);
    }
    receive(&mut stream)?;
    Ok(Found::Alive)
}

/// Sends both in one write: the client whose connection this closes must not resume its session before it
/// is closed.
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
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a server response"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// Whether the server has closed the connection: it has no leader, or the session has moved to another
/// server.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}
