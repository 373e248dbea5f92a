//! Elections over a network that delivers, delays and loses at random, among servers that crash and
//! give up at random. Afterwards everything works, and they must come to an end.

use herdsman_proto::{ServerId, ServerState, Vote, Zxid};
use herdsman_zab::quorum::Electorate;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::network::{Event, Network, membership};

const MEMBERSHIPS: &[&str] = &[
    "1",
    "1 2",
    "1 2 3",
    "1 2 3 4o",
    "1 2 3 4 5",
    "1 2 3 4 5 6o 7o",
    "1 2 3 4 group 1:2:3 group 4 weight 4=0",
    "1 2 3 4 5 6 group 1:2:3 group 4:5:6",
    "1 2 3 4 5 6 7 8 9 group 1:2:3 group 4:5:6 group 7:8:9",
];

/// Far more than anybody needs once nothing is lost: several repetitions of a vote at the slowest.
const QUIET_MS: u64 = 20_000;
/// Far more than they have to say in the meantime.
const QUIET_MESSAGES: usize = 20_000;

#[derive(Clone, Debug)]
enum Op {
    /// The numbers choose among the servers or busy links there are.
    Deliver(usize),
    Lose(usize),
    Look(usize),
    Crash(usize),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => any::<usize>().prop_map(Op::Deliver),
        3 => any::<usize>().prop_map(Op::Lose),
        4 => any::<usize>().prop_map(Op::Look),
        1 => any::<usize>().prop_map(Op::Crash),
        3 => (0_u64..100).prop_map(Op::Wait),
    ]
}

struct World {
    network: Network,
    electorate: Electorate,
    /// The last epoch that a leader has established.
    epoch: u32,
}

impl World {
    fn new(members: &str, logs: &[(i64, i64)]) -> World {
        let membership = membership(members);
        let electorate = Electorate::of(&membership);
        let mut network = Network::new(membership);
        for ((id, vote), (zxid, epoch)) in network.own.iter_mut().zip(logs.iter().cycle()) {
            *vote = Vote { leader: *id, zxid: Zxid(*zxid), epoch: *epoch };
        }
        World { network, electorate, epoch: 10 }
    }

    fn ids(&self) -> Vec<ServerId> {
        self.network.own.keys().copied().collect()
    }

    fn apply(&mut self, op: &Op) {
        let busy = self.network.busy();
        let ids = self.ids();
        match op {
            Op::Deliver(_) | Op::Lose(_) if busy.is_empty() => {}
            Op::Deliver(index) => self.deliver(busy[index % busy.len()]),
            Op::Lose(index) => drop(self.network.lose(busy[index % busy.len()])),
            Op::Look(index) => self.look(ids[index % ids.len()]),
            Op::Crash(index) => self.network.crash(ids[index % ids.len()]),
            Op::Wait(ms) => self.pass(self.network.now_ms + ms),
        }
    }

    fn deliver(&mut self, link: (ServerId, ServerId)) {
        let events = self.network.deliver(link);
        self.check(&events);
    }

    fn look(&mut self, id: ServerId) {
        self.network.start(id);
        let events = self.network.look(id);
        self.check(&events);
    }

    fn pass(&mut self, until_ms: u64) {
        while let Some((at, id)) = self.network.next_deadline().filter(|(at, _)| *at <= until_ms) {
            self.network.now_ms = self.network.now_ms.max(at);
            let events = self.network.tick(id);
            self.check(&events);
        }
        self.network.now_ms = until_ms;
    }

    /// A leader is the best of a quorum, and may be elected. Who is deserted looks.
    fn check(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Tells(..) => {}
                Event::SupportLost(id) => self.look(*id),
                Event::Decides(id, decision) => {
                    let rank = |vote: Vote| (vote.epoch, vote.zxid, vote.leader);
                    let is_no_better = |id| rank(self.network.own[&id]) <= rank(decision.vote);
                    assert!(self.electorate.is_quorum(is_no_better), "{id} {decision:?}");
                    assert!(self.electorate.is_electable(decision.leader), "{id} {decision:?}");
                    assert_eq!(decision.leader, decision.vote.leader);
                }
            }
        }
    }

    /// Everybody is up, nothing is lost, and servers do what follows an election: they look again
    /// if their leader does not lead or has no quorum.
    fn come_to_rest(&mut self) {
        let down = self.ids().into_iter().filter(|id| !self.network.servers.contains_key(id));
        down.collect::<Vec<_>>().into_iter().for_each(|id| self.look(id));
        let (end_ms, mut messages) = (self.network.now_ms + QUIET_MS, 0);
        loop {
            while let Some(link) = self.network.busy().first().copied() {
                self.deliver(link);
                messages += 1;
                assert!(messages < QUIET_MESSAGES, "they talk without end");
            }
            if let Some((at, _)) = self.network.next_deadline() {
                assert!(at < end_ms, "no leader after {QUIET_MS} ms");
                self.pass(at);
            } else if !self.try_to_establish() {
                return;
            }
        }
    }

    /// What discovery does with a decision. Whether somebody has to look again.
    fn try_to_establish(&mut self) -> bool {
        let follows = |leader| {
            let servers = &self.network.servers;
            move |id: ServerId| servers.get(&id).is_some_and(|s| s.vote().leader == leader)
        };
        let is_led = |leader: ServerId| {
            self.network.servers[&leader].state() == ServerState::Leading
                && self.electorate.is_quorum(follows(leader))
        };
        let (led, lost): (Vec<_>, Vec<_>) =
            self.ids().into_iter().partition(|id| is_led(self.network.servers[id].vote().leader));
        self.epoch += 1;
        for id in led {
            self.network.servers.get_mut(&id).expect("it runs").took_epoch(self.epoch);
        }
        // Patience ends at different times.
        self.network.now_ms += 500;
        lost.first().copied().into_iter().for_each(|id| self.look(id));
        !lost.is_empty()
    }
}

proptest! {
    #[test]
    fn they_agree_on_one_of_the_best(
        members in prop::sample::select(MEMBERSHIPS),
        logs in vec((0_i64..3, 0_i64..3), 9),
        ops in vec(op(), 0..200),
    ) {
        let mut world = World::new(members, &logs);
        ops.iter().for_each(|op| world.apply(op));
        world.come_to_rest();

        let servers = &world.network.servers;
        let leaders = servers.iter().filter(|(_, server)| server.state() == ServerState::Leading);
        let leaders: Vec<_> = leaders.map(|(id, _)| *id).collect();
        prop_assert_eq!(leaders.len(), 1, "{:?}", leaders);
        prop_assert!(servers.values().all(|server| server.vote().leader == leaders[0]));
    }
}
