//! Very many sessions or znodes at once, and hostile hosts: what they cost the others.

use herdsman_node::io::CloseReason;
use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{ClientRequest, ConnId, Input, NodeSettings, Now, Output, Outputs};
use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_proto::{ConnectRequest, QuorumPacket, Request, SessionId, Txn, Xid, Zxid};
use herdsman_tree::Tree;
use herdsman_zab::{Input as PeerInput, LearnerPort, LinkId, Output as PeerOutput};

use crate::cluster::{Cluster, NodeNumber};
use crate::driver::{Driver, address, options, settings};
use crate::words;

fn connect(conn: u64) -> Input<'static> {
    resume(conn, SessionId::NONE, &[0; 16])
}

fn resume(conn: u64, session: SessionId, password: &[u8]) -> Input<'_> {
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 20_000,
        session,
        password,
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

/// The end of a session may be one txn with very many changes.
#[test]
fn the_changes_of_a_step_are_limited_as_well() {
    let mut driver = with_sessions(3);
    for conn in [1, 2] {
        let creates: Vec<_> = (0..1024).map(|i| format!("create /e{conn}-{i} x flags=1")).collect();
        step(&mut driver, write(conn, &format!("multi {}", creates.join(" ; "))));
    }
    driver.now_ms = driver.node.next_deadline().expect("sessions have a deadline");
    for expected in [1, 2, 3] {
        step(&mut driver, Input::Tick);
        assert_eq!(ended(&driver), expected);
        driver.now_ms += 1;
    }
    assert_eq!(driver.tree.ephemeral_count(), 0);
}

fn close(conn: u64) -> Input<'static> {
    let request = ClientRequest::CloseSession;
    Input::Request { conn: ConnId(conn), xid: Xid(2), request, body: &[] }
}

/// A million ephemerals in one txn would stop everybody for seconds.
#[test]
fn very_many_ephemerals_of_a_session_are_deleted_in_several_txns() {
    let mut driver = with_sessions(2);
    for part in 0..5 {
        let creates: Vec<_> = (0..500).map(|i| format!("create /e{part}-{i} x flags=1")).collect();
        step(&mut driver, write(1, &format!("multi {}", creates.join(" ; "))));
    }
    let znodes = driver.tree.node_count();
    let end_begins = driver.log.len();
    step(&mut driver, close(1));
    // The client has closed its session: what it sends now is not answered.
    step(&mut driver, write(1, "create /late"));
    let mut others = 0;
    while driver.tree.session_count() == 2 {
        driver.now_ms += 1;
        step(&mut driver, Input::Tick);
        step(&mut driver, write(2, &format!("create /other{others}")));
        others += 1;
        assert!(others < 10, "the end makes progress");
    }
    let end = &driver.log[end_begins..];
    let most = end.iter().map(|entry| entry.txn.changes()).max();
    assert_eq!(most, Some(1024));
    assert_eq!(others, 3, "others write between the txns");
    assert_eq!((driver.tree.ephemeral_count(), driver.tree.node_count()), (0, znodes - 2500 + 3));
}

/// The list of the txn may be missing.
#[test]
fn ephemerals_that_a_txn_does_not_list_count_as_changes_too() {
    let lists = herdsman_tree::TreeOptions { close_session_lists_ephemerals: false, ..options() };
    let mut driver = Driver::new(settings(), Tree::new(lists));
    for conn in 1..=3 {
        step(&mut driver, connect(conn));
        let creates: Vec<_> = (0..600).map(|i| format!("create /e{conn}-{i} x flags=1")).collect();
        step(&mut driver, write(conn, &format!("multi {}", creates.join(" ; "))));
    }
    let (now, mut out) = (Now { monotonic_ms: 0, wall_ms: 0 }, Outputs::default());
    for conn in 1..=3 {
        driver.step(close(conn), &mut |_, _| {});
    }
    let zxid = driver.last_appended();
    driver.node.step(now, Input::Flushed { zxid }, &driver.tree, &mut out);
    for left in [600, 0] {
        driver.node.apply(now, &mut driver.tree, 256, &mut out);
        assert_eq!(driver.tree.ephemeral_count(), left);
    }
}

