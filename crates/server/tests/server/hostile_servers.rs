//! Hosts that reach the ports between servers and send valid messages: they get nothing, and the ensemble continues.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use herdsman_proto::notification::Hello;
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{LearnerKind, Notification, QuorumPacket, ServerId, ServerState, Vote, Zxid};
use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;
use socket2::{Domain, Socket, Type};

use crate::client::{Client, open};

/// The id of a server that is not listed.
const UNLISTED: i64 = 99;

/// Sends an id and a promised epoch on a new connection to a server's quorum port. Both may be false or
/// impossible.
fn introduce(
    ensemble: &TestEnsemble,
    to: usize,
    kind: LearnerKind,
    server: i64,
    accepted_epoch: u32,
) -> TcpStream {
    let handle = ensemble.handle(to);
    let member = &handle.config().quorum.membership.members[&ServerId(to as i64)];
    let mut stream = open(([127, 0, 0, 1], member.addresses[0].quorum_port).into());
    let info = LearnerInfo {
        server: ServerId(server),
        protocol_version: PROTOCOL_VERSION,
        config_version: 0,
    };
    let mut bytes = Vec::new();
    QuorumPacket::Info { kind, accepted_epoch: 0, info: Some(info) }.encode(&mut bytes);
    bytes[4..8].copy_from_slice(&accepted_epoch.to_be_bytes());
    // A connection above the limit may be closed already.
    _ = stream.write_all(&bytes);
    stream
}

/// Waits until the message was handled: there is an answer, or the connection ends.
fn await_answer(stream: &mut TcpStream) {
    _ = stream.read(&mut [0]);
}

/// The epoch that a server has promised, on disk.
fn accepted_epoch(ensemble: &TestEnsemble, id: usize) -> u32 {
    std::fs::read_to_string(epoch_file(ensemble, id)).unwrap().trim().parse().unwrap()
}

fn epoch_file(ensemble: &TestEnsemble, id: usize) -> PathBuf {
    ensemble.handle(id).config().storage.data_dir.join("version-2/acceptedEpoch")
}

fn epochs(ensemble: &TestEnsemble) -> Vec<u32> {
    ensemble.ids().map(|id| accepted_epoch(ensemble, id)).collect()
}

#[test]
fn no_introduction_ends_a_leader_s_term() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let before = epochs(&ensemble);
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    client.create("/a", b"", 0).ok();
    let mut held = Vec::new();
    for to in ensemble.ids() {
        for kind in [LearnerKind::Follower, LearnerKind::Observer] {
            for server in [1, 2, 3, UNLISTED] {
                for epoch in [before[0], before[0] + 1, 0x7fff_fffe, 0x7fff_ffff, 0xffff_ffff] {
                    let mut stream = introduce(&ensemble, to, kind, server, epoch);
                    await_answer(&mut stream);
                    held.push(stream);
                }
            }
        }
    }
    client.create("/b", b"", 0).ok();
    assert_eq!(epochs(&ensemble), before);
    assert_eq!(ensemble.serves_as(leader), Some(ServesAs::Leader));
}

/// Each of them would have taken the follower's link.
#[test]
fn a_follower_keeps_its_link_while_others_use_its_number() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let epoch = accepted_epoch(&ensemble, leader);
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    for count in 0..300 {
        let mut stream =
            introduce(&ensemble, leader, LearnerKind::Follower, follower as i64, epoch);
        await_answer(&mut stream);
        client.create(&format!("/{count}"), b"", 0).ok();
    }
    assert_eq!(ensemble.serves_as(leader), Some(ServesAs::Leader));
}

/// It has sent only its id and its promised epoch.
#[test]
fn a_member_that_catches_up_keeps_its_link_while_others_use_its_number() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let epoch = accepted_epoch(&ensemble, leader);
    let follower = ensemble.follower();
    ensemble.kill(follower);
    let join = || introduce(&ensemble, leader, LearnerKind::Follower, follower as i64, epoch);
    let mut member = join();
    await_answer(&mut member);
    let mut bytes = Vec::new();
    QuorumPacket::AckEpoch { last_zxid: Zxid::ZERO, current_epoch: None }.encode(&mut bytes);
    member.write_all(&bytes).unwrap();
    // LEADERINFO has 24 bytes; the bytes after it are the start of synchronization.
    member.read_exact(&mut [0; 24]).unwrap();
    let held: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = join();
            await_answer(&mut stream);
            stream
        })
        .collect();
    member.set_nonblocking(true).unwrap();
    while let Ok(count) = member.read(&mut [0; 1024]) {
        assert_ne!(count, 0, "was cut");
    }
    drop(held);
}

/// Acts on the servers while `meanwhile` runs.
fn during<T>(hostile: impl FnMut() + Send, meanwhile: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut hostile = hostile;
        let over = &is_over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                hostile();
            }
        });
        // Also if it panics: the thread is joined.
        let _end = SetOnDrop(&is_over);
        meanwhile()
    })
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut stream = stream;
    !matches!(stream.read(&mut [0; 64]), Ok(0))
}

