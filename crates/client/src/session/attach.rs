//! The handshake: opens a session or goes on with one, on one server, and logs in where that is wanted.
//!
//! In: how servers are reached, one of them, and who we are. Out: a connection on which requests can be
//! made, or why there is none.

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

/// What the client says about itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandshakeParams {
    pub(super) session: SessionId,
    pub(super) password: Password,
    pub(super) timeout: Duration,
    pub(super) last_zxid: Zxid,
    pub(super) read_only: ReadOnlyServers,
}

/// A server took us.
pub(super) struct Attached {
    pub(super) transport: Transport,
    /// Bytes that came behind the answer.
    pub(super) received: BytesMut,
    pub(super) response: ConnectResponse,
    /// When it was asked.
    pub(super) asked: Instant,
}

/// Why an attempt led nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttachError {
    #[error("the session is over")]
    Expired,
    /// It hung up instead of answering: it is not serving, or it is behind what we have seen.
    #[error("the server closed the connection instead of answering")]
    Refused,
    #[error("no answer in time")]
    Timeout,
    #[error("{}", describe(.0))]
    Io(#[from] io::Error),
    #[error("the answer is not ZooKeeper's: {0}")]
    Unreadable(#[from] herdsman_proto::DecodeError),
    #[cfg_attr(feature = "tls", error("this port speaks TLS, which the client does not use"))]
    #[cfg_attr(
        not(feature = "tls"),
        error("this port speaks TLS, which this client was built without")
    )]
    SpeaksTls,
    /// The server does not believe us, or we not the server.
    #[cfg(feature = "sasl")]
    #[error("{0}")]
    Login(#[from] LoginFailure),
}

/// Longest answer to a handshake that is believed.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// Longest answer to a four-letter word that is read.
const WORD_BYTES_MAX: u64 = 4 << 10;

/// One attempt at one server.
pub(super) async fn attach(
    connector: &Connector,
    host: HostPort,
    handshake_params: HandshakeParams,
    time_limit: Duration,
) -> Result<Attached, AttachError> {
    let shaking = shake_hands(connector, host, handshake_params);
    timeout(time_limit, shaking).await.unwrap_or(Err(AttachError::Timeout))
}

async fn shake_hands(
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
    let asked = Instant::now();
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
    Ok(Attached { transport, received, response, asked })
}

async fn read_response(
    transport: &mut Transport,
    received: &mut BytesMut,
) -> Result<ConnectResponse, AttachError> {
    let frame = read_frame(transport, received, ANSWER_BYTES_MAX).await?;
    Ok(ConnectResponse::decode(&frame)?)
}

/// The next frame, of limited size; what comes behind it stays in `received`.
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
                // An alert, most likely: the server did not understand our hello.
                None if starts_like_tls(received) => return Err(AttachError::SpeaksTls),
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

/// Whether a server would open a new session for anybody. The session made to find out is closed.
pub(super) async fn is_serving(
    connector: &Connector,
    host: HostPort,
    us: HandshakeParams,
    time_limit: Duration,
) -> bool {
    let stranger = HandshakeParams {
        session: SessionId::NONE,
        password: [0; 16],
        last_zxid: Zxid::ZERO,
        read_only: ReadOnlyServers::Refused,
        ..us
    };
    let Ok(mut attached) = attach(connector, host, stranger, time_limit).await else {
        return false;
    };
    let mut goodbye = Vec::new();
    let request = herdsman_proto::Request::CloseSession;
    if request_queue::encode(&mut goodbye, herdsman_proto::Xid(1), &request, usize::MAX).is_ok() {
        // If this fails the servers end the session after its timeout.
        let _ = attached.transport.send(&goodbye).await;
    }
    true
}

/// Whether a server has a quorum and takes writes, asked by a four-letter word.
pub(super) async fn takes_writes(
    connector: &Connector,
    host: &HostPort,
    time_limit: Duration,
) -> bool {
    let answer = ask(connector, host, b"isro", time_limit).await;
    answer.is_some_and(|answer| answer.starts_with(b"rw"))
}

/// Whether a server takes clients and is not read-only, asked with `srvr`. A server that answers that the word is not
/// allowed counts as serving; one that sends nothing does not.
pub(super) async fn serves(connector: &Connector, host: &HostPort, time_limit: Duration) -> bool {
    let Some(answer) = ask(connector, host, b"srvr", time_limit).await else {
        return false;
    };
    let answer = String::from_utf8_lossy(&answer);
    let is_excluded = ["not currently serving requests", "Mode: read-only"];
    !answer.is_empty() && !is_excluded.iter().any(|text| answer.contains(text))
}

/// The answer to a four-letter word.
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