/// A session of which ephemerals were deleted must not be used again, also after the server was restarted.
#[test]
fn the_end_of_a_session_continues_after_a_restart() {
    for steps in 0..4 {
        let few = NodeSettings { ephemerals_per_txn_max: 2, ..settings() };
        let mut driver = Driver::new(few, Tree::new(options()));
        step(&mut driver, connect(1));
        for i in 0..8 {
            step(&mut driver, write(1, &format!("create /e{i} x flags=1")));
        }
        step(&mut driver, close(1));
        for _ in 0..steps {
            driver.now_ms += 1;
            step(&mut driver, Input::Tick);
        }
        assert_eq!(driver.tree.ephemeral_count(), 8 - 2 * steps);
        driver.restart(&mut |_, _| {});
        let (session, _) = driver.tree.sessions().next().expect("its end has only begun");
        let mut attached = 0;
        let password = session.apache_password();
        driver.step(resume(2, session, &password), &mut |output, _| {
            attached += usize::from(matches!(output, Output::Attached { .. }));
        });
        assert_eq!(attached, 0, "after {steps} steps");
        for _ in 0..10 {
            driver.now_ms += 1;
            step(&mut driver, Input::Tick);
        }
        assert_eq!((driver.tree.ephemeral_count(), driver.tree.session_count()), (0, 0));
    }
}

/// Three servers whose txns delete two ephemerals each, and a client of a follower with ten of them.
struct EndingSession {
    cluster: Cluster,
    leader: NodeNumber,
    follower: NodeNumber,
    session: SessionId,
}

impl EndingSession {
    const COUNT: usize = 10;

    fn new() -> Self {
        let few = NodeSettings { ephemerals_per_txn_max: 2, ..settings() };
        let mut cluster = Cluster::new(&few, 3, &mut |_, _, _, _| {});
        cluster.wait(5_000, &mut |_, _, _, _| {});
        let leader = leader_of(&cluster).expect("a leader");
        let follower = leader % 3 + 1;
        cluster.step(follower, connect(1), &mut |_, _, _, _| {});
        for i in 0..Self::COUNT {
            let line = format!("create /e{i} x flags=1");
            let write = words::write(&line);
            let mut body = Vec::new();
            Request::Write(write.clone()).encode(&mut body);
            let request = ClientRequest::Write(write);
            let input =
                Input::Request { conn: ConnId(1), xid: Xid(i as i32), request, body: &body };
            cluster.step(follower, input, &mut |_, _, _, _| {});
        }
        let tree = &cluster.members[&leader].tree;
        assert_eq!(tree.ephemeral_count(), Self::COUNT);
        let (session, _) = tree.sessions().next().expect("it is open");
        EndingSession { cluster, leader, follower, session }
    }

    fn ephemerals(&self) -> usize {
        self.cluster.members[&self.follower].tree.ephemeral_count()
    }

    /// Whether a client can continue the session at the follower.
    fn can_resume(&mut self) -> bool {
        let (mut can_resume, password) = (false, self.session.apache_password());
        self.cluster.step(
            self.follower,
            resume(2, self.session, &password),
            &mut |_, _, output, _| {
                can_resume |= matches!(output, Output::Attached { .. });
            },
        );
        can_resume
    }
}

fn leader_of(cluster: &Cluster) -> Option<NodeNumber> {
    let mut leaders =
        cluster.members.iter().filter(|(_, member)| member.node.serves_as().is_some());
    leaders.find(|(_, member)| member.leads()).map(|(&place, _)| place)
}

