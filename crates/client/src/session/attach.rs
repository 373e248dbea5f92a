//! The handshake with one server: opens or resumes a session, and logs in if that is configured.
//!
//! In: a [`Connector`], a server, and the parameters of the session. Out: a connection that is ready for
//! requests, or an error.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use herdsman_proto::connect::{ConnectRequest, ConnectResponse, Password};
use herdsman_proto::{SessionId, Zxid};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout};

#[cfg(feature = "sasl")]
use super::login::{LoginFailure, log_in};
use super::transport::{Connector, Transport, describe};
use crate::connect_string::HostPort;
use crate::options::ReadOnlyServers;
use crate::request_queue;

/// The parameters of a connect request.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandshakeParams {
    pub(super) session: SessionId,
    pub(super) password: Password,
    pub(super) timeout: Duration,
    pub(super) last_zxid: Zxid,
    pub(super) read_only: ReadOnlyServers,
}

/// A connection on which a server has accepted the session.
pub(super) struct Attached {
    pub(super) transport: Transport,
    /// Bytes received after the response.
    pub(super) received: BytesMut,
    pub(super) response: ConnectResponse,
    /// When the connect request was sent.
    pub(super) requested: Instant,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttachError {
    #[error("the session has expired")]
    Expired,
    /// The server is not serving, or its state is older than what this client has seen.
    #[error("the server closed the connection without a response")]
    Refused,
    #[error("timed out")]
    Timeout,
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
    #[error("the response is not one of ZooKeeper: {0}")]
    Unreadable(#[from] herdsman_proto::DecodeError),
    #[cfg_attr(feature = "tls", error("this port expects TLS, which the client does not use"))]
    #[cfg_attr(
        not(feature = "tls"),
        error("this port expects TLS, which this client was built without")
    )]
    ExpectsTls,
    /// The server has not accepted the client's login, or has not authenticated itself.
    #[cfg(feature = "sasl")]
    #[error("{0}")]
    Login(#[from] LoginFailure),
}

/// The longest response to a connect request that is accepted.
const RESPONSE_BYTES_MAX: usize = 1 << 10;

/// The longest answer to a four-letter word that is read.
const WORD_BYTES_MAX: u64 = 4 << 10;

/// Tries to attach the session to one server.
pub(super) async fn attach(
    connector: &Connector,
    host: HostPort,
    handshake_params: HandshakeParams,
    time_limit: Duration,
) -> Result<Attached, AttachError> {
    let connecting = handshake(connector, host, handshake_params);
    timeout(time_limit, connecting).await.unwrap_or(Err(AttachError::Timeout))
}

async fn handshake(
    connector: &Connector,
    host: HostPort,
    us: HandshakeParams,
) -> Result<Attached, AttachError> {
    let mut transport = connector.open(&host).await?;
    let mut hello = Vec::new();
    let request = ConnectRequest {
        last_zxid_seen: us.last_zxid,
        timeout_ms: i32::try_from(us.timeout.as_millis()).unwrap_or(i32::MAX),
        session: us.session,
        password: &us.password,
        read_only: Some(us.read_only == ReadOnlyServers::Accepted),
    };
    request.encode_frame(&mut hello);
    let requested = Instant::now();
    transport.send(&hello).await?;
    let mut received = BytesMut::with_capacity(4 << 10);
    let response = read_response(&mut transport, &mut received).await?;
    if response.timeout_ms <= 0 || response.session == SessionId::NONE {
        return Err(AttachError::Expired);
    }
    #[cfg(feature = "sasl")]
    if let Some(login) = connector.login() {
        log_in(login, &host, &mut transport, &mut received).await?;
    }
    Ok(Attached { transport, received, response, requested })
}

async fn read_response(
    transport: &mut Transport,
    received: &mut BytesMut,
) -> Result<ConnectResponse, AttachError> {
    let frame = read_frame(transport, received, RESPONSE_BYTES_MAX).await?;
    Ok(ConnectResponse::decode(&frame)?)
}

/// Reads the next frame, of limited size; bytes after it stay in `received`.
pub(super) async fn read_frame(
    transport: &mut Transport,
    received: &mut BytesMut,
    bytes_max: usize,
) -> Result<BytesMut, AttachError> {
    loop {
        if let Some(length) = received.first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= bytes_max);
            let bytes = match bytes {
                Some(bytes) => bytes,
                // Most likely a TLS alert: the server did not understand the connect request.
                None if starts_like_tls(received) => return Err(AttachError::ExpectsTls),
                None => return Err(herdsman_proto::DecodeError::Length(length).into()),
            };
            if received.len() >= 4 + bytes {
                received.advance(4);
                return Ok(received.split_to(bytes));
            }
        }
        if transport.read.read_buf(received).await? == 0 {
            return Err(AttachError::Refused);
        }
    }
}

/// Whether these bytes begin with a TLS record: its content type, and the major version.
fn starts_like_tls(received: &[u8]) -> bool {
    matches!(received, [20..=24, 3, ..])
}

/// Whether a server opens new sessions. The session opened to find out is closed.
pub(super) async fn is_serving(
    connector: &Connector,
    host: HostPort,
    us: HandshakeParams,
    time_limit: Duration,
) -> bool {
    let new_session = HandshakeParams {
        session: SessionId::NONE,
        password: [0; 16],
        last_zxid: Zxid::ZERO,
        read_only: ReadOnlyServers::Refused,
        ..us
    };
    let Ok(mut attached) = attach(connector, host, new_session, time_limit).await else {
        return false;
    };
    let mut frame = Vec::new();
    let request = herdsman_proto::Request::CloseSession;
    if request_queue::encode(&mut frame, herdsman_proto::Xid(1), &request, usize::MAX).is_ok() {
        // If this fails the servers end the session after its timeout.
        let _ = attached.transport.send(&frame).await;
    }
    true
}

/// Whether a server has a quorum and accepts writes, according to the four-letter word `isro`.
pub(super) async fn accepts_writes(
    connector: &Connector,
    host: &HostPort,
    time_limit: Duration,
) -> bool {
    let answer = ask(connector, host, b"isro", time_limit).await;
    answer.is_some_and(|answer| answer.starts_with(b"rw"))
}

/// Whether a server serves clients and is not read-only, according to the four-letter word `srvr`. A server that does
/// not allow the word counts as serving; one that sends nothing does not.
pub(super) async fn serves(connector: &Connector, host: &HostPort, time_limit: Duration) -> bool {
    let Some(answer) = ask(connector, host, b"srvr", time_limit).await else {
        return false;
    };
    let answer = String::from_utf8_lossy(&answer);
    let is_excluded = ["not currently serving requests", "Mode: read-only"];
    !answer.is_empty() && !is_excluded.iter().any(|text| answer.contains(text))
}

/// Returns the answer to a four-letter word.
async fn ask(
    connector: &Connector,
    host: &HostPort,
    word: &[u8; 4],
    time_limit: Duration,
) -> Option<Vec<u8>> {
    let ask = async {
        let mut transport = connector.open(host).await?;
        transport.send(word).await?;
        let mut answer = Vec::new();
        (&mut transport.read).take(WORD_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    timeout(time_limit, ask).await.ok()?.ok()
}
