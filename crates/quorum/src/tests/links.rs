//! Open links: packets, trees, and how they end.

use super::*;

/// Server 1, and server 2 with a link to it: both ends.
fn linked() -> (Server, LinkId, Server, LinkId) {
    linked_with(settings(1))
}

fn linked_with(leader: NetworkSettings) -> (Server, LinkId, Server, LinkId) {
    let (leader, learner) = (Server::start(leader), Server::alone(2));
    learner.know(&[(1, leader.member())]);
    let requested = learner.network.connect(ServerId(1), LearnerPort::Quorum);
    assert_eq!(learner.connected(), (requested, ConnectResult::Connected));
    learner.send(requested, &QuorumPacket::Sync);
    let opened = leader.opened();
    assert_eq!(leader.packet(opened), QuorumPacket::Sync);
    (leader, opened, learner, requested)
}

#[test]
fn packets_arrive_in_order_both_ways() {
    let (leader, down, learner, up) = linked();
    for zxid in 0..1000 {
        leader.send(down, &commit(zxid));
        learner.send(up, &QuorumPacket::Ack { zxid: Zxid(zxid) });
    }
    for zxid in 0..1000 {
        assert_eq!(learner.packet(up), commit(zxid));
        assert_eq!(leader.packet(down), QuorumPacket::Ack { zxid: Zxid(zxid) });
    }
    leader.stop();
    learner.stop();
}

#[test]
fn a_large_packet_arrives_whole() {
    let (leader, down, learner, up) = linked();
    let payload: Vec<_> = (0..1 << 20).map(|at: u32| (at >> 7) as u8).collect();
    for zxid in 0..3 {
        let proposal = QuorumPacket::Proposal { zxid: Zxid(zxid), payload: payload.clone().into() };
        leader.send(down, &proposal);
        leader.send(down, &commit(zxid));
        assert_eq!(learner.packet(up), proposal);
        assert_eq!(learner.packet(up), commit(zxid));
    }
    leader.stop();
    learner.stop();
}

/// SNAP and a tree in pieces of one byte, then whatever step ends it.
struct Drip {
    tree: std::vec::IntoIter<u8>,
    end: StreamStep,
}

impl StreamSource for Drip {
    fn fill(&mut self, out: &mut Vec<u8>, _: &dyn Fn() -> bool) -> StreamStep {
        match self.tree.next() {
            Some(byte) => {
                out.push(byte);
                StreamStep::More
            }
            None => self.end,
        }
    }
}

fn drip(zxid: Zxid, tree: &[u8], end: StreamStep) -> Box<dyn StreamSource> {
    let mut bytes = Vec::new();
    QuorumPacket::Snap { zxid }.encode(&mut bytes);
    bytes.extend_from_slice(tree);
    Box::new(Drip { tree: bytes.into_iter(), end })
}

#[test]
fn a_tree_comes_before_its_packet_and_the_rest_behind() {
    let (leader, down, learner, up) = linked();
    leader.send(down, &commit(1));
    leader.network.send_stream(down, drip(Zxid(9), b"\x03abc", StreamStep::Done));
    leader.send(down, &commit(2));
    assert_eq!(learner.packet(up), commit(1));
    let tree = learner.wait(|event| match event {
        Event::Tree(link, tree) => Some((link, tree)),
        other => panic!("{other:?}"),
    });
    assert_eq!(tree, (up, b"abc".to_vec()));
    assert_eq!(learner.packet(up), QuorumPacket::Snap { zxid: Zxid(9) });
    assert_eq!(learner.packet(up), commit(2));
    leader.stop();
    learner.stop();
}

#[test]
fn a_tree_that_cannot_be_finished_loses_the_link() {
    let (leader, down, learner, up) = linked();
    leader.network.send_stream(down, drip(Zxid(9), b"\x03ab", StreamStep::Broken));
    leader.lost(down);
    learner.wait(|event| match event {
        Event::Input(Input::LinkLost { link }) if link == up => Some(()),
        other => panic!("{other:?}"),
    });
    leader.stop();
    learner.stop();
}

#[test]
fn what_was_sent_before_a_close_arrives() {
    let (leader, down, learner, up) = linked();
    for zxid in 0..100 {
        leader.send(down, &commit(zxid));
    }
    leader.network.close(down);
    leader.send(down, &commit(100));
    for zxid in 0..100 {
        assert_eq!(learner.packet(up), commit(zxid));
    }
    learner.wait(|event| match event {
        Event::Input(Input::LinkLost { link }) if link == up => Some(()),
        other => panic!("{other:?}"),
    });
    // The side that closed it reports nothing more of it: its next event is of another link.
    let requested = learner.network.connect(ServerId(1), LearnerPort::Quorum);
    assert_eq!(learner.connected(), (requested, ConnectResult::Connected));
    learner.send(requested, &QuorumPacket::Sync);
    leader.wait(|event| match event {
        Event::Input(Input::LinkOpened { link, .. }) if link != down => Some(()),
        other => panic!("{other:?}"),
    });
    leader.stop();
    learner.stop();
}