#[test]
fn hosts_that_are_not_listed_do_not_keep_a_member_out() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    ensemble.kill(follower);
    let join = |number: i64| introduce(&ensemble, leader, LearnerKind::Observer, number, 1);
    let mut held: Vec<_> = (UNLISTED..UNLISTED + 100).map(join).collect();
    for stream in &mut held[..10] {
        await_answer(stream);
    }
    ensemble.start_again(follower);
    let again = || {
        for (stream, number) in held.iter_mut().zip(UNLISTED..) {
            if !is_open(stream) {
                *stream = introduce(&ensemble, leader, LearnerKind::Observer, number, 1);
            }
        }
    };
    during(again, || ensemble.await_role(follower, ServesAs::Follower));
}

#[test]
fn an_election_is_not_disturbed_by_impossible_promises() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let others: Vec<_> = ensemble.ids().filter(|id| *id != leader).collect();
    ensemble.kill(leader);
    let mut held = VecDeque::new();
    let disturb = || {
        for (server, epoch) in [
            (UNLISTED, 1_000_000),
            (UNLISTED, 0x7fff_fffe),
            // The promise of a voter that is down could be a real one if it were smaller.
            (leader as i64, 0x7fff_fffe),
            (leader as i64, 0x7fff_ffff),
            (leader as i64, 0xffff_ffff),
        ] {
            for to in &others {
                for kind in [LearnerKind::Follower, LearnerKind::Observer] {
                    held.push_back(introduce(&ensemble, *to, kind, server, epoch));
                }
            }
        }
        held.drain(..held.len().saturating_sub(64));
    };
    during(disturb, || {
        let next = ensemble.await_leader();
        Client::connect(ensemble.address(next)).create("/a", b"", 0).ok();
    });
    drop(held);
    for id in others {
        assert!(accepted_epoch(&ensemble, id) < 100);
    }
    ensemble.start_again(leader);
    ensemble.await_leader();
}

/// It cannot follow the leader, and is not hostile: a new epoch begins for it.
#[test]
fn a_voter_that_has_promised_a_later_epoch_joins() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let promised = accepted_epoch(&ensemble, leader) + 5;
    let file = epoch_file(&ensemble, follower);
    ensemble.kill(follower);
    std::fs::write(file, promised.to_string()).unwrap();
    ensemble.start_again(follower);
    ensemble.await_that("a later epoch", || {
        epochs(&ensemble).iter().all(|epoch| *epoch > promised).then_some(())
    });
    ensemble.await_leader();
}

/// Claims to be a member on a new connection to an election port, and votes. It has a separate address.
fn vote_as(port: u16, server: i64, votes: &[Notification]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 66], 0)).into()).unwrap();
    // The server may be down.
    _ = socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into());
    let mut bytes = Vec::new();
    let addresses = "127.0.0.66:1".to_owned();
    Hello { server: ServerId(server), addresses }.encode(&mut bytes);
    for vote in votes {
        let mut payload = Vec::new();
        vote.encode(&mut payload);
        bytes.extend((payload.len() as i32).to_be_bytes());
        bytes.extend(payload);
    }
    let mut stream = TcpStream::from(socket);
    _ = stream.write_all(&bytes);
    stream
}

/// A vote that makes servers elect the one that a hostile host chooses, in the highest possible round.
fn false_votes(server: i64) -> Vec<Notification> {
    let leader = ServerId(server % 3 + 1);
    let vote = Vote { leader, zxid: Zxid(i64::MAX - 1), epoch: i64::MAX };
    let states = [ServerState::Leading, ServerState::Following, ServerState::Looking];
    let say = |state| Notification { state, vote, round: i64::MAX, config: String::new() };
    states.map(say).to_vec()
}

/// Members that are connected stay connected. One that reconnects finds its id in use, but not from its address.
#[test]
fn votes_in_the_name_of_members_do_not_keep_them_apart() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let handle = ensemble.handle(leader);
    let members = handle.config().quorum.membership.members.values();
    let ports: Vec<_> = members.map(|member| member.addresses[0].election_port).collect();
    drop(handle);
    let mut held = Vec::new();
    let vote = || {
        for (to, port) in (1..).zip(&ports) {
            for server in (1..=3).filter(|server| *server != to) {
                held.push(vote_as(*port, server, &false_votes(server)));
            }
        }
        held.retain(is_open);
    };
    during(vote, || {
        let mut client = Client::connect(ensemble.address(leader));
        let follower = ensemble.follower();
        ensemble.stop(follower);
        client.create("/a", b"", 0).ok();
        ensemble.start_again(follower);
        ensemble.await_role(follower, ServesAs::Follower);
        assert_eq!(ensemble.serves_as(leader), Some(ServesAs::Leader));
        ensemble.stop(leader);
        ensemble.start_again(leader);
        let next = ensemble.await_leader();
        Client::connect(ensemble.address(next)).create("/c", b"", 0).ok();
    });
}
