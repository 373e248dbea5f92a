//! A server that behaves like those of other versions: a proxy in front of a real one that changes messages.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use herdsman_testing::proxy::OpCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The error with which a server that has lost its quorum rejects writes. In this state Apache's keeps serving the
/// sessions of the ensemble.
pub const NOT_READ_ONLY: i32 = -119;
/// The answer of a server with an internal failure, before or after it has carried out the request.
pub const SYSTEM_ERROR: i32 = -1;

const WRITES: [OpCode; 5] =
    [OpCode::Create2, OpCode::CreateContainer, OpCode::Delete, OpCode::SetData, OpCode::Multi];

/// The server.
pub struct OtherServer {
    address: SocketAddr,
    behaviour: Arc<Behaviour>,
}

#[derive(Default)]
struct Behaviour {
    /// The error with which writes are rejected; 0 if they are not.
    refusal: AtomicI32,
    refused: AtomicUsize,
    /// Transactions are answered without the stats of what they have created.
    tells_no_stats: AtomicBool,
    /// New connections learn that it is read-only.
    is_read_only: AtomicBool,
}

impl OtherServer {
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let behaviour = Arc::new(Behaviour::default());
        let server = OtherServer { address, behaviour: behaviour.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(behaviour.clone(), client, upstream));
            }
        });
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers all writes with this error from now on, and does not carry them out.
    pub fn refuse_writes(&self, error: i32) {
        self.behaviour.refusal.store(error, Ordering::SeqCst);
    }

    pub fn accept_writes(&self) {
        self.refuse_writes(0);
    }

    /// Answers transactions as servers before 3.7 do: without the stats of what they have created.
    pub fn tell_no_stats(&self) {
        self.behaviour.tells_no_stats.store(true, Ordering::SeqCst);
    }

    /// Tells new connections that it has lost its quorum, and keeps serving the sessions of the ensemble.
    pub fn serve_read_only(&self, is_read_only: bool) {
        self.behaviour.is_read_only.store(is_read_only, Ordering::SeqCst);
    }

    /// Returns how many writes were rejected.
    pub fn refused(&self) -> usize {
        self.behaviour.refused.load(Ordering::SeqCst)
    }
}

/// Forwards one connection until either side ends it.
async fn carry(behaviour: Arc<Behaviour>, client: TcpStream, upstream: SocketAddr) {
    let Ok(server) = TcpStream::connect(upstream).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (replies, queue) = unbounded_channel();
    tokio::select! {
        _ = carry_requests(&behaviour, from_client, to_server, replies.clone()) => {}
        _ = carry_replies(&behaviour, from_server, replies) => {}
        _ = write_replies(queue, to_client) => {}
    }
}

async fn carry_requests(
    behaviour: &Behaviour,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    replies: UnboundedSender<Vec<u8>>,
) -> io::Result<()> {
    // The handshake has no header.
    let handshake = read_frame(&mut from).await?;
    to.write_all(&handshake).await?;
    loop {
        let mut frame = read_frame(&mut from).await?;
        let op = op_of(&frame);
        if op == Some(OpCode::Multi) && behaviour.tells_no_stats.load(Ordering::SeqCst) {
            ask_for_no_stats(&mut frame);
        }
        let refusal = behaviour.refusal.load(Ordering::SeqCst);
        let is_write = op.is_some_and(|op| WRITES.contains(&op));
        if refusal == 0 || !is_write {
            to.write_all(&frame).await?;
            continue;
        }
        behaviour.refused.fetch_add(1, Ordering::SeqCst);
        // The length, the request's number, a zxid, the error.
        let parts: [&[u8]; 4] = [&[0, 0, 0, 16], &frame[4..8], &[0; 8], &refusal.to_be_bytes()];
        let _ = replies.send(parts.concat());
    }
}

async fn carry_replies(
    behaviour: &Behaviour,
    mut from: OwnedReadHalf,
    replies: UnboundedSender<Vec<u8>>,
) -> io::Result<()> {
    let mut handshake = read_frame(&mut from).await?;
    if let Some(is_read_only) = handshake.last_mut() {
        *is_read_only = behaviour.is_read_only.load(Ordering::SeqCst).into();
    }
    let _ = replies.send(handshake);
    while replies.send(read_frame(&mut from).await?).is_ok() {}
    Ok(())
}

async fn write_replies(
    mut replies: UnboundedReceiver<Vec<u8>>,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some(reply) = replies.recv().await {
        to.write_all(&reply).await?;
    }
    Ok(())
}

/// Changes each creation of a transaction to the kind that is answered with only a path.
fn ask_for_no_stats(frame: &mut [u8]) {
    let header = |op: OpCode| [&op.code().to_be_bytes()[..], &[0], &(-1i32).to_be_bytes()].concat();
    let (with_stat, without) = (header(OpCode::Create2), header(OpCode::Create));
    for at in 0..frame.len().saturating_sub(with_stat.len()) {
        let here = at..at + with_stat.len();
        if frame[here.clone()] == with_stat {
            frame[here].copy_from_slice(&without);
        }
    }
}

/// Reads a frame with its length.
async fn read_frame(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).await?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
    frame.resize(4 + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}

fn op_of(frame: &[u8]) -> Option<OpCode> {
    let code = frame.get(8..12)?.try_into().ok()?;
    OpCode::from_code(i32::from_be_bytes(code))
}
