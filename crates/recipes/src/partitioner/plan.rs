//! Decides what a member has to do. Nothing is read or written here.
//!
//! Invariant: a plan never acquires an item for which it sees an owner node, whoever created it. That would fail in
//! the tree anyway.

use std::collections::{BTreeMap, BTreeSet};

use herdsman_client::Zxid;

use crate::partition::{Assignment, rebalance};

/// The creator of an owner node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) member: String,
    /// That of the partitioner that created it.
    pub(super) nonce: String,
    pub(super) session: i64,
    pub(super) czxid: Zxid,
}

/// An item that this member owns in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) czxid: Zxid,
    /// Differs each time that the user learns of the item.
    pub(super) generation: u64,
    /// The user was asked to release it.
    pub(super) is_leaving: bool,
}

/// All that a member knows.
#[derive(Debug)]
pub(super) struct Situation<'s> {
    pub(super) member: &'s str,
    pub(super) nonce: &'s str,
    pub(super) session: i64,
    pub(super) items: &'s BTreeSet<String>,
    /// The members' sessions.
    pub(super) members: &'s BTreeMap<String, i64>,
    pub(super) owners: &'s BTreeMap<String, Owner>,
    pub(super) held: &'s BTreeMap<String, Held>,
    /// Owner nodes that this member is deleting, which may still be seen.
    pub(super) deleting: &'s BTreeMap<String, Zxid>,
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Items that this member believes to own, but whose owner node is not seen: to be read.
    pub(super) doubtful: BTreeSet<String>,
    /// Items of this member that are to be released.
    pub(super) release: BTreeSet<String>,
    /// Free items that are to be acquired.
    pub(super) acquire: BTreeSet<String>,
    /// Items with an unknown owner node of this member's session: the reply to its creation was lost, or the session
    /// was believed dead. They belong to its share.
    pub(super) adopt: BTreeMap<String, Zxid>,
    /// The same, but beyond its share.
    pub(super) discard: BTreeMap<String, Zxid>,
}

