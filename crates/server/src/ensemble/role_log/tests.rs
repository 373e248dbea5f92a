//! The log of a server's roles, line by line.

use bytes::Bytes;
use herdsman_proto::quorum::LearnerInfo;
use herdsman_zab::io::{CloseReason, LearnerPort};
use herdsman_zab::log::LogStorage;
use herdsman_zab::{LinkId, RoleStatus, TreeAfterCut, Voting};

use super::*;

/// A server and the log of its roles.
struct Fixture {
    log: RoleLog,
    stats: EnsembleStats,
    view: ZabView,
    now_ms: u64,
}

impl Fixture {
    fn new() -> Self {
        let view = ZabView {
            state: ServerState::Looking,
            epoch: 0,
            promised: 0,
            last: Zxid::ZERO,
            committed: Zxid::ZERO,
            step_down_reason: None,
        };
        let log = RoleLog::new(ServerId(1), 0);
        Fixture { log, stats: EnsembleStats::default(), view, now_ms: 0 }
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.now_ms, wall_ms: 0 }
    }

    fn note(&mut self, outputs: &[Output]) -> Vec<String> {
        for output in outputs {
            self.log.note(self.now(), output, &self.view, &self.stats);
        }
        self.log.after_step(self.now(), &self.view, &self.stats);
        let lines = self.log.take_lines().into_iter();
        lines.map(|line| format!("{} {}", line.level, line.text)).collect()
    }

    fn check(&mut self, outputs: &[Output], expected: &[&str]) {
        assert_eq!(self.note(outputs), expected);
    }

    fn fall(&mut self, fall: StepDownReason) -> Vec<String> {
        self.view.step_down_reason = Some(fall);
        self.view.state = ServerState::Looking;
        self.note(&[Output::RoleChanged(RoleStatus::Looking)])
    }

    fn observe(&mut self, link: u64, packet: QuorumPacket) {
        self.log.observe(self.now_ms, &Input::Packet { link: LinkId(link), packet });
    }

    fn introduce(&mut self, link: u64, server: i64, accepted_epoch: u32) {
        let info =
            LearnerInfo { server: ServerId(server), protocol_version: 0x10000, config_version: 0 };
        let kind = LearnerKind::Follower;
        self.observe(link, QuorumPacket::Info { kind, accepted_epoch, info: Some(info) });
    }

    fn lead(&mut self, epoch: u32) {
        self.view.state = ServerState::Leading;
        (self.view.epoch, self.view.promised) = (epoch, epoch);
        self.note(&[Output::RoleChanged(RoleStatus::Leading { epoch })]);
    }
}

fn send(link: u64, packet: QuorumPacket) -> Output {
    Output::Send { link: LinkId(link), packet }
}

fn connect(to: i64) -> Output {
    Output::Connect { to: ServerId(to), port: LearnerPort::Quorum }
}

fn append(zxid: i64) -> Output {
    Output::Append {
        zxid: Zxid(zxid),
        payload: Bytes::from_static(&[0; 36]),
        storage: LogStorage::OnDisk,
    }
}

fn proposal(zxid: i64) -> QuorumPacket {
    QuorumPacket::Proposal { zxid: Zxid(zxid), payload: Bytes::new() }
}

#[test]
fn the_first_line_says_who_is_who() {
    let mut fixture = Fixture::new();
    let text = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer";
    let membership = Membership::parse_text(text).expect("it is right");
    fixture.log.begin(&membership, &fixture.view, &fixture.stats);
    fixture.check(
        &[],
        &["INFO this is server 1 of an ensemble with servers 1 and 2 and server 3 without a vote; \
           its last txn is 0x0, its epoch 0; looking for a leader"],
    );
    assert_eq!(fixture.stats.searches.get(), 1);
}

