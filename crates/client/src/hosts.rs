//! Selects the server to try next.
//!
//! In: the servers of a connect string, a source of randomness, and the result of the last attempt.
//! Out: the next server, and whether to pause first. Nothing is connected, resolved or waited for
//! here; [`Backoff`](crate::backoff::Backoff) decides how long a pause is.
//!
//! Servers are tried in rounds. A round is a new shuffle in which each server appears once, and the
//! server of the last connection comes last, because it has just failed.
//!
//! Preferred servers come first in each round, in the order of preference; only servers of the same rank are shuffled.
//!
//! When the list of servers changes, each client decides at random whether to move, so that the
//! clients are spread evenly again (ZOOKEEPER-1355). Apache:
//! `StaticHostProvider.updateServerList`, whose probabilities are kept. Apache cycles through one list
//! that was shuffled once; with a shuffle for each round the clients of a dead server spread over all
//! remaining servers.

use std::sync::Arc;

use fastrand::Rng;

use crate::connect_string::{ConnectString, HostPort};

/// The servers and the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// Every server once, in the order of this round; never empty.
    round: Vec<HostPort>,
    /// How many servers of the round have been tried.
    tried: usize,
    /// The server that the client is connected to or is trying; always one of the round.
    current: Option<HostPort>,
    /// The preferred servers, the best first.
    preferred: Arc<[HostPort]>,
    rng: Rng,
}

/// The server to try, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextHost {
    /// Try this server at once.
    Now(HostPort),
    /// Every server has failed: pause before this one, with which a new round begins.
    AfterPause(HostPort),
}

/// Whether the current connection or attempt moves to another server because of a new list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum MoveDecision {
    /// Keep the connection or attempt, if there is one.
    Stay,
    /// Move, because its server is no longer in the list.
    MoveFromRemoved,
    /// Move, because there are new servers and this client was chosen at random.
    MoveForBalance,
}

impl Hosts {
    /// Creates the list. A server that is listed twice counts once.
    pub(crate) fn new(servers: &ConnectString, preferred: Arc<[HostPort]>, mut rng: Rng) -> Self {
        let round = shuffled(servers, &mut rng);
        let mut hosts = Self { round, tried: 0, current: None, preferred, rng };
        hosts.put_preferred_first();
        hosts
    }

    /// Returns the server to try next. The previous one has failed, or its connection was lost.
    pub(crate) fn next(&mut self) -> NextHost {
        let round_has_failed = self.tried == self.round.len();
        if round_has_failed {
            self.rng.shuffle(&mut self.round);
            self.put_preferred_first();
            self.tried = 0;
        }
        let host = self.round[self.tried].clone();
        self.tried += 1;
        self.current = Some(host.clone());
        if round_has_failed { NextHost::AfterPause(host) } else { NextHost::Now(host) }
    }

    /// Records that the last server has accepted the session. When the connection is lost a new round
    /// begins, in which this server comes last.
    pub(crate) fn succeeded(&mut self) {
        self.rng.shuffle(&mut self.round);
        self.begin_round();
    }

    /// Selects a server to try instead of the next one. If it fails a new round begins, in which it comes last.
    pub(crate) fn choose(&mut self, host: &HostPort) {
        self.current = Some(host.clone());
        self.begin_round();
    }

    /// Whether this is the current server.
    pub(crate) fn is_at(&self, host: &HostPort) -> bool {
        self.current.as_ref() == Some(host)
    }

    /// Returns the servers that are preferred to the current one, the best first.
    pub(crate) fn better(&self) -> Vec<HostPort> {
        let Some(current) = &self.current else {
            return Vec::new();
        };
        let rank = self.rank(current);
        let listed = self.preferred[..rank].iter().filter(|host| self.round.contains(host));
        listed.cloned().collect()
    }

    /// Replaces the list of servers, and decides whether the current connection or attempt is kept. If
    /// not, it counts as lost, and [`next`](Self::next) returns the server to move to.
    pub(crate) fn replace(&mut self, servers: &ConnectString) -> MoveDecision {
        let before = std::mem::replace(&mut self.round, shuffled(servers, &mut self.rng));
        let decision = self.decide(before.len());
        if decision != MoveDecision::Stay {
            self.current = None;
            self.order_for_move(&before);
        }
        self.begin_round();
        decision
    }

