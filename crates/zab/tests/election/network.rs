//! Servers that hold an election, and a network between them that does what it is told: a queue for
//! each direction between two servers, links that are cut, servers that are down, and a clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use herdsman_proto::membership::Role;
use herdsman_proto::{LearnerKind, Membership, Notification, ServerId, Vote, Zxid};
use herdsman_zab::election::{Decision, Election, ElectionSettings, NotificationOutcome};
use herdsman_zab::io::Output;

/// From whom to whom.
pub type Link = (ServerId, ServerId);

/// Something a server did that a test wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It sent the same to all of these.
    Tells(ServerId, Vec<ServerId>, Notification),
    Decides(ServerId, Decision),
    SupportLost(ServerId),
}

pub struct Network {
    pub now_ms: u64,
    pub membership: Membership,
    /// Of `me` and `kind` any value: every server has its own.
    pub settings: ElectionSettings,
    pub servers: BTreeMap<ServerId, Election>,
    /// The vote of each server for itself, also while it is down.
    pub own: BTreeMap<ServerId, Vote>,
    pub links: BTreeMap<Link, VecDeque<Notification>>,
    pub cut: BTreeSet<Link>,
}

impl Network {
    pub fn new(membership: Membership) -> Network {
        let ids = membership.members.keys();
        let own = ids.map(|id| (*id, Vote { leader: *id, zxid: Zxid::ZERO, epoch: 0 })).collect();
        let settings = ElectionSettings {
            me: ServerId(0),
            kind: LearnerKind::Follower,
            finalize_wait_ms: 40,
            notification_min_ms: 200,
            notification_max_ms: 1000,
        };
        Network {
            now_ms: 0,
            membership,
            settings,
            servers: BTreeMap::new(),
            own,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }

    /// Starts a server if it is down.
    pub fn start(&mut self, id: ServerId) {
        let kind = kind_in(&self.membership, id);
        let settings = ElectionSettings { me: id, kind, ..self.settings.clone() };
        let server = self.servers.entry(id);
        server.or_insert_with(|| Election::new(settings, &self.membership));
    }

    pub fn look(&mut self, id: ServerId) -> Vec<Event> {
        let server = self.servers.get_mut(&id).expect("a running server");
        let mut out = Vec::new();
        let decision = server.look(self.now_ms, self.own[&id], &mut out);
        self.carry_out(id, decision.into(), out)
    }

    /// Its process ends, and what it had on the way is lost.
    pub fn crash(&mut self, id: ServerId) {
        self.servers.remove(&id);
        self.links.retain(|(from, to), _| *from != id && *to != id);
    }

    /// Takes a server's word without a network.
    pub fn hear(&mut self, to: ServerId, from: ServerId, message: &Notification) -> Vec<Event> {
        let server = self.servers.get_mut(&to).expect("a running server");
        let mut out = Vec::new();
        let heard = server.handle_notification(self.now_ms, from, message, &mut out);
        self.carry_out(to, heard, out)
    }

    /// Delivers the oldest message of a link.
    pub fn deliver(&mut self, (from, to): Link) -> Vec<Event> {
        match self.lose((from, to)) {
            Some(message) if self.servers.contains_key(&to) => self.hear(to, from, &message),
            _ => Vec::new(),
        }
    }

    /// Takes the oldest message off a link.
    pub fn lose(&mut self, link: Link) -> Option<Notification> {
        self.links.get_mut(&link).and_then(VecDeque::pop_front)
    }

    /// The links on which something waits.
    pub fn busy(&self) -> Vec<Link> {
        let busy = self.links.iter().filter(|(_, queue)| !queue.is_empty());
        busy.map(|(link, _)| *link).collect()
    }

    /// The next server for which something is due, and when.
    pub fn next_deadline(&self) -> Option<(u64, ServerId)> {
        let deadlines = self.servers.iter();
        deadlines.filter_map(|(id, server)| Some((server.next_deadline()?, *id))).min()
    }

    pub fn tick(&mut self, id: ServerId) -> Vec<Event> {
        let server = self.servers.get_mut(&id).expect("a running server");
        let mut out = Vec::new();
        let decision = server.handle_tick(self.now_ms, &mut out);
        self.carry_out(id, decision.into(), out)
    }

    fn carry_out(
        &mut self,
        id: ServerId,
        outcome: NotificationOutcome,
        out: Vec<Output>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for output in out {
            let Output::Notify { to, message } = output else {
                panic!("{output:?} is no part of an election");
            };
            if self.servers.contains_key(&to) && !self.cut.contains(&(id, to)) {
                self.links.entry((id, to)).or_default().push_back(message.clone());
            }
            match events.last_mut() {
                Some(Event::Tells(_, all, last)) if *last == message => all.push(to),
                _ => events.push(Event::Tells(id, vec![to], message)),
            }
        }
        match outcome {
            NotificationOutcome::Nothing => {}
            NotificationOutcome::Decided(decision) => events.push(Event::Decides(id, decision)),
            NotificationOutcome::SupportLost => events.push(Event::SupportLost(id)),
        }
        events
    }
}

/// The membership of words such as `1 2 3 4o group 1:2 weight 1=3 v 20`: servers, `o` for
/// observers, groups, weights, and a version.
pub fn membership(words: &str) -> Membership {
    let mut text = String::new();
    let mut groups = 0;
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        let line = match word {
            "group" => {
                groups += 1;
                format!("group.{groups}={}", words.next().expect("members"))
            }
            "weight" => format!("weight.{}", words.next().expect("a weight")),
            "v" => format!("version={}", words.next().expect("a version")),
            server => match server.strip_suffix('o') {
                Some(id) => format!("server.{id}=h{id}:1:2:observer"),
                None => format!("server.{server}=h{server}:1:2"),
            },
        };
        text.push_str(&line);
        text.push('\n');
    }
    Membership::parse_text(&text).expect("a membership")
}

/// As what a server takes part.
pub fn kind_in(membership: &Membership, id: ServerId) -> LearnerKind {
    match membership.members.get(&id).map(|member| member.role) {
        Some(Role::Observer) => LearnerKind::Observer,
        _ => LearnerKind::Follower,
    }
}