#[test]
fn a_follower_tells_how_it_caught_up_and_why_it_left() {
    let mut fixture = Fixture::new();
    fixture.now_ms = 12;
    fixture.view.state = ServerState::Following;
    fixture.check(
        &[connect(3)],
        &["INFO server 3 is the elected leader, found in 12 ms: joining as a follower"],
    );
    fixture.now_ms = 20;
    let promise = QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch: Some(0) };
    fixture.check(&[send(7, promise), append(0x1_0000_0001), append(0x1_0000_0002)], &[]);
    fixture.now_ms = 31;
    (fixture.view.epoch, fixture.view.last) = (2, Zxid(0x1_0000_0002));
    let following = RoleStatus::Following { link: LinkId(7), leader: ServerId(3) };
    fixture.check(
        &[Output::RoleChanged(following)],
        &["INFO following server 3 in epoch 2; received 2 txns, up to 0x100000002 (DIFF); ready after \
           31 ms"],
    );
    let stats = &fixture.stats;
    let times = [&stats.election, &stats.follower_sync, &stats.unavailable].map(|s| s.get().sum);
    assert_eq!((times, stats.leader_unavailable.get().count), ([12, 11, 31], 0));
    fixture.now_ms += 60_000;
    let expected = "WARN no longer following server 3, after 1 min 0 s: the connection to it \
                    is lost; looking for a leader";
    assert_eq!(fixture.fall(StepDownReason::LeaderLost), [expected]);
}

#[test]
fn cuts_and_whole_trees_are_named() {
    let joined =
        Output::RoleChanged(RoleStatus::Observing { link: LinkId(1), leader: ServerId(2) });
    let link = LinkId(1);
    let install = vec![
        Output::Replay { link, zxid: Zxid(10), payload: Bytes::new() },
        Output::InstallSnapshot { link, zxid: Zxid(9), voting: Voting::Allowed },
    ];
    for (how, expected) in [
        (install, "received a snapshot and 1 txn after it, up to 0xa (SNAP)"),
        (
            vec![Output::Truncate { zxid: Zxid(8), tree: TreeAfterCut::Reloaded }],
            "truncated the log after 0x8 and received no txns, up to 0xa (TRUNC)",
        ),
    ] {
        let mut fixture = Fixture::new();
        fixture.view.state = ServerState::Observing;
        fixture.view.last = Zxid(10);
        let lines = fixture.note(&[vec![connect(2)], how, vec![joined.clone()]].concat());
        assert!(lines[1].contains(expected), "{lines:?}");
        assert!(lines[1].contains("observing server 2"), "{lines:?}");
        assert_eq!(fixture.stats.election.get().count, 0, "observers do not elect");
    }
}

