//! A learner by itself, packet by packet.

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, SessionId, Txn, TxnHeader};

use super::*;
use crate::io::TreeAfterCut;
use crate::log::{Log, LogStorage};
use crate::testing::{replica, zxid};

const LINK: LinkId = LinkId(3);

/// A learner of epoch 1 that has been told of epoch 2 by server 2.
fn promising(replica: &mut Replica, not_ahead: bool) -> Vec<Output> {
    let leader = ServerId(2);
    let upstream = Upstream { leader, to: leader, port: LearnerPort::Quorum, not_ahead };
    let mut out = Vec::new();
    let mut learner = Learner::begin(0, upstream, replica, &mut out);
    learner.handle_connected(LINK, replica, &mut out);
    let info = QuorumPacket::LeaderInfo { epoch: 2, protocol_version: PROTOCOL_VERSION };
    learner.handle_packet(0, info, replica, &mut out).unwrap();
    assert_eq!(out.pop(), Some(Output::SaveEpoch { kind: EpochKind::Accepted, epoch: 2 }));
    out.clear();
    learner.handle_epoch_saved(EpochKind::Accepted, replica, &mut out);
    out
}

fn promise(last_zxid: Zxid, current_epoch: Option<u32>) -> Vec<Output> {
    let packet = QuorumPacket::AckEpoch { last_zxid, current_epoch };
    vec![Output::Send { link: LINK, packet }]
}

/// It asks for everything from the start, so its zxid does not show what it has: a leader that is behind it would
/// count its promise.
#[test]
fn who_starts_over_promises_only_to_a_leader_that_is_not_behind() {
    let mut replica = replica(1, zxid(1, 0), &[zxid(1, 1)]);
    assert_eq!(promising(&mut replica, false), promise(zxid(1, 1), Some(1)));
    replica.start_over = true;
    assert_eq!(promising(&mut replica, false), promise(Zxid::ZERO, None));
    assert_eq!(promising(&mut replica, true), promise(Zxid::ZERO, Some(1)));
}

/// A learner of this kind that has followed epoch 1 and promised epoch 5, and what it does in epoch `epoch`.
fn told_of(
    kind: LearnerKind,
    epoch: u32,
) -> (Learner, Replica, Result<(), StepDownReason>, Vec<Output>) {
    let mut replica = replica(1, zxid(1, 0), &[zxid(1, 1)]);
    replica.epochs.accepted = 5;
    let leader = ServerId(2);
    let upstream = Upstream { leader, to: leader, port: LearnerPort::Quorum, not_ahead: true };
    let mut learner = Learner::begin(0, upstream, &replica, &mut Vec::new());
    learner.kind = kind;
    learner.handle_connected(LINK, &replica, &mut Vec::new());
    let info = QuorumPacket::LeaderInfo { epoch, protocol_version: PROTOCOL_VERSION };
    let mut out = Vec::new();
    let result = learner.handle_packet(0, info, &mut replica, &mut out);
    (learner, replica, result, out)
}

/// A leader does not look at what an observer has promised, so the observer does not hold it against the leader. It
/// gives no promise, and keeps the one that it gave.
#[test]
fn an_observer_follows_an_earlier_epoch_than_it_promised() {
    let (_, _, result, out) = told_of(LearnerKind::Observer, 4);
    assert_eq!((result, out), (Ok(()), promise(zxid(1, 1), None)));
    for (kind, epoch) in [(LearnerKind::Follower, 4), (LearnerKind::Observer, 0)] {
        assert_eq!(told_of(kind, epoch).2, Err(StepDownReason::LeaderRefused), "{kind:?}");
    }
    for kind in [LearnerKind::Follower, LearnerKind::Observer] {
        assert_eq!(told_of(kind, EPOCH_MAX).2, Err(StepDownReason::LeaderRefused), "{kind:?}");
    }
}