#[test]
fn a_link_is_closed_although_the_other_side_does_not_read() {
    let server = Server::alone(1);
    let mut peer = Raw::connect(server.quorum());
    peer.send_packet(&commit(1));
    let link = server.opened();
    assert_eq!(server.packet(link), commit(1));
    let proposal = QuorumPacket::Proposal { zxid: Zxid(2), payload: vec![7; 1 << 20].into() };
    for _ in 0..32 {
        server.send(link, &proposal);
    }
    server.network.close(link);
    // The peer keeps sending, and notices by that.
    while peer.0.write_all(&[0]).is_ok() {
        match server.events.recv_timeout(Duration::from_millis(10)) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("{other:?}"),
        }
    }
    server.stop();
}

#[test]
fn a_link_is_lost_once() {
    let server = Server::alone(1);
    let mut one = Raw::connect(server.quorum());
    one.send_packet(&commit(1));
    drop(one);
    let first = server.opened();
    server.lost(first);
    let mut other = Raw::connect(server.quorum());
    other.send_packet(&commit(1));
    let second = server.wait(|event| match event {
        Event::Input(Input::LinkOpened { link, .. }) => Some(link),
        other => panic!("{other:?}"),
    });
    // Calls for a lost link do nothing.
    server.send(first, &commit(1));
    server.network.send_stream(first, drip(Zxid(1), &[], StreamStep::Done));
    server.network.set_idle_limit(first, 1);
    server.network.close(first);
    server.wait(|event| match event {
        Event::Input(Input::Packet { link, .. }) if link == second => Some(()),
        other => panic!("{other:?}"),
    });
    server.stop();
}

#[test]
fn a_link_that_is_idle_for_too_long_is_lost_on_both_sides() {
    let (leader, down, learner, up) = linked();
    learner.send(up, &commit(1));
    assert_eq!(leader.packet(down), commit(1));
    learner.network.set_idle_limit(up, 50);
    learner.lost(up);
    leader.lost(down);
    leader.stop();
    learner.stop();
}

/// Otherwise what the leader sends to a server whose disk is behind would accumulate in memory.
#[test]
fn a_server_whose_disk_is_too_far_behind_loses_its_leader() {
    let (leader, down, learner, up) = linked();
    let queue_bytes_max = settings(2).queue_bytes_max;
    let set_queued = |queued_bytes| {
        let probe = learner.probe.upgrade().unwrap();
        probe.queued_bytes.store(queued_bytes, Ordering::Relaxed);
    };
    set_queued(queue_bytes_max);
    for zxid in [1, 2] {
        leader.send(down, &commit(zxid));
        assert_eq!(learner.packet(up), commit(zxid));
    }
    set_queued(queue_bytes_max + 1);
    // It may be lost before this is read: the reader checks after each packet.
    leader.send(down, &commit(3));
    learner.lost(up);
    leader.stop();
    learner.stop();
}

#[test]
fn both_hear_of_it_when_one_stops() {
    let (leader, down, learner, up) = linked();
    learner.send(up, &commit(1));
    assert_eq!(leader.packet(down), commit(1));
    learner.stop();
    leader.lost(down);
    leader.stop();
}

/// A tree that is sent slowly.
struct SlowTree(u8);

impl StreamSource for SlowTree {
    fn fill(&mut self, out: &mut Vec<u8>, _: &dyn Fn() -> bool) -> StreamStep {
        if self.0 == 0 {
            QuorumPacket::Snap { zxid: Zxid(9) }.encode(out);
        }
        std::thread::sleep(Duration::from_millis(60));
        self.0 += 1;
        out.push(if self.0 == 1 { 9 } else { b'x' });
        if self.0 == 10 { StreamStep::Done } else { StreamStep::More }
    }
}

/// A learner that receives a tree sends nothing, for as long as that takes.
#[test]
fn a_tree_may_take_longer_than_a_link_may_be_idle() {
    let init_limit = Duration::from_millis(200);
    let (leader, down, learner, up) = linked_with(NetworkSettings { init_limit, ..settings(1) });
    learner.send(up, &QuorumPacket::Ack { zxid: Zxid(1) });
    assert_eq!(leader.packet(down), QuorumPacket::Ack { zxid: Zxid(1) });
    leader.network.send_stream(down, Box::new(SlowTree(0)));
    assert_eq!(learner.packet(up), QuorumPacket::Snap { zxid: Zxid(9) });
}
