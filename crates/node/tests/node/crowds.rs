//! Very many sessions or znodes at once, and hostile hosts: what they cost the others.

use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{ClientRequest, ConnId, Input, Now, Outputs};
use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_proto::{ConnectRequest, QuorumPacket, SessionId, Txn, Xid, Zxid};
use herdsman_tree::Tree;
use herdsman_zab::{Input as PeerInput, LearnerPort, LinkId, Output as PeerOutput};

use crate::cluster::Cluster;
use crate::driver::{Driver, address, options, settings};
use crate::words;

fn connect(conn: u64) -> Input<'static> {
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 20_000,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: Some(true),
    };
    Input::Connect { conn: ConnId(conn), request, ids: address() }
}

/// A standalone server on which so many clients have a session.
fn with_sessions(count: u64) -> Driver {
    let mut driver = Driver::new(settings(), Tree::new(options()));
    for conn in 1..=count {
        step(&mut driver, connect(conn));
    }
    driver
}

/// One input, and all that it asks of the log becomes durable.
fn step(driver: &mut Driver, input: Input<'_>) {
    driver.step(input, &mut |_, _| {});
    let zxid = driver.last_appended();
    driver.step(Input::Flushed { zxid }, &mut |_, _| {});
}

fn write(conn: u64, text: &str) -> Input<'_> {
    let request = ClientRequest::Write(words::write(text));
    Input::Request { conn: ConnId(conn), xid: Xid(1), request, body: &[] }
}

fn ended(driver: &Driver) -> usize {
    driver.log.iter().filter(|entry| matches!(entry.txn, Txn::CloseSession { .. })).count()
}

/// Others must get their turn while thousands of sessions end.
#[test]
fn sessions_that_end_together_end_in_several_steps() {
    let mut driver = with_sessions(100);
    for conn in 1..=100 {
        step(&mut driver, write(conn, &format!("create /e{conn} x flags=1")));
    }
    driver.now_ms = driver.node.next_deadline().expect("sessions have a deadline");
    step(&mut driver, Input::Tick);
    assert_eq!(ended(&driver), 32);
    assert_eq!(driver.node.next_deadline(), Some(driver.now_ms + 1));
    // Nothing more ends before the next step, and a client that is heard of before its turn lives on.
    step(&mut driver, Input::Tick);
    assert_eq!(ended(&driver), 32);
    step(&mut driver, Input::Touch { conn: ConnId(100) });
    let znodes = driver.tree.node_count();
    step(&mut driver, write(99, "create /between"));
    assert_eq!(driver.tree.node_count(), znodes + 1);
    for expected in [64, 96, 98] {
        driver.now_ms += 1;
        step(&mut driver, Input::Tick);
        assert_eq!(ended(&driver), expected);
    }
    assert_eq!(driver.tree.ephemeral_count(), 2);
    driver.now_ms += 60_000;
    step(&mut driver, Input::Tick);
    assert_eq!((ended(&driver), driver.tree.ephemeral_count()), (100, 0));
    assert_eq!(driver.node.sessions().expired(), 100);
}

/// A session may own very many ephemerals, and its end is one txn.
#[test]
fn the_changes_of_a_step_are_limited_as_well() {
    let mut driver = with_sessions(3);
    for conn in [1, 2] {
        for i in 0..600 {
            step(&mut driver, write(conn, &format!("create /e{conn}-{i} x flags=1")));
        }
    }
    driver.now_ms = driver.node.next_deadline().expect("sessions have a deadline");
    for expected in [1, 2, 3] {
        step(&mut driver, Input::Tick);
        assert_eq!(ended(&driver), expected);
        driver.now_ms += 1;
    }
    assert_eq!(driver.tree.ephemeral_count(), 0);
}

/// Readers wait while txns are applied.
#[test]
fn txns_that_change_very_much_are_applied_in_several_steps() {
    let mut driver = with_sessions(1);
    let creates = |part: usize| {
        let creates: Vec<_> = (0..600).map(|i| format!("create /m{part}-{i}")).collect();
        format!("multi {}", creates.join(" ; "))
    };
    for part in 0..4 {
        driver.step(write(1, &creates(part)), &mut |_, _| {});
    }
    let (now, zxid) = (Now { monotonic_ms: 0, wall_ms: 0 }, driver.last_appended());
    let mut out = Outputs::default();
    driver.node.step(now, Input::Flushed { zxid }, &driver.tree, &mut out);
    let znodes = driver.tree.node_count();
    for expected in [1200, 2400] {
        assert!(driver.node.wants_tree());
        driver.node.apply(&mut driver.tree, 256, &mut out);
        assert_eq!(driver.tree.node_count(), znodes + expected);
    }
    assert!(!driver.node.wants_tree());
}