#[test]
fn the_same_failure_is_logged_once_a_minute() {
    let mut fixture = Fixture::new();
    let mut lines = Vec::new();
    for _ in 0..100 {
        fixture.now_ms += 1000;
        fixture.view.state = ServerState::Following;
        lines.extend(fixture.note(&[connect(3)]));
        lines.extend(fixture.fall(StepDownReason::LeaderSilent));
    }
    lines.retain(|line| !line.starts_with("DEBUG"));
    let failed = "WARN could not join server 3: timed out: nothing was received from it";
    let expected = [
        "INFO server 3 is the elected leader, found in 1.0 s: joining as a follower".to_owned(),
        format!("{failed}; looking for a leader again"),
        format!("{failed} (59 similar messages suppressed); looking for a leader again"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(fixture.stats.searches.get(), 100);
}

#[test]
fn a_server_with_newer_data_gets_advice() {
    let mut fixture = Fixture::new();
    (fixture.view.state, fixture.view.promised) = (ServerState::Following, 5);
    fixture.note(&[connect(2)]);
    fixture.observe(1, QuorumPacket::LeaderInfo { epoch: 1, protocol_version: 0x10000 });
    let lines = fixture.fall(StepDownReason::LeaderRefused);
    for piece in ["leads epoch 1", "promised epoch 5", "move its version-2 directories away"] {
        assert!(lines[0].contains(piece), "{lines:?}");
    }
}

/// The log used to say that the leader violates the protocol, and nothing else.
#[test]
fn a_leader_that_lacks_a_committed_txn_is_logged_once_a_minute() {
    let mut fixture = Fixture::new();
    let mut lines = Vec::new();
    for end in 0..100 {
        fixture.now_ms += 1000;
        fixture.view.state = ServerState::Following;
        lines.extend(fixture.note(&[connect(3)]));
        lines.extend(
            fixture.fall(StepDownReason::LeaderBehind { end: Zxid(end), committed: Zxid(500) }),
        );
    }
    lines.retain(|line| line.starts_with("WARN"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    for piece in ["join server 3", "ends with 0x0", "txn 0x1f4 was committed", "version-2"] {
        assert!(lines[0].contains(piece), "{lines:?}");
    }
    assert!(lines[1].contains("(59 similar messages suppressed)"), "{lines:?}");
}

#[test]
fn its_leader_warns_of_it_once_a_minute() {
    let mut fixture = Fixture::new();
    fixture.lead(1);
    for _ in 0..100 {
        fixture.now_ms += 1000;
        fixture.introduce(4, 3, 5);
    }
    let mut lines = fixture.note(&[]);
    lines.retain(|line| !line.starts_with("DEBUG"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("WARN server 3 has promised epoch 5, but this server leads epoch 1")
    );
}

/// Any host that reaches the port can connect repeatedly, as one server or as many.
#[test]
fn learners_that_come_and_go_do_not_fill_the_log() {
    for servers in [1, 1000] {
        let mut fixture = Fixture::new();
        fixture.lead(1);
        let mut lines = Vec::new();
        for i in 0..1000 {
            fixture.now_ms += 10;
            fixture.introduce(i, (2 + i % servers).cast_signed(), 0);
            let link = LinkId(i);
            let snap = Output::SendSnapshot { link, zxid: Zxid(2) };
            let close = Output::Close { link, reason: CloseReason::Replaced };
            lines.extend(fixture.note(&[snap, send(i, QuorumPacket::UpToDate), close]));
        }
        lines.retain(|line| !line.starts_with("DEBUG"));
        assert!((12..=64).contains(&lines.len()), "{lines:?}");
    }
}

/// Regardless of how many ids a host claims.
#[test]
fn servers_that_are_not_listed_hide_no_line_about_a_member() {
    let mut fixture = Fixture::new();
    let text = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2";
    let membership = Membership::parse_text(text).expect("it is right");
    fixture.log.begin(&membership, &fixture.view, &fixture.stats);
    fixture.lead(1);
    for i in 0..100 {
        fixture.introduce(i, 100 + i.cast_signed(), 0);
        fixture.note(&[Output::Close { link: LinkId(i), reason: CloseReason::Replaced }]);
    }
    fixture.introduce(200, 3, 0);
    let close = Output::Close { link: LinkId(200), reason: CloseReason::TimedOut };
    let lines = fixture.note(&[close]);
    assert!(lines[0].starts_with("WARN rejecting server 3"), "{lines:?}");
}

#[test]
fn a_leader_tells_how_its_learners_caught_up() {
    let mut fixture = Fixture::new();
    fixture.view.state = ServerState::Leading;
    fixture.now_ms = 40;
    fixture.check(&[], &["INFO elected in 40 ms: waiting for a quorum of followers"]);
    fixture.introduce(1, 2, 0);
    fixture.introduce(2, 3, 0);
    let diff = send(1, QuorumPacket::Diff { zxid: Zxid(2) });
    let snap = Output::SendSnapshot { link: LinkId(2), zxid: Zxid(2) };
    fixture.check(
        &[diff, send(1, proposal(1)), send(1, proposal(2)), snap],
        &["INFO sending a snapshot to server 3: the log after 0x0 is incomplete, or too long (snapshotSizeFactor)"],
    );
    fixture.now_ms = 50;
    let leading = Output::RoleChanged(RoleStatus::Leading { epoch: 1 });
    fixture.check(
        &[leading, send(1, QuorumPacket::UpToDate), send(2, QuorumPacket::UpToDate)],
        &[
            "INFO leading epoch 1; ready after 50 ms",
            "INFO server 2 follows after 10 ms: received 2 txns (DIFF)",
            "INFO server 3 follows after 10 ms: received a snapshot at 0x2 and no txns (SNAP)",
        ],
    );
    let stats = &fixture.stats;
    assert_eq!((stats.diffs.get(), stats.snapshots.get()), (1, 1));
    assert_eq!((stats.leader_unavailable.get().sum, fixture.log.learners()), (50, 2));
    assert_eq!(fixture.log.leading_since_ms(), Some(50));
}

#[test]
fn a_leader_that_loses_a_voter_says_how_many_more_may_go() {
    let mut fixture = Fixture::new();
    let line = |id| format!("server.{id}=a:1:2:participant\n");
    let text: String = (1..=5).map(line).chain(["server.6=a:1:2:observer".to_owned()]).collect();
    let membership = Membership::parse_text(&text).expect("it is right");
    fixture.log.begin(&membership, &fixture.view, &fixture.stats);
    fixture.lead(1);
    for server in 2..=5 {
        fixture.introduce(server, server as i64, 0);
        let diff = QuorumPacket::Diff { zxid: Zxid(0) };
        fixture.note(&[send(server, diff), send(server, QuorumPacket::UpToDate)]);
    }
    // A server that was never synchronized makes no difference.
    fixture.introduce(7, 5, 0);
    fixture.log.observe(0, &Input::LinkLost { link: LinkId(7) });
    fixture.log.observe(0, &Input::LinkLost { link: LinkId(5) });
    fixture.check(
        &[],
        &["WARN server 5 no longer follows: 4 of 5 voters are left; 1 more may be lost"],
    );
    let silent = Output::Close { link: LinkId(4), reason: CloseReason::TimedOut };
    fixture.check(
        &[silent],
        &[
            "WARN rejecting server 4: timed out (no packets, or catching up took too long)",
            "WARN server 4 no longer follows: 3 of 5 voters are left; if one more is lost, writes stop",
        ],
    );
    fixture.fall(StepDownReason::NoQuorum);
    fixture.log.observe(0, &Input::LinkLost { link: LinkId(3) });
    fixture.check(&[], &[]);
}

#[test]
fn txns_are_counted_from_proposal_to_commit() {
    let mut fixture = Fixture::new();
    fixture.lead(1);
    fixture.now_ms = 10;
    fixture.check(&[append(0x1_0000_0001), append(0x1_0000_0002)], &[]);
    fixture.now_ms = 13;
    fixture.view.committed = Zxid(0x1_0000_0001);
    fixture.check(&[], &[]);
    let stats = &fixture.stats;
    assert_eq!((stats.proposals.get(), stats.commits.get()), (2, 1));
    assert_eq!((stats.quorum_ack.get().sum, stats.proposal_sizes()), (3, [36; 3]));
    fixture.fall(StepDownReason::NotSupported);
    fixture.view.committed = Zxid(0x1_0000_0002);
    fixture.lead(2);
    assert_eq!((fixture.stats.commits.get(), fixture.stats.deserted.get()), (1, 1));
    assert_eq!(fixture.stats.proposal_sizes(), [-1; 3], "counted since it leads");
}

#[test]
fn numbers_used_twice_are_named() {
    let mut fixture = Fixture::new();
    fixture.lead(1);
    fixture.introduce(1, 2, 0);
    fixture.introduce(2, 1, 0);
    let close = |link, reason| Output::Close { link: LinkId(link), reason };
    let lines = fixture.note(&[
        close(1, CloseReason::Replaced),
        close(2, CloseReason::UnexpectedPacket),
        close(3, CloseReason::NotLeading),
    ]);
    assert!(lines[0].contains("two servers have the number 2 in their files myid"), "{lines:?}");
    assert!(lines[1].contains("another process claims to be server 1"), "{lines:?}");
    assert!(lines[2].starts_with("DEBUG"), "{lines:?}");
    assert_eq!(fixture.log.learners(), 0);
}

#[test]
fn changes_of_the_role_are_remembered_and_failed_attempts_are_not() {
    let mut fixture = Fixture::new();
    fixture.now_ms = 5;
    fixture.fall(StepDownReason::LeaderLost);
    fixture.now_ms = 31;
    fixture.lead(2);
    fixture.now_ms = 90;
    fixture.fall(StepDownReason::NotSupported);
    fixture.now_ms = 100;
    fixture.fall(StepDownReason::LeaderLost);
    fixture.view.state = ServerState::Following;
    fixture.now_ms = 140;
    fixture.view.epoch = 3;
    fixture.note(&[Output::RoleChanged(RoleStatus::Following {
        link: LinkId(1),
        leader: ServerId(3),
    })]);
    let change = |role, epoch, leader: Option<i64>, took_ms| {
        let leader = leader.map(ServerId);
        RoleChange { at_ms: 0, role, epoch, leader, took_ms }
    };
    let expected = [
        change(NewRole::Leading, Some(2), Some(1), Some(31)),
        change(NewRole::Looking, None, None, None),
        change(NewRole::Following, Some(3), Some(3), Some(50)),
    ];
    assert_eq!(fixture.log.history(), expected);
}