/// It could not be recovered: neither epoch file reaches it.
#[test]
fn what_is_of_a_later_epoch_than_the_leader_is_refused() {
    for packets in [
        vec![QuorumPacket::Snap { zxid: zxid(6, 1) }],
        vec![
            QuorumPacket::Diff { zxid: zxid(1, 1) },
            QuorumPacket::Proposal { zxid: zxid(6, 1), payload: "txn".into() },
        ],
    ] {
        let (mut learner, mut replica, _, _) = told_of(LearnerKind::Follower, 5);
        let mut take =
            |packet| learner.handle_packet(0, packet, &mut replica, &mut Vec::new()).is_err();
        let refused: Vec<_> = packets.into_iter().map(&mut take).collect();
        assert!(refused.ends_with(&[true]), "{refused:?}");
    }
}

#[test]
#[should_panic(expected = "Accepted epoch 4 after")]
fn a_promise_is_never_taken_back() {
    let mut replica = replica(1, zxid(1, 0), &[]);
    replica.epochs.accepted = 5;
    replica.save_epoch(EpochKind::Accepted, 4, &mut Vec::new());
}

/// A follower in epoch 5 that has got these packets; what it asked for since the last one.
fn after_packets(
    packets: impl IntoIterator<Item = QuorumPacket>,
) -> (Learner, Replica, Vec<Output>) {
    let (mut learner, mut replica, _, mut out) = told_of(LearnerKind::Follower, 5);
    for packet in packets {
        out.clear();
        learner.handle_packet(0, packet, &mut replica, &mut out).unwrap();
    }
    (learner, replica, out)
}

fn proposal(zxid: Zxid) -> QuorumPacket {
    QuorumPacket::Proposal { zxid, payload: "txn".into() }
}

/// All that was written while the tree was sent used to be kept until NEWLEADER.
#[test]
fn txns_behind_a_tree_are_handed_on_as_they_are_agreed_on() {
    let snap = QuorumPacket::Snap { zxid: zxid(5, 1) };
    let committed = QuorumPacket::Commit { zxid: zxid(5, 2) };
    let packets =
        [snap, proposal(zxid(5, 1)), proposal(zxid(5, 2)), proposal(zxid(5, 3)), committed];
    let (mut learner, mut replica, mut out) = after_packets(packets);
    assert_eq!(out, [Output::Replay { link: LINK, zxid: zxid(5, 2), payload: "txn".into() }]);
    out.clear();
    let new_leader = QuorumPacket::NewLeader { zxid: zxid(5, 0), config: Bytes::new() };
    learner.handle_packet(0, new_leader, &mut replica, &mut out).unwrap();
    assert_eq!(
        out,
        [Output::InstallSnapshot { link: LINK, zxid: zxid(5, 1), voting: Voting::Allowed }]
    );
    let Stage::Installing { rest } = &learner.stage else { panic!("{:?}", learner.stage) };
    assert_eq!(rest, &[proposal(zxid(5, 3))], "it is not known to be agreed on");
}

/// What Apache's leader proposes for a request that it cannot decode.
fn undecodable(zxid: Zxid) -> QuorumPacket {
    let header = TxnHeader { session: SessionId(0x1000), cxid: 7, zxid, time_ms: 1 };
    let entry = Entry { header, txn: Txn::error(ErrorCode::MarshallingError), digest: None };
    let mut payload = Vec::new();
    entry.encode(&mut payload);
    QuorumPacket::Proposal { zxid, payload: payload.into() }
}

