//! What notifications say about the membership.

use std::collections::VecDeque;

use herdsman_proto::{LearnerKind, Notification, ServerId, ServerState, Vote, Zxid};
use herdsman_zab::election::{Election, ElectionSettings, NotificationOutcome};
use herdsman_zab::io::Output;

use crate::network::{Event, Network, membership};

const ME: ServerId = ServerId(1);

/// A server that looks under version 0x10, and what it told the others.
fn looking() -> (Network, Notification) {
    let mut network = Network::new(membership("1 2 3 v 10"));
    network.start(ME);
    let events = network.look(ME);
    let [Event::Tells(_, _, message)] = events.as_slice() else { panic!("{events:?}") };
    let message = message.clone();
    (network, message)
}

#[test]
fn a_notification_carries_the_membership_in_force() {
    let (mut network, message) = looking();
    assert_eq!(message.config, membership("1 2 3 v 10").to_text());
    let election = network.servers.get_mut(&ME).unwrap();
    let next = membership("1 2 3 4 v 12");
    election.set_membership(&membership("1 2 v 11"), Some(&next), LearnerKind::Follower);
    let events = network.look(ME);
    let [Event::Tells(_, to, message)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(message.config, membership("1 2 v 11").to_text());
    assert_eq!(*to, [ServerId(2), ServerId(3), ServerId(4)]);
}

#[test]
fn only_a_newer_membership_is_reported() {
    let (network, message) = looking();
    for (config, is_newer) in [
        (membership("1 2 v 11").to_text(), true),
        (membership("1 2 3 v 11").to_text(), true),
        (membership("1 2 3 v 10").to_text(), false),
        (membership("1 2 v 10").to_text(), false),
        (membership("1 2 v f").to_text(), false),
        (String::new(), false),
        ("version=11".to_owned(), false),
        ("server.1=nonsense\nversion=11".to_owned(), false),
    ] {
        let message = Notification { config: config.clone(), ..message.clone() };
        let newer = network.servers[&ME].newer_membership(&message);
        assert_eq!(newer.map(|newer| newer.to_text()), is_newer.then_some(config));
    }
}

#[test]
fn who_has_a_leader_takes_no_membership_from_notifications() {
    let (mut network, message) = looking();
    let mut newer = message;
    newer.config = membership("1 v 11").to_text();
    assert!(network.servers[&ME].newer_membership(&newer).is_some());
    newer.vote.leader = ServerId(3);
    for (from, state) in [(2, ServerState::Following), (3, ServerState::Leading)] {
        newer.state = state;
        network.hear(ME, ServerId(from), &newer);
    }
    assert_eq!(network.servers[&ME].state(), ServerState::Following);
    assert!(network.servers[&ME].newer_membership(&newer).is_none());
}

/// It may not vote, although the membership has it vote: the others would count its vote (compare
/// ZOOKEEPER-2959). So it votes for nobody, whatever it hears, and joins a leader that is there.
#[test]
fn who_may_not_vote_only_asks_who_leads() {
    let mut network = Network::new(membership("1 2 3"));
    let settings =
        ElectionSettings { me: ME, kind: LearnerKind::Observer, ..network.settings.clone() };
    network.servers.insert(ME, Election::new(settings, &network.membership));
    let events = network.look(ME);
    let [Event::Tells(_, _, message)] = events.as_slice() else { panic!("{events:?}") };
    let nobody = message.vote;
    assert!(!network.membership.voters().any(|voter| voter == nobody.leader));
    let mut message = message.clone();
    message.vote = network.own[&ServerId(3)];
    for from in [3, 2] {
        network.hear(ME, ServerId(from), &message);
        assert_eq!(network.servers[&ME].vote(), nobody);
        assert_eq!(network.servers[&ME].state(), ServerState::Looking);
    }
    for (from, state) in [(2, ServerState::Following), (3, ServerState::Leading)] {
        message.state = state;
        network.hear(ME, ServerId(from), &message);
    }
    assert_eq!(network.servers[&ME].state(), ServerState::Observing);
}

#[test]
fn before_the_first_search_nothing_is_heard() {
    let (mut network, message) = looking();
    network.start(ServerId(2));
    let election = network.servers.get_mut(&ServerId(2)).unwrap();
    let mut out = Vec::new();
    assert_eq!(
        election.handle_notification(0, ME, &message, &mut out),
        NotificationOutcome::Nothing
    );
    assert_eq!(election.handle_tick(1000, &mut out), None);
    assert_eq!((out, election.next_deadline()), (vec![], None));
}

/// A server that only the pending membership makes a voter, and a voter that does not know of it, have nothing to tell
/// each other while both look: they must not answer each other for ever.
#[test]
fn a_pending_voter_and_a_voter_fall_silent() {
    let (old, new) = (membership("1 2 3 v 10"), membership("1 2 3 4 v 12"));
    let mut network = Network::new(old.clone());
    let mut start = |id: i64, zxid: i64| {
        let settings = ElectionSettings { me: ServerId(id), ..network.settings.clone() };
        let mut election = Election::new(settings, &old);
        if id == 4 {
            election.set_membership(&old, Some(&new), LearnerKind::Follower);
        }
        let mut out = Vec::new();
        let own = Vote { leader: ServerId(id), zxid: Zxid(zxid), epoch: 0 };
        assert_eq!(election.look(0, own, &mut out), None);
        network.servers.insert(ServerId(id), election);
        out.into_iter().map(move |output| (ServerId(id), output))
    };
    let mut queue: VecDeque<_> = start(2, 0x11).chain(start(4, 0x12)).collect();
    let mut heard = 0;
    while let Some((from, output)) = queue.pop_front() {
        let Output::Notify { to, message } = output else { panic!("{output:?}") };
        let Some(election) = network.servers.get_mut(&to) else { continue };
        let mut out = Vec::new();
        assert_eq!(
            election.handle_notification(0, from, &message, &mut out),
            NotificationOutcome::Nothing
        );
        queue.extend(out.into_iter().map(|output| (to, output)));
        heard += 1;
        assert!(heard < 20, "they do not stop");
    }
}