/// A client that finds its session open under a new leader relies on its ephemerals, so either all of them are there or
/// the session has ended.
#[test]
fn a_new_leader_continues_the_end_of_a_session() {
    for left in [8, 6, 4, 2] {
        let mut ending = EndingSession::new();
        let (follower, leader) = (ending.follower, ending.leader);
        ending.cluster.step(
            follower,
            Input::Disconnected { conn: ConnId(1) },
            &mut |_, _, _, _| {},
        );
        for _ in 0..60_000 {
            let tree = &ending.cluster.members[&follower].tree;
            if ending.ephemerals() == left && tree.is_ending(ending.session) {
                break;
            }
            ending.cluster.wait(1, &mut |_, _, _, _| {});
        }
        assert_eq!(ending.ephemerals(), left, "the session expires in steps");
        assert!(!ending.can_resume());
        ending.cluster.cut(leader, &mut |_, _, _, _| {});
        let mut waits = 0;
        while leader_of(&ending.cluster).is_none_or(|place| place == leader) {
            ending.cluster.wait(1, &mut |_, _, _, _| {});
            waits += 1;
            assert!(waits < 60_000, "somebody leads again");
        }
        assert!(!ending.can_resume(), "{left} ephemerals were left");
        ending.cluster.wait(100, &mut |_, _, _, _| {});
        let tree = &ending.cluster.members[&follower].tree;
        assert_eq!((tree.ephemeral_count(), tree.session_count()), (0, 0));
    }
}

/// The reply to a closeSession comes when all ephemerals are deleted, and once.
#[test]
fn a_client_of_a_follower_gets_its_reply_at_the_end() {
    let mut ending = EndingSession::new();
    let follower = ending.follower;
    let mut seen = Vec::new();
    let mut see = |place, member: &crate::cluster::Member, output: &Output, _: &[u8]| {
        let left = member.tree.ephemeral_count();
        match output {
            Output::Send { conn: ConnId(1), answers: Some(answered), .. } => {
                seen.push((place, left, format!("answer {}", answered.xid.0)));
            }
            Output::Close { conn: ConnId(1), reason: CloseReason::SessionClosed } => {
                seen.push((place, left, "closed".to_owned()));
            }
            _ => {}
        }
    };
    let request = ClientRequest::CloseSession;
    let input = Input::Request { conn: ConnId(1), xid: Xid(77), request, body: &[] };
    ending.cluster.step(follower, input, &mut see);
    ending.cluster.wait(100, &mut see);
    assert_eq!(seen, [(follower, 0, "answer 77".to_owned()), (follower, 0, "closed".to_owned())]);
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
        driver.node.apply(now, &mut driver.tree, 256, &mut out);
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
    let leader = *cluster.members.iter().find(|(_, member)| member.leads()).expect("a leader").0;
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
        *cluster.members.iter().find(|(_, member)| !member.leads()).expect("a follower").0;
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

/// A leader that has lost its quorum keeps REVALIDATE requests for a session whose end it has proposed.
#[test]
fn a_learner_with_too_many_revalidations_is_disconnected() {
    const QUESTIONS_MAX: usize = 1 << 16;
    let mut cluster = Cluster::new(&settings(), 3, &mut |_, _, _, _| {});
    cluster.wait(5_000, &mut |_, _, _, _| {});
    let leader = *cluster.members.iter().find(|(_, member)| member.leads()).expect("a leader").0;
    cluster.step(leader, connect(1), &mut |_, _, _, _| {});
    let session = cluster.members[&leader].tree.sessions().next().expect("it is open").0;
    let zab = cluster.members[&leader].node.zab().expect("an ensemble");
    let link = zab.learners().next().expect("a follower").0;
    cluster.wait(20_000, &mut |_, _, _, _| {});
    (1..=3).for_each(|place| cluster.hold(place));
    cluster.wait(1_000, &mut |_, _, _, _| {});
    let mut answers = 0;
    let mut closed = Vec::new();
    for _ in 0..=QUESTIONS_MAX {
        let packet = QuorumPacket::Revalidate { session, timeout_ms: 4000 };
        let input = Input::Peer(PeerInput::Packet { link, packet });
        cluster.step(leader, input, &mut |place, _, output, _| match output {
            herdsman_node::Output::Peer(PeerOutput::Close { link, .. }) if place == leader => {
                closed.push(*link);
            }
            herdsman_node::Output::Peer(PeerOutput::Send {
                packet: QuorumPacket::Revalidated { .. },
                ..
            }) => answers += 1,
            _ => {}
        });
    }
    assert_eq!((answers, closed), (0, vec![link]));
}