/// It has the zxid of the txn before, and is none. The leader counts acknowledgements from then on only, so what was
/// acknowledged before is acknowledged again.
#[test]
fn a_repeated_zxid_is_not_logged_and_acknowledged_again() {
    let diff = QuorumPacket::Diff { zxid: zxid(1, 1) };
    let new_leader = QuorumPacket::NewLeader { zxid: zxid(5, 0), config: Bytes::new() };
    let (mut learner, mut replica, mut out) =
        after_packets([diff, undecodable(zxid(1, 1)), new_leader]);
    learner.handle_epoch_saved(EpochKind::Current, &mut replica, &mut out);
    learner.handle_packet(0, QuorumPacket::UpToDate, &mut replica, &mut out).unwrap();
    let mut take = |packets: &[QuorumPacket], flushed: Option<Zxid>| {
        let mut out = Vec::new();
        for packet in packets {
            learner.handle_packet(0, packet.clone(), &mut replica, &mut out).unwrap();
        }
        if let Some(flushed) = flushed {
            replica.log.handle_flushed(flushed, &mut out);
            learner.handle_flushed(&mut replica, &mut out).unwrap();
        }
        out
    };
    let ack = |zxid| Output::Send { link: LINK, packet: QuorumPacket::Ack { zxid } };
    let append = |zxid| Output::Append { zxid, payload: "txn".into(), storage: LogStorage::OnDisk };
    // Before the first txn of the epoch.
    assert_eq!(take(&[undecodable(zxid(5, 0))], None), []);
    let (first, second) = (zxid(5, 1), zxid(5, 2));
    // Not durable yet: there will be an acknowledgement.
    assert_eq!(
        take(&[proposal(first), undecodable(first)], Some(first)),
        [append(first), ack(first)]
    );
    assert_eq!(take(&[undecodable(first)], None), [ack(first)]);
    assert_eq!(take(&[undecodable(first)], None), [ack(first)]);
    assert_eq!(take(&[proposal(second)], None), [append(second)]);
    // With a zxid of its own it is a txn.
    let third = zxid(5, 3);
    assert!(
        matches!(take(&[undecodable(third)], None)[..], [Output::Append { zxid, .. }] if zxid == third)
    );
}

/// The same among the txns that follow a tree.
#[test]
fn a_repeated_zxid_does_not_follow_a_tree() {
    let snap = QuorumPacket::Snap { zxid: zxid(5, 1) };
    let packets = [snap, undecodable(zxid(5, 1)), proposal(zxid(5, 2)), undecodable(zxid(5, 2))];
    let (learner, _, _) = after_packets(packets);
    let Stage::ReceivingTree(received) = learner.stage else { panic!("{:?}", learner.stage) };
    assert_eq!(format!("{received:?}").matches("txn").count(), 1, "{received:?}");
}

/// The log had to be given up, and the leader still has everything: it is put on an empty tree.
#[test]
fn a_diff_for_a_server_that_starts_over_begins_with_an_empty_tree() {
    let (mut learner, mut replica, _, mut out) = told_of(LearnerKind::Follower, 5);
    replica.start_over = true;
    out.clear();
    let diff = QuorumPacket::Diff { zxid: zxid(1, 1) };
    for packet in [diff, proposal(zxid(1, 1)), QuorumPacket::Commit { zxid: zxid(1, 1) }] {
        learner.handle_packet(0, packet, &mut replica, &mut out).unwrap();
    }
    let replay = Output::Replay { link: LINK, zxid: zxid(1, 1), payload: "txn".into() };
    assert_eq!(out, [Output::BeginEmpty { link: LINK }, replay]);
}

/// What a leader has committed in its own epoch is agreed on. What it has from before is so only when it is
/// established itself, which nothing but UPTODATE, or a commit of its own epoch, shows.
#[test]
fn only_commits_of_the_leaders_own_epoch_count_before_up_to_date() {
    let from_before = [
        QuorumPacket::Diff { zxid: zxid(4, 1) },
        proposal(zxid(4, 1)),
        QuorumPacket::Commit { zxid: zxid(4, 1) },
    ];
    let (mut learner, mut replica, mut out) = after_packets(from_before);
    replica.log.handle_flushed(zxid(4, 1), &mut out);
    assert_eq!(out, []);
    for packet in [proposal(zxid(5, 1)), QuorumPacket::Commit { zxid: zxid(5, 1) }] {
        learner.handle_packet(0, packet, &mut replica, &mut out).unwrap();
    }
    out.clear();
    replica.log.handle_flushed(zxid(5, 1), &mut out);
    assert_eq!(out, [Output::Commit { zxid: zxid(5, 1) }]);
}

#[test]
fn a_busy_disk_extends_only_the_time_to_catch_up() {
    let (mut learner, replica, ..) = told_of(LearnerKind::Follower, 5);
    let first_ms = learner.next_deadline();
    learner.handle_still_busy(1000, &replica);
    let extended_ms = learner.next_deadline();
    assert!(extended_ms > first_ms);
    learner.stage = Stage::Active;
    learner.handle_still_busy(2000, &replica);
    assert_eq!(learner.next_deadline(), extended_ms);
}

