//! Compares gets per second of 64 clones of one client with those of a raw socket that keeps 64 requests in
//! flight, alternating on the same server. Prints the ratio of each round; run with `cargo bench -p
//! herdsman-client`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use herdsman_client::Client;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ConnectRequest, OpCode, ReadRequest, Request, SessionId, Xid, Zxid, reply};
use herdsman_testing::TestServer;
use tokio::runtime::{Builder, Runtime};

const IN_FLIGHT: usize = 64;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 7;
const PATH: &str = "/bench";

fn main() {
    let server = TestServer::start();
    let current = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let multi =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    current.block_on(prepare(&server.connect_string()));
    println!("{:>10} {:>22} {:>22}", "raw/s", "one thread/s", "two threads/s");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let raw = raw_gets(server.address());
        let one = client_gets(&current, &server.connect_string());
        let two = client_gets(&multi, &server.connect_string());
        ratios.push(one / raw);
        println!(
            "{raw:>10.0} {one:>12.0} {:>8.0} % {two:>12.0} {:>8.0} %",
            100. * one / raw,
            100. * two / raw
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median of one thread: {:.0} % of raw", 100. * ratios[ROUNDS / 2]);
}

async fn prepare(servers: &str) {
    let zk = Client::connect(servers).await.expect("a client");
    zk.create(PATH, vec![b'x'; 100]).await.expect("created");
    zk.close().await.expect("closed");
}

fn client_gets(runtime: &Runtime, servers: &str) -> f64 {
    runtime.block_on(async {
        let zk = Client::connect(servers).await.expect("a client");
        let end = Instant::now() + ROUND;
        let tasks: Vec<_> =
            (0..IN_FLIGHT).map(|_| tokio::spawn(get_until(zk.clone(), end))).collect();
        let mut gets = 0;
        for task in tasks {
            gets += task.await.expect("the task ends");
        }
        zk.close().await.expect("closed");
        gets as f64 / ROUND.as_secs_f64()
    })
}

async fn get_until(zk: Client, end: Instant) -> u64 {
    let mut gets = 0;
    while Instant::now() < end {
        let node = zk.get(PATH).await.expect("a node");
        assert_eq!(node.data.len(), 100);
        gets += 1;
    }
    gets
}

fn raw_gets(address: SocketAddr) -> f64 {
    let mut socket = TcpStream::connect(address).expect("connected");
    socket.set_nodelay(true).expect("no delay");
    let mut hello = Vec::new();
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: Some(false),
    };
    request.encode_frame(&mut hello);
    socket.write_all(&hello).expect("sent");
    let mut inbox = Vec::new();
    while take_frames(&mut inbox) == 0 {
        receive(&mut socket, &mut inbox);
    }
    let end = Instant::now() + ROUND;
    let (mut replies, mut sent, mut outbox) = (0, 0, Vec::new());
    while Instant::now() < end {
        outbox.clear();
        while sent < replies + IN_FLIGHT {
            sent += 1;
            put_get(&mut outbox, sent as i32);
        }
        socket.write_all(&outbox).expect("sent");
        receive(&mut socket, &mut inbox);
        replies += take_frames(&mut inbox);
    }
    replies as f64 / ROUND.as_secs_f64()
}

fn put_get(out: &mut Vec<u8>, xid: i32) {
    let request = Request::Read(ReadRequest::GetData { path: PATH.into(), watch: false });
    reply::frame(out, |out| {
        RequestHeader { xid: Xid(xid), op: OpCode::GetData.code() }.encode(out);
        request.encode(out);
    });
}

fn receive(socket: &mut TcpStream, inbox: &mut Vec<u8>) {
    let mut chunk = [0; 64 << 10];
    let bytes = socket.read(&mut chunk).expect("received");
    inbox.extend_from_slice(&chunk[..bytes]);
}

/// Removes whole frames, and counts them.
fn take_frames(inbox: &mut Vec<u8>) -> usize {
    let (mut at, mut frames) = (0, 0);
    while let Some(length) = inbox[at..].first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if inbox.len() < at + 4 + length {
            break;
        }
        at += 4 + length;
        frames += 1;
    }
    inbox.drain(..at);
    frames
}