impl Situation<'_> {
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan { doubtful: self.doubtful(), ..Plan::default() };
        if self.members.get(self.member) != Some(&self.session) {
            // Not a member in this session yet: the other members do not plan with this one.
            return plan;
        }
        let target = rebalance(self.items.iter(), self.members.keys(), &self.present_owners());
        let due: BTreeSet<&str> = target.items_of(self.member).collect();
        let leaves = |(item, held): &(&String, &Held)| !held.is_leaving && !due.contains(&***item);
        plan.release = self.held.iter().filter(leaves).map(|(item, _)| item.clone()).collect();
        for item in self.items.iter().filter(|item| !self.held.contains_key(*item)) {
            match self.owners.get(item) {
                None if due.contains(&**item) => drop(plan.acquire.insert(item.clone())),
                Some(owner) if self.is_unknown_of_ours(item, owner) => {
                    let list =
                        if due.contains(&**item) { &mut plan.adopt } else { &mut plan.discard };
                    list.insert(item.clone(), owner.czxid);
                }
                _ => {}
            }
        }
        plan
    }

    /// Returns the current owners, as far as they count: an owner node whose session is not its member's current one
    /// will be deleted by the server, and its item is planned for as if it were free.
    fn present_owners(&self) -> Assignment {
        let is_present = |owner: &Owner| self.members.get(&owner.member) == Some(&owner.session);
        let seen = self.owners.iter().filter(|(_, owner)| is_present(owner));
        let seen = seen.map(|(item, owner)| (owner.member.as_str(), item.as_str()));
        let unseen = self.held.keys().filter(|item| !self.owners.contains_key(*item));
        let unseen = unseen.map(|item| (self.member, item.as_str()));
        Assignment::from_claims(seen.chain(unseen))
    }

    fn doubtful(&self) -> BTreeSet<String> {
        let is_seen = |item: &String, held: &Held| {
            self.owners.get(item).is_some_and(|owner| owner.czxid == held.czxid)
        };
        let doubtful = self.held.iter().filter(|(item, held)| !is_seen(item, held));
        doubtful.map(|(item, _)| item.clone()).collect()
    }

    /// Returns whether this is an unknown owner node of this partitioner. Several partitioners of one program may
    /// share a session, and even an id.
    fn is_unknown_of_ours(&self, item: &str, owner: &Owner) -> bool {
        let is_ours = owner.session == self.session && owner.nonce == self.nonce;
        is_ours && self.deleting.get(item) != Some(&owner.czxid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The knowledge of member `a` with session 1.
    #[derive(Default)]
    struct Knowledge {
        items: BTreeSet<String>,
        members: BTreeMap<String, i64>,
        owners: BTreeMap<String, Owner>,
        held: BTreeMap<String, Held>,
        deleting: BTreeMap<String, Zxid>,
    }

    impl Knowledge {
        fn new(items: &str, members: &[(&str, i64)]) -> Self {
            Knowledge {
                items: items.split_whitespace().map(str::to_owned).collect(),
                members: members.iter().map(|(id, session)| ((*id).to_owned(), *session)).collect(),
                ..Knowledge::default()
            }
        }

        fn owned(self, item: &str, member: &str, session: i64) -> Self {
            self.owned_by(item, member, member, session)
        }

        fn owned_by(mut self, item: &str, member: &str, nonce: &str, session: i64) -> Self {
            let (member, nonce) = (member.to_owned(), nonce.to_owned());
            let owner = Owner { member, nonce, session, czxid: Zxid(6 + session) };
            self.owners.insert(item.to_owned(), owner);
            self
        }

        fn held(mut self, item: &str) -> Self {
            self.held
                .insert(item.to_owned(), Held { czxid: Zxid(7), generation: 0, is_leaving: false });
            self
        }

        fn plan(&self) -> Plan {
            let Knowledge { items, members, owners, held, deleting } = self;
            let (member, nonce, session) = ("a", "a", 1);
            Situation { member, nonce, session, items, members, owners, held, deleting }.plan()
        }
    }

    fn names(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn free_items_are_acquired_up_to_our_share() {
        assert_eq!(Knowledge::new("p q r", &[("a", 1)]).plan().acquire, names("p q r"));
        let plan = Knowledge::new("p q r s", &[("a", 1), ("b", 2)]).plan();
        assert_eq!(plan.acquire.len(), 2);
    }

    #[test]
    fn another_member_of_the_same_session_keeps_its_own() {
        let knowledge = Knowledge::new("p q", &[("a", 1), ("b", 1)]);
        let knowledge = knowledge.owned("p", "a", 1).held("p").owned("q", "b", 1);
        assert_eq!(knowledge.plan(), Plan::default());
    }

    #[test]
    fn another_partitioner_with_the_same_id_and_session_keeps_its_own() {
        let knowledge = Knowledge::new("p q", &[("a", 1)]).owned_by("p", "a", "other", 1);
        assert_eq!(knowledge.plan(), Plan { acquire: names("q"), ..Plan::default() });
    }

    #[test]
    fn what_is_too_much_is_released_and_nothing_else_done() {
        let knowledge = Knowledge::new("p q", &[("a", 1), ("b", 2)]);
        let knowledge = knowledge.owned("p", "a", 1).owned("q", "a", 1).held("p").held("q");
        assert_eq!(knowledge.plan(), Plan { release: names("q"), ..Plan::default() });
    }

    #[test]
    fn an_item_that_is_leaving_is_not_asked_for_twice() {
        let knowledge = Knowledge::new("p q", &[("a", 1), ("b", 2)]);
        let mut knowledge = knowledge.owned("p", "a", 1).owned("q", "a", 1).held("p").held("q");
        knowledge.held.insert("q".into(), Held { czxid: Zxid(7), generation: 0, is_leaving: true });
        assert_eq!(knowledge.plan(), Plan::default());
    }

    #[test]
    fn nothing_is_acquired_while_an_owner_node_is_there() {
        let knowledge = Knowledge::new("p q", &[("a", 1)]);
        // `b` is no longer a member; `a` itself had another session before.
        let knowledge = knowledge.owned("p", "b", 2).owned("q", "a", 99);
        assert_eq!(knowledge.plan(), Plan::default());
    }

    #[test]
    fn without_being_a_member_nothing_is_acquired() {
        assert_eq!(Knowledge::new("p", &[("a", 99), ("b", 2)]).plan(), Plan::default());
        assert_eq!(Knowledge::new("p", &[]).plan(), Plan::default());
    }

    #[test]
    fn nodes_of_our_session_that_we_do_not_know_are_adopted_or_discarded() {
        let knowledge =
            Knowledge::new("p q", &[("a", 1), ("b", 2)]).owned("p", "a", 1).owned("q", "a", 1);
        let plan = knowledge.plan();
        assert_eq!(plan.adopt, BTreeMap::from([("p".to_owned(), Zxid(7))]));
        assert_eq!(plan.discard, BTreeMap::from([("q".to_owned(), Zxid(7))]));
    }

    #[test]
    fn a_node_that_we_are_deleting_is_not_adopted() {
        let mut knowledge = Knowledge::new("p", &[("a", 1)]).owned("p", "a", 1);
        knowledge.deleting.insert("p".into(), Zxid(7));
        assert_eq!(knowledge.plan(), Plan::default());
        knowledge.deleting.insert("p".into(), Zxid(5));
        assert_eq!(knowledge.plan().adopt.len(), 1, "it is another node");
    }

    #[test]
    fn what_is_held_but_not_seen_is_doubtful() {
        let knowledge = Knowledge::new("p q", &[("a", 1)]).held("p").held("q").owned("q", "b", 2);
        let plan = knowledge.plan();
        assert_eq!((plan.doubtful, plan.acquire), (names("p q"), names("")));
    }

    #[test]
    fn foreign_owner_nodes_count_for_nothing() {
        let knowledge = Knowledge::new("p q", &[("a", 1), ("b", 2)]);
        let knowledge = knowledge.owned("x", "b", 2).owned("y", "b", 2).owned("z", "?", 0);
        assert_eq!(knowledge.plan().acquire.len(), 1);
    }
}
