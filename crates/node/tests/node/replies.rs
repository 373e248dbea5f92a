//! Replies that are large together: they are carried out in several steps, and none is forgotten.

use herdsman_node::{ClientRequest, ConnId, Input, Now, Output, Outputs};
use herdsman_proto::{ConnectRequest, OpCode, ReadRequest, Request, SessionId, Xid, Zxid};
use herdsman_tree::Tree;

use crate::cluster::{Cluster, NodeNumber};
use crate::driver::{Driver, address, options, settings};
use crate::words;

const CONN: ConnId = ConnId(1);
const DATA_BYTES: usize = 300_000;
/// As much as a step may ask for, and one reply.
const STEP_BYTES_MAX: usize = (1 << 20) + DATA_BYTES + 1000;

/// What a node asked for.
#[derive(Default)]
struct Seen {
    answered: Vec<i32>,
    step_bytes_max: usize,
}

impl Seen {
    fn see(&mut self, output: &Output, bytes: &[u8]) {
        self.step_bytes_max = self.step_bytes_max.max(bytes.len());
        if let Output::Send { answers: Some(answered), .. } = output {
            self.answered.push(answered.xid.0);
        }
    }

    fn see_all(&mut self, out: &mut Outputs) {
        out.list.iter().for_each(|output| self.see(output, &out.bytes));
        out.clear();
    }

    #[track_caller]
    fn check(&self, xids: impl Iterator<Item = i32>) {
        assert_eq!(self.answered, xids.collect::<Vec<_>>());
        assert!(self.step_bytes_max <= STEP_BYTES_MAX, "{} bytes in a step", self.step_bytes_max);
    }
}

fn connect() -> Input<'static> {
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 20_000,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: None,
    };
    Input::Connect { conn: CONN, request, ids: address() }
}

/// The body is what another server gets.
fn write<'a>(xid: i32, line: &'a str, body: &'a mut Vec<u8>) -> Input<'a> {
    let write = words::write(line);
    Request::Write(write.clone()).encode(body);
    Input::Request { conn: CONN, xid: Xid(xid), request: ClientRequest::Write(write), body }
}

fn get_data(xid: i32, body: &mut Vec<u8>) -> Input<'_> {
    Request::Read(ReadRequest::GetData { path: "/x".into(), watch: false }).encode(body);
    Input::Request {
        conn: CONN,
        xid: Xid(xid),
        request: ClientRequest::Read(OpCode::GetData),
        body,
    }
}

fn create_large() -> String {
    format!("create /x {}", "x".repeat(DATA_BYTES))
}

/// A standalone server with a client.
fn standalone() -> Driver {
    let mut driver = Driver::new(settings(), Tree::new(options()));
    driver.step(connect(), &mut |_, _| {});
    flush(&mut driver);
    driver
}

fn flush(driver: &mut Driver) {
    let zxid = driver.last_appended();
    driver.step(Input::Flushed { zxid }, &mut |_, _| {});
}

const NOW: Now = Now { monotonic_ms: 0, wall_ms: 0 };

/// As servers do it.
fn apply_all(driver: &mut Driver, seen: &mut Seen) {
    let mut out = Outputs::default();
    while driver.node.wants_tree() {
        driver.node.apply(NOW, &mut driver.tree, 256, &mut out);
        seen.see_all(&mut out);
        assert!(out.bytes.capacity() <= 1 << 20, "the memory of large replies is freed");
    }
}

#[test]
fn reads_behind_a_write_are_answered_in_several_steps() {
    let mut driver = standalone();
    driver.step(write(1, &create_large(), &mut Vec::new()), &mut |_, _| {});
    for xid in 2..30 {
        driver.step(get_data(xid, &mut Vec::new()), &mut |_, _| {});
    }
    let (mut out, mut seen) = (Outputs::default(), Seen::default());
    let zxid = driver.last_appended();
    driver.node.step(NOW, Input::Flushed { zxid }, &driver.tree, &mut out);
    seen.see_all(&mut out);
    apply_all(&mut driver, &mut seen);
    seen.check(1..30);
}

/// Their connection has handed them on while its last write was in flight.
#[test]
fn reads_behind_nothing_are_answered_in_several_steps() {
    let mut driver = standalone();
    driver.step(write(1, &create_large(), &mut Vec::new()), &mut |_, _| {});
    flush(&mut driver);
    let (mut out, mut seen) = (Outputs::default(), Seen::default());
    for xid in 2..30 {
        driver.node.step(NOW, get_data(xid, &mut Vec::new()), &driver.tree, &mut out);
    }
    seen.see_all(&mut out);
    apply_all(&mut driver, &mut seen);
    seen.check(2..30);
}

/// Three servers with a client at one that follows.
fn ensemble() -> (Cluster, NodeNumber) {
    let mut cluster = Cluster::new(&settings(), 3, &mut |_, _, _, _| {});
    cluster.wait(5_000, &mut |_, _, _, _| {});
    let follower =
        *cluster.members.iter().find(|(_, member)| !member.leads()).expect("somebody follows").0;
    cluster.step(follower, connect(), &mut |_, _, _, _| {});
    (cluster, follower)
}

#[test]
fn a_follower_answers_reads_behind_a_write_in_several_steps() {
    let (mut cluster, follower) = ensemble();
    let mut seen = Seen::default();
    cluster.hold(follower);
    cluster.step(follower, write(1, &create_large(), &mut Vec::new()), &mut |_, _, _, _| {});
    for xid in 2..30 {
        cluster.step(follower, get_data(xid, &mut Vec::new()), &mut |_, _, _, _| {});
    }
    cluster.release(follower, &mut |place, _, output, bytes| {
        if place == follower {
            seen.see(output, bytes);
        }
    });
    seen.check(1..30);
}

/// The txn of the write behind the reads is there before they are answered: it waits for them.
#[test]
fn a_follower_answers_reads_behind_a_sync_before_the_next_write() {
    for applies_late in [false, true] {
        let (mut cluster, follower) = ensemble();
        let mut seen = Seen::default();
        let see = &mut |_: NodeNumber, _: &_, _: &_, _: &_| {};
        cluster.step(follower, write(1, &create_large(), &mut Vec::new()), see);
        cluster.hold(follower);
        let mut body = Vec::new();
        Request::Sync { path: "/x".into() }.encode(&mut body);
        let request = ClientRequest::Sync { path: "/x".into() };
        let sync = Input::Request { conn: CONN, xid: Xid(2), request, body: &body };
        cluster.step(follower, sync, see);
        for xid in 3..30 {
            cluster.step(follower, get_data(xid, &mut Vec::new()), see);
        }
        cluster.step(follower, write(30, "delete /x", &mut Vec::new()), see);
        if applies_late {
            cluster.delay(follower);
        }
        let mut see = |place, _: &_, output: &Output, bytes: &[u8]| {
            if place == follower {
                seen.see(output, bytes);
            }
        };
        cluster.release(follower, &mut see);
        cluster.apply(follower, &mut see);
        seen.check(2..31);
        assert!(seen.step_bytes_max > DATA_BYTES, "the reads saw the data");
    }
}