    /// Decides whether to move. Without a current server the order does not matter: a uniform choice keeps the load
    /// even. A client with preferred servers does not move for balance.
    fn decide(&mut self, count_before: usize) -> MoveDecision {
        let Some(current) = &self.current else {
            return MoveDecision::Stay;
        };
        if !self.round.contains(current) {
            return MoveDecision::MoveFromRemoved;
        }
        if !self.preferred.is_empty() {
            return MoveDecision::Stay;
        }
        // A server that stays should keep the fraction before/now of its clients, which is its share
        // of the larger number of servers. If there are not more servers than before, it keeps all
        // its clients, and gets some of those of the servers that left.
        let stay_probability = count_before as f64 / self.round.len() as f64;
        if self.rng.f64() < stay_probability {
            MoveDecision::Stay
        } else {
            MoveDecision::MoveForBalance
        }
    }

    /// Orders the round for a client that has to move: new servers, which have no clients yet, are
    /// mixed with the servers that stayed such that all get an even share.
    fn order_for_move(&mut self, before: &[HostPort]) {
        let (mut stayed, mut added): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.round).into_iter().partition(|host| before.contains(host));
        let probability = new_server_probability(before.len(), stayed.len(), added.len());
        while !(stayed.is_empty() && added.is_empty()) {
            let is_drawn = self.rng.f64() < probability;
            let is_new = stayed.is_empty() || (is_drawn && !added.is_empty());
            let next = if is_new { added.pop() } else { stayed.pop() };
            self.round.extend(next);
        }
    }

    /// Returns the number of servers that are better than this one.
    fn rank(&self, host: &HostPort) -> usize {
        let position = self.preferred.iter().position(|preferred| preferred == host);
        position.unwrap_or(self.preferred.len())
    }

    fn put_preferred_first(&mut self) {
        if !self.preferred.is_empty() {
            let mut round = std::mem::take(&mut self.round);
            round.sort_by_key(|host| self.rank(host));
            self.round = round;
        }
    }

    /// Begins a new round; the current server comes last.
    fn begin_round(&mut self) {
        self.tried = 0;
        self.put_preferred_first();
        let position = self.round.iter().position(|host| Some(host) == self.current.as_ref());
        if let (Some(current), Some(last)) = (position, self.round.len().checked_sub(1)) {
            self.round[current..=last].rotate_left(1);
        }
    }
}

/// Returns the probability with which a client that has to move goes to a new server.
///
/// With n servers before and m now, of which k stayed, let each server have had 1/n of the clients.
/// If m ≥ n, the servers that stayed have enough. Otherwise each of them lacks 1/m − 1/n, and the
/// clients that move are those of the n − k servers that left, (n − k)/n of all: so of those,
/// k(n − m) / m(n − k) go to a server that stayed.
fn new_server_probability(count_before: usize, stayed: usize, added: usize) -> f64 {
    let count_now = stayed + added;
    if count_now >= count_before {
        return 1.0;
    }
    let lacking = stayed * (count_before - count_now);
    // Not zero: no more servers stayed than there are now, and those are fewer than before.
    let moving = count_now * (count_before - stayed);
    1.0 - lacking as f64 / moving as f64
}

