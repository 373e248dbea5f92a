//! Divides items among the members of a group.
//!
//! In: the items, the members, and the former assignment. Out: an [`Assignment`], and the [`Handover`] from one to
//! the next. Deliberately not here: how members learn of each other, and how an item passes from one to another
//! without having two owners at a time.
//!
//! There are two ways to divide. Each has the same result for all members that compute it, in whatever order the
//! items and members were listed:
//!
//! | | [`rebalance`] | [`rendezvous`] |
//! |---|---|---|
//! | shares | as equal as possible: they differ by at most one | equal on average |
//! | needs the former assignment | yes | no |
//! | a member of m leaves | its items move, no others | its items move, no others |
//! | a member joins | only its share moves | about its share moves |
//!
//! kazoo's `SetPartitioner` divides items by position, so that one additional member moves nearly all.

use std::collections::{BTreeMap, BTreeSet};

use crate::stable_hash::stable_hash;

/// The items of each member. Each item has at most one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    items_by_member: BTreeMap<String, BTreeSet<String>>,
}

/// The changes for one member between two assignments: first release, then, when the former owners have released too,
/// acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// Items that it no longer has.
    pub release: BTreeSet<String>,
    /// Items that it did not have before.
    pub acquire: BTreeSet<String>,
}

impl Assignment {
    /// Creates an assignment from one that was found, for example as the members published it. If two members claim
    /// an item, the first by name gets it.
    #[must_use]
    pub fn from_claims<M: Into<String>, I: Into<String>>(
        claims: impl IntoIterator<Item = (M, I)>,
    ) -> Self {
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (member, item) in claims {
            let (member, item) = (member.into(), item.into());
            let owner = owners.entry(item).or_insert_with(|| member.clone());
            if member < *owner {
                *owner = member;
            }
        }
        let mut found = Self::default();
        for (item, member) in owners {
            found.items_by_member.entry(member).or_default().insert(item);
        }
        found
    }

    /// Returns the items of a member, in order; none if the member is unknown.
    pub fn items_of(&self, member: &str) -> impl Iterator<Item = &str> {
        self.items_by_member.get(member).into_iter().flatten().map(String::as_str)
    }

    /// Returns the owner of an item.
    #[must_use]
    pub fn owner_of(&self, item: &str) -> Option<&str> {
        self.iter().find(|(_, items)| items.contains(item)).map(|(member, _)| member)
    }

    /// Returns the members in order, each with its items. A member without items is listed too.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.items_by_member.iter().map(|(member, items)| (member.as_str(), items))
    }

    /// Returns the changes for a member from this assignment to `next`.
    #[must_use]
    pub fn handover(&self, next: &Self, member: &str) -> Handover {
        let none = BTreeSet::new();
        let had = self.items_by_member.get(member).unwrap_or(&none);
        let has = next.items_by_member.get(member).unwrap_or(&none);
        Handover { release: had - has, acquire: has - had }
    }

    fn of_members(members: &BTreeSet<String>) -> Self {
        let items_by_member =
            members.iter().map(|member| (member.clone(), BTreeSet::new())).collect();
        Self { items_by_member }
    }

    fn give(&mut self, member: &str, item: String) {
        if let Some(items) = self.items_by_member.get_mut(member) {
            items.insert(item);
        }
    }
}

/// Divides the items so that the members' shares differ by at most one and as few items as possible move away from a
/// current owner. Without members no item has an owner.
///
/// ```
/// use herdsman_recipes::partition::{Assignment, rebalance};
///
/// let items = ["p0", "p1", "p2", "p3"];
/// let before = rebalance(items, ["a", "b"], &Assignment::default());
/// let after = rebalance(items, ["a", "b", "c"], &before);
///
/// assert_eq!(after.items_of("c").count(), 1);
/// let released: usize =
///     ["a", "b"].map(|member| before.handover(&after, member).release.len()).iter().sum();
/// assert_eq!(released, 1);
/// ```
#[must_use]
pub fn rebalance<I: Into<String>, M: Into<String>>(
    items: impl IntoIterator<Item = I>,
    members: impl IntoIterator<Item = M>,
    before: &Assignment,
) -> Assignment {
    let items = collect(items);
    let members = collect(members);
    let mut next = Assignment::of_members(&members);
    for (member, had) in before.iter() {
        for item in had.intersection(&items) {
            next.give(member, item.clone());
        }
    }
    let shares = plan_shares(&next, items.len());
    trim(&mut next, &shares);
    distribute(&mut next, &shares, items);
    next
}

/// Returns how many items each member gets. The larger shares go to those that hold most already: each of them that
/// holds more than the smaller share keeps one item more than it would otherwise.
fn plan_shares(held: &Assignment, items: usize) -> BTreeMap<String, usize> {
    let mut members: Vec<(&str, usize)> =
        held.iter().map(|(member, items)| (member, items.len())).collect();
    members.sort_by_key(|(member, held)| (std::cmp::Reverse(*held), *member));
    let count = members.len().max(1);
    let share = |rank| items / count + usize::from(rank < items % count);
    members
        .into_iter()
        .enumerate()
        .map(|(rank, (member, _))| (member.to_owned(), share(rank)))
        .collect()
}

/// Takes from each member the items beyond its share, the last ones first.
fn trim(assignment: &mut Assignment, shares: &BTreeMap<String, usize>) {
    for (member, items) in &mut assignment.items_by_member {
        while items.len() > shares[member] {
            items.pop_last();
        }
    }
}

/// Gives the items without an owner to members that have less than their share.
fn distribute(
    assignment: &mut Assignment,
    shares: &BTreeMap<String, usize>,
    items: BTreeSet<String>,
) {
    let owned: BTreeSet<&String> = assignment.items_by_member.values().flatten().collect();
    let free: Vec<String> = items.into_iter().filter(|item| !owned.contains(item)).collect();
    let mut free = free.into_iter();
    for (member, items) in &mut assignment.items_by_member {
        let missing = shares[member] - items.len();
        items.extend(free.by_ref().take(missing));
    }
}

/// Divides the items by rendezvous hashing (highest random weight): each item belongs to the
/// member whose hash together with the item is greatest.
///
/// ```
/// use herdsman_recipes::partition::rendezvous;
///
/// let items: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
/// let all = rendezvous(&items, ["a", "b", "c"]);
/// let without_b = rendezvous(&items, ["c", "a"]);
/// assert!(all.items_of("a").all(|item| without_b.owner_of(item) == Some("a")));
/// ```
#[must_use]
pub fn rendezvous<I: Into<String>, M: Into<String>>(
    items: impl IntoIterator<Item = I>,
    members: impl IntoIterator<Item = M>,
) -> Assignment {
    let members = collect(members);
    let mut assignment = Assignment::of_members(&members);
    for item in collect(items) {
        if let Some(owner) = rendezvous_owner(&item, members.iter().map(String::as_str)) {
            assignment.give(owner, item);
        }
    }
    assignment
}

/// Returns the member to which rendezvous hashing assigns one item; `None` if there are no members.
#[must_use]
pub fn rendezvous_owner<'m>(
    item: &str,
    members: impl IntoIterator<Item = &'m str>,
) -> Option<&'m str> {
    members
        .into_iter()
        .max_by_key(|member| (stable_hash(&[member.as_bytes(), item.as_bytes()]), *member))
}

fn collect<T: Into<String>>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests;