/// Others must get their turn while millions of containers are looked at.
#[test]
fn a_sweep_looks_at_its_paths_in_several_steps() {
    let mut driver = with_sessions(1);
    for i in 0..2500 {
        step(&mut driver, write(1, &format!("createContainer /c{i:04}")));
    }
    for line in ["create /c2400/kid", "delete /c2400/kid"] {
        step(&mut driver, write(1, line));
    }
    let znodes = driver.tree.node_count();
    driver.now_ms = settings().sweep.interval_ms;
    for _ in 0..2 {
        step(&mut driver, Input::Tick);
        assert_eq!(driver.tree.node_count(), znodes, "the first containers are not idle");
        assert_eq!(driver.node.next_deadline(), Some(driver.now_ms + 1));
        driver.now_ms += 1;
    }
    step(&mut driver, Input::Tick);
    assert_eq!(driver.tree.node_count(), znodes - 1, "the third step has found one");
}

/// However many steps a sweep takes, deletions keep their distance.
#[test]
fn a_sweep_in_several_steps_keeps_its_pace() {
    let mut driver = with_sessions(1);
    for i in 0..2500 {
        step(&mut driver, write(1, &format!("createContainer /c{i:04}")));
    }
    for idle in ["/c0400", "/c2400"] {
        step(&mut driver, write(1, &format!("create {idle}/kid")));
        step(&mut driver, write(1, &format!("delete {idle}/kid")));
    }
    let znodes = driver.tree.node_count();
    let SweepSettings { interval_ms, per_minute_max, .. } = settings().sweep;
    driver.now_ms = interval_ms;
    for _ in 0..5 {
        step(&mut driver, Input::Tick);
        assert_eq!(driver.tree.node_count(), znodes - 1);
        driver.now_ms += 1;
    }
    driver.now_ms = interval_ms + 60_000 / per_minute_max;
    step(&mut driver, Input::Tick);
    assert_eq!(driver.tree.node_count(), znodes - 2);
}

/// Anybody can connect to the port and send what only a leader sends.
#[test]
fn garbage_from_a_stranger_ends_no_leaders_term() {
    let mut cluster = Cluster::new(&settings(), 3, &mut |_, _, _, _| {});
    cluster.wait(5_000, &mut |_, _, _, _| {});
    let leader =
        *cluster.members.iter().find(|(_, member)| member.leads()).expect("somebody leads").0;
    let link = LinkId(u64::MAX);
    let opened = PeerInput::LinkOpened { link, port: LearnerPort::Quorum };
    let packet = QuorumPacket::Proposal { zxid: Zxid(1), payload: "garbage".into() };
    for input in [opened, PeerInput::Packet { link, packet }] {
        cluster.step(leader, Input::Peer(input), &mut |_, _, _, _| {});
    }
    assert!(cluster.members[&leader].leads());
}

/// All of them in one packet could be more than the leader takes, and the learner would lose its link.
#[test]
fn a_learner_reports_very_many_sessions_in_several_packets() {
    let mut cluster = Cluster::new(&settings(), 3, &mut |_, _, _, _| {});
    cluster.wait(5_000, &mut |_, _, _, _| {});
    let follower =
        *cluster.members.iter().find(|(_, member)| !member.leads()).expect("somebody follows").0;
    let count = PING_SESSIONS_MAX + 1;
    for conn in 1..=count as u64 {
        cluster.step(follower, connect(conn), &mut |_, _, _, _| {});
    }
    let mut reported = Vec::new();
    cluster.wait(1_000, &mut |place, _, output, _| {
        if let herdsman_node::Output::Peer(PeerOutput::Send { packet, .. }) = output
            && let QuorumPacket::Ping { touched, .. } = packet
            && place == follower
        {
            reported.push(touched.len());
        }
    });
    reported.retain(|&sessions| sessions > 0);
    assert_eq!(reported, [PING_SESSIONS_MAX, 1]);
}