fn shuffled(servers: &ConnectString, rng: &mut Rng) -> Vec<HostPort> {
    let mut hosts = servers.hosts().to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    rng.shuffle(&mut hosts);
    hosts
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn servers(list: &str) -> ConnectString {
        list.parse().unwrap()
    }

    fn hosts(list: &str, seed: u64) -> Hosts {
        hosts_with(list, "", seed)
    }

    fn hosts_with(list: &str, preferred: &str, seed: u64) -> Hosts {
        let preferred = preferred.split(',').filter(|host| !host.is_empty());
        let preferred = preferred.map(|host| host.parse().unwrap()).collect();
        Hosts::new(&servers(list), preferred, Rng::with_seed(seed))
    }

    fn now(hosts: &mut Hosts) -> String {
        match hosts.next() {
            NextHost::Now(host) => host.host().to_owned(),
            pause @ NextHost::AfterPause(_) => panic!("{pause:?}"),
        }
    }

    fn after_pause(hosts: &mut Hosts) -> String {
        match hosts.next() {
            NextHost::AfterPause(host) => host.host().to_owned(),
            now @ NextHost::Now(_) => panic!("{now:?}"),
        }
    }

    fn connect(hosts: &mut Hosts) -> String {
        let host = now(hosts);
        hosts.succeeded();
        host
    }

    #[test]
    fn a_round_has_each_server_once_and_the_next_begins_with_a_pause() {
        for seed in 0..100 {
            let mut hosts = hosts("a,b,c,b,a:2181", seed);
            let first: BTreeSet<_> = (0..3).map(|_| now(&mut hosts)).collect();
            let mut second = BTreeSet::from([after_pause(&mut hosts)]);
            second.extend((0..2).map(|_| now(&mut hosts)));
            assert_eq!((first.len(), second.len()), (3, 3), "{first:?} {second:?}");
            after_pause(&mut hosts);
        }
    }

    #[test]
    fn a_lost_server_is_tried_last_and_without_a_pause() {
        for seed in 0..100 {
            let mut hosts = hosts("a,b,c,d", seed);
            now(&mut hosts);
            now(&mut hosts);
            let lost = connect(&mut hosts);
            let retried: Vec<_> = (0..4).map(|_| now(&mut hosts)).collect();
            assert_eq!(retried.last(), Some(&lost));
            assert_eq!(BTreeSet::from_iter(&retried).len(), 4);
            after_pause(&mut hosts);
        }
    }

    #[test]
    fn preferred_servers_come_first_in_each_round() {
        for seed in 0..100 {
            let mut hosts = hosts_with("a,b,c,d,e", "d,x,b", seed);
            assert_eq!([now(&mut hosts), now(&mut hosts)], ["d", "b"]);
            let others: BTreeSet<_> = (0..3).map(|_| now(&mut hosts)).collect();
            assert_eq!(others.len(), 3);
            assert_eq!([after_pause(&mut hosts), now(&mut hosts)], ["d", "b"]);
            // A preferred server that has just failed still comes last.
            hosts.succeeded();
            assert_eq!(now(&mut hosts), "d");
            let rest: Vec<_> = (0..4).map(|_| now(&mut hosts)).collect();
            assert_eq!(rest.last().unwrap(), "b");
        }
    }

    #[test]
    fn better_servers_depend_on_the_current_one() {
        let better = |hosts: &Hosts| {
            let better = hosts.better();
            better.iter().map(|host| host.host().to_owned()).collect::<Vec<_>>()
        };
        let mut hosts = hosts_with("a,b,c", "b,x,a", 1);
        assert_eq!(better(&hosts), [""; 0], "it is tried anyway");
        assert_eq!(connect(&mut hosts), "b");
        assert_eq!(better(&hosts), [""; 0]);
        assert_eq!(connect(&mut hosts), "a");
        assert_eq!(better(&hosts), ["b"]);
        assert_eq!(connect(&mut hosts), "b", "the better one first, although it was lost before");
        hosts.choose(&"b".parse().unwrap());
        assert_eq!([now(&mut hosts), now(&mut hosts)], ["a", "c"], "the chosen one comes last");
        hosts.succeeded();
        assert_eq!(better(&hosts), ["b", "a"]);
        assert_eq!(hosts.replace(&servers("a,b,c,x")), MoveDecision::Stay);
        assert_eq!(better(&hosts), ["b", "x", "a"]);
    }

    #[test]
    fn clients_with_preferences_do_not_move_for_balance() {
        for seed in 0..100 {
            let mut hosts = hosts_with("a,b", "a", seed);
            connect(&mut hosts);
            assert_eq!(hosts.replace(&servers("a,b,c,d,e,f,g,h")), MoveDecision::Stay);
            assert_eq!(hosts.replace(&servers("b,c")), MoveDecision::MoveFromRemoved);
        }
    }

    #[test]
    fn a_single_server_is_tried_again_at_once_and_then_with_pauses() {
        let mut hosts = hosts("a", 1);
        connect(&mut hosts);
        now(&mut hosts);
        after_pause(&mut hosts);
        after_pause(&mut hosts);
        hosts.succeeded();
        now(&mut hosts);
    }

    #[test]
    fn clients_of_a_dead_server_spread_over_all_others() {
        let mut targets = BTreeMap::new();
        for seed in 0..9_000 {
            let mut hosts = hosts("a,b,c,d", seed);
            if connect(&mut hosts) == "a" {
                *targets.entry(now(&mut hosts)).or_insert(0) += 1;
            }
        }
        assert_eq!(targets.len(), 3);
        assert!(targets.values().all(|count| (650..850).contains(count)), "{targets:?}");
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| {
            let mut hosts = hosts("a,b,c,d,e,f,g,h", seed);
            (0..30).map(|_| hosts.next()).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    /// Many clients, connected evenly, take each list in turn. After each the load is even, and no
    /// client moves without need: `moving` is the expected share of clients that move.
    fn check_balance(lists: &[&str], moving: &[f64]) {
        let clients = 12_000;
        let mut all: Vec<Hosts> = (0..clients).map(|seed| hosts(lists[0], seed)).collect();
        let mut places: Vec<String> = all.iter_mut().map(connect).collect();
        for (list, moving) in lists[1..].iter().zip(moving) {
            let mut moved = 0;
            for (hosts, place) in all.iter_mut().zip(&mut places) {
                let listed = list.split(',').any(|name| name == place.as_str());
                let decision = hosts.replace(&servers(list));
                assert_eq!(decision == MoveDecision::MoveFromRemoved, !listed, "{place} in {list}");
                if decision != MoveDecision::Stay {
                    moved += 1;
                    *place = connect(hosts);
                }
            }
            let share = f64::from(moved) / clients as f64;
            assert!((share - moving).abs() < 0.02, "{lists:?} at {list}: {share} moved");
            let names: Vec<&str> = list.split(',').collect();
            let even = clients as f64 / names.len() as f64;
            for name in names {
                let load = places.iter().filter(|place| *place == name).count() as f64;
                assert!((load / even - 1.0).abs() < 0.08, "{lists:?} at {list}: {name} has {load}");
            }
        }
    }

    #[test]
    fn a_new_list_leaves_an_even_load() {
        check_balance(&["a,b,c", "a,b,c"], &[0.0]);
        check_balance(&["a,b,c", "a,b,c,d,e"], &[0.4]);
        check_balance(&["a,b,c,d,e", "a,b,c"], &[0.4]);
        check_balance(&["a,b,c", "d,e,f"], &[1.0]);
        check_balance(&["a,b,c", "a,b,d"], &[1.0 / 3.0]);
        check_balance(&["a,b,c,d", "a,e,f"], &[0.75]);
        check_balance(&["a,b", "b,c,d,e"], &[0.75]);
        check_balance(&["a,b,c", "a"], &[2.0 / 3.0]);
        check_balance(&["a", "a,b", "a,b,c", "b,c,d,e", "e,f"], &[0.5, 1.0 / 3.0, 0.5, 0.75]);
    }

    #[test]
    fn a_client_that_moves_for_balance_tries_a_new_server_first() {
        let mut movers = 0;
        for seed in 0..100 {
            let mut hosts = hosts("a,b", seed);
            connect(&mut hosts);
            if hosts.replace(&servers("a,b,c,d")) == MoveDecision::MoveForBalance {
                movers += 1;
                let mut round: Vec<_> = (0..4).map(|_| now(&mut hosts)).collect();
                round[..2].sort_unstable();
                round[2..].sort_unstable();
                assert_eq!(round, ["c", "d", "a", "b"]);
                after_pause(&mut hosts);
            }
        }
        assert!(movers > 0);
    }

    #[test]
    fn after_a_move_new_servers_are_no_longer_preferred() {
        let mut targets = BTreeMap::new();
        for seed in 0..9_000 {
            let mut hosts = hosts("a,b", seed);
            connect(&mut hosts);
            if hosts.replace(&servers("a,b,c,d")) == MoveDecision::MoveForBalance {
                connect(&mut hosts);
                *targets.entry(now(&mut hosts)).or_insert(0) += 1;
            }
        }
        // Half have moved, to c or d. Each then has one new server and two others left to try.
        assert!((1350..1650).contains(&targets["a"]), "{targets:?}");
        assert!((650..850).contains(&targets["c"]), "{targets:?}");
    }

    #[test]
    fn a_connection_moves_only_once() {
        let mut hosts = hosts("a", 1);
        connect(&mut hosts);
        assert_eq!(hosts.replace(&servers("b")), MoveDecision::MoveFromRemoved);
        assert_eq!(hosts.replace(&servers("c")), MoveDecision::Stay);
        assert_eq!(now(&mut hosts), "c");
    }

    #[test]
    fn a_client_without_a_server_takes_the_new_list_as_it_is() {
        let mut hosts = hosts("a,b", 5);
        assert_eq!(hosts.replace(&servers("c,d,e")), MoveDecision::Stay);
        let round: BTreeSet<_> = (0..3).map(|_| now(&mut hosts)).collect();
        assert_eq!(round, ["c", "d", "e"].map(str::to_owned).into());
        after_pause(&mut hosts);
    }

    #[test]
    fn an_attempt_is_treated_like_a_connection() {
        let mut hosts = hosts("a", 1);
        now(&mut hosts);
        assert_eq!(hosts.replace(&servers("b,c")), MoveDecision::MoveFromRemoved);
        let trying = now(&mut hosts);
        assert_eq!(hosts.replace(&servers("c,b")), MoveDecision::Stay);
        hosts.succeeded();
        assert_ne!(now(&mut hosts), trying);
        assert_eq!(now(&mut hosts), trying);
    }
}