/// An observer of epoch 1 that has been told of epoch 5, has committed a txn of it, and has lost its link before it
/// could save that epoch. Another server, which still follows an earlier leader, must not take it back.
#[test]
fn an_observer_does_not_go_back_behind_what_it_has_committed() {
    let (mut learner, mut replica, ..) = told_of(LearnerKind::Observer, 5);
    let mut out = Vec::new();
    let diff = QuorumPacket::Diff { zxid: zxid(5, 1) };
    let inform = QuorumPacket::Inform { zxid: zxid(5, 1), payload: "txn".into() };
    for packet in [diff, inform] {
        learner.handle_packet(0, packet, &mut replica, &mut out).unwrap();
    }
    assert_eq!((replica.log.committed(), replica.epochs.current), (zxid(5, 1), 1));
    let upstream = Upstream {
        leader: ServerId(3),
        to: ServerId(3),
        port: LearnerPort::Quorum,
        not_ahead: true,
    };
    let mut join = |epoch| {
        let mut learner = Learner::begin(0, upstream, &replica, &mut Vec::new());
        learner.kind = LearnerKind::Observer;
        learner.handle_connected(LINK, &replica, &mut Vec::new());
        let info = QuorumPacket::LeaderInfo { epoch, protocol_version: PROTOCOL_VERSION };
        let told = learner.handle_packet(0, info, &mut replica, &mut Vec::new());
        let trunc = QuorumPacket::Trunc { zxid: zxid(1, 1) };
        (told, learner.handle_packet(0, trunc, &mut replica, &mut Vec::new()))
    };
    assert_eq!(join(4).0, Err(StepDownReason::LeaderRefused));
    let behind = StepDownReason::LeaderBehind { end: zxid(1, 1), committed: zxid(5, 1) };
    assert_eq!(join(5), (Ok(()), Err(behind)));
}

/// A follower of epoch 6 whose log ends with (5, 2), and which knows that everything up to `committed` is agreed on;
/// what comes of these packets of its leader.
fn returns(
    committed: &[Zxid],
    packets: Vec<QuorumPacket>,
) -> (Result<(), StepDownReason>, Vec<Output>) {
    let mut replica = replica(5, zxid(5, 0), &[zxid(5, 1), zxid(5, 2)]);
    let mut out = Vec::new();
    for zxid in committed {
        replica.log.commit(*zxid, &mut out);
    }
    let leader = ServerId(2);
    let upstream = Upstream { leader, to: leader, port: LearnerPort::Quorum, not_ahead: true };
    let mut learner = Learner::begin(0, upstream, &replica, &mut out);
    learner.handle_connected(LINK, &replica, &mut out);
    learner.epoch = 6;
    learner.stage = Stage::AwaitingPlan;
    out.clear();
    let mut take = |packet| learner.handle_packet(0, packet, &mut replica, &mut out);
    let result = packets.into_iter().try_for_each(&mut take);
    (result, out)
}

/// Apache labels a tree with the start of an epoch of which it has no txn yet. Who took such a tree and then logged
/// what nobody else has must cut it off, although the leader's history ends before this label.
#[test]
fn the_start_of_an_epoch_does_not_stand_in_the_way_of_a_cut() {
    let cut = |to| vec![QuorumPacket::Trunc { zxid: to }];
    let truncate = Output::Truncate { zxid: zxid(4, 9), tree: TreeAfterCut::Reloaded };
    for committed in [vec![zxid(5, 0)], vec![zxid(4, 9), zxid(5, 0)]] {
        let cuts = returns(&committed, cut(zxid(4, 9)));
        assert_eq!(cuts, (Ok(()), vec![truncate.clone()]), "{committed:?}");
    }
    let behind =
        |end, committed| (Err(StepDownReason::LeaderBehind { end, committed }), Vec::new());
    let refused = returns(&[zxid(4, 9), zxid(5, 0)], cut(zxid(4, 8)));
    assert_eq!(refused, behind(zxid(4, 8), zxid(4, 9)));
    let refused = returns(&[zxid(5, 1)], cut(zxid(4, 9)));
    assert_eq!(refused, behind(zxid(4, 9), zxid(5, 1)));
}

/// A tree that lacks what is agreed on used to take the place of the history here without a word.
#[test]
fn a_tree_without_what_is_agreed_on_is_refused() {
    let tree = |txns: &[QuorumPacket]| {
        let snap = QuorumPacket::Snap { zxid: zxid(4, 9) };
        let new_leader = QuorumPacket::NewLeader { zxid: zxid(6, 0), config: Bytes::new() };
        [&[snap], txns, &[new_leader]].concat()
    };
    let install = Output::InstallSnapshot { link: LINK, zxid: zxid(4, 9), voting: Voting::Allowed };
    let committed = zxid(5, 1);
    let behind = StepDownReason::LeaderBehind { end: zxid(4, 9), committed };
    assert_eq!(returns(&[committed], tree(&[])), (Err(behind), Vec::new()));
    // It would be in the log behind the snapshot, but not before the snapshot has taken the place of the old log.
    let txn = proposal(committed);
    assert_eq!(returns(&[committed], tree(std::slice::from_ref(&txn))), (Err(behind), Vec::new()));
    let replay = Output::Replay { link: LINK, zxid: committed, payload: "txn".into() };
    let taken = returns(&[committed], tree(&[txn, QuorumPacket::Commit { zxid: committed }]));
    assert_eq!(taken, (Ok(()), vec![replay, install.clone()]));
    // The start of an epoch stands for no txn.
    assert_eq!(returns(&[zxid(4, 9), zxid(5, 0)], tree(&[])), (Ok(()), vec![install]));
}

/// What is on disk may be the only copy of something that a quorum acknowledged, so nothing of it is touched before the
/// leader's tree is complete.
#[test]
fn who_cannot_use_its_files_neither_cuts_nor_appends() {
    let plan = |plan: QuorumPacket| {
        let (mut learner, mut replica, _, _) = told_of(LearnerKind::Follower, 5);
        replica.log = Log::new(LogStorage::OnDisk, replica.settings.history, Zxid::ZERO, vec![]);
        replica.start_over = true;
        replica.voting = Voting::Suspended;
        let mut out = Vec::new();
        let result = learner.handle_packet(0, plan, &mut replica, &mut out);
        result.map(|()| (learner, replica, out))
    };
    for zxid in [zxid(1, 1), zxid(4, 9)] {
        let refused = plan(QuorumPacket::Trunc { zxid }).map(|_| ()).unwrap_err();
        assert_eq!(refused, StepDownReason::LeaderRefused);
    }
    let empty = [QuorumPacket::Diff { zxid: zxid(4, 9) }, QuorumPacket::Trunc { zxid: Zxid::ZERO }];
    for packet in empty {
        let (mut learner, mut replica, mut out) = plan(packet).unwrap();
        assert_eq!(out, [Output::BeginEmpty { link: LINK }]);
        out.clear();
        learner.handle_packet(0, proposal(zxid(4, 1)), &mut replica, &mut out).unwrap();
        assert_eq!(out, []);
        let new_leader = QuorumPacket::NewLeader { zxid: zxid(5, 0), config: Bytes::new() };
        learner.handle_packet(0, new_leader, &mut replica, &mut out).unwrap();
        let (zxid, voting) = (Zxid::ZERO, Voting::Suspended);
        assert_eq!(out, [Output::InstallSnapshot { link: LINK, zxid, voting }]);
    }
}

/// Before the plan it is not known whether the log here is a part of the leader's.
#[test]
fn a_commit_before_the_plan_is_refused() {
    let (mut learner, mut replica, ..) = told_of(LearnerKind::Follower, 5);
    let commit = QuorumPacket::Commit { zxid: zxid(1, 1) };
    let refused = learner.handle_packet(0, commit, &mut replica, &mut Vec::new());
    assert_eq!(refused, Err(StepDownReason::LeaderRefused));
}
