//! The measured operations, by their names in the baseline.
//!
//! A setup creates everything in advance, enough for twice the iterations of its case, and returns the
//! operation. An operation checks its result, which costs a few instructions: otherwise a
//! case could measure how quickly a request is rejected, without anyone noticing.

use crate::{crowds, decode, encode, log, node, read, write};

/// A measured operation: runs once, with the number of the iteration, from 0.
pub type Operation = Box<dyn FnMut(usize)>;

/// An operation to measure.
pub struct Case {
    /// Its unique name, with which its line in the baseline begins.
    pub name: &'static str,
    /// N: the second run has this many more operations than the first.
    pub iterations: usize,
    /// A short description.
    pub about: &'static str,
    /// The setup of the operation.
    pub set_up: fn() -> Operation,
}

impl Case {
    /// The number of iterations that the setup supports.
    pub const fn iterations_max(&self) -> usize {
        2 * self.iterations
    }
}

const fn case(
    name: &'static str,
    iterations: usize,
    set_up: fn() -> Operation,
    about: &'static str,
) -> Case {
    Case { name, iterations, about, set_up }
}

/// All cases, in the order of a request's path through the server.
pub const CASES: &[Case] = &[
    case("decode-get-data", 1000, decode::get_data, "a getData request from its frame"),
    case("decode-set-data", 1000, decode::set_data, "a setData request from its frame"),
    case("read-get-data", 1000, read::get_data, "100 bytes of one of 100,000 znodes, encoded"),
    case("read-exists", 1000, read::exists, "the stat of a znode, encoded"),
    case("read-get-children", 100, read::get_children, "100 names, encoded"),
    case("read-and-watch", read::WATCHED, read::and_watch, "getData that leaves a new watch"),
    case(
        "read-refused",
        20,
        read::refused,
        "1,024 entries of an ACL and 64 ids of 1,000 bytes each",
    ),
    case("read-count", 100, crowds::count, "getAllChildrenNumber of 100,000 znodes"),
    case(
        "read-ephemerals",
        100,
        crowds::ephemerals,
        "getEphemerals of a session with 10,000, one of which has the prefix",
    ),
    case("prepare-set-data", 500, write::prepare_set_data, "a setData becomes a txn"),
    case("prepare-create", 500, write::prepare_create, "a create becomes a txn"),
    case("apply-set-data", 500, write::apply_set_data, "a txn replaces a znode's data"),
    case("apply-create", write::CHANGED, write::apply_create, "a txn creates a znode"),
    case("apply-delete", write::CHANGED, write::apply_delete, "a txn deletes a znode"),
    case("apply-quota", 20, crowds::quota, "the totals of 100,000 znodes are created and deleted"),
    case(
        "children-below-4k",
        10,
        crowds::children_below_4k,
        "a multi creates and deletes 100 children of a znode with 4 KiB of data",
    ),
    case("children-below-1m", 10, crowds::children_below_1m, "the same with 1 MiB"),
    case("watchers-1000", 4, crowds::watchers_1000, "1,000 watchers are added, notified, removed"),
    case("watchers-8000", 2, crowds::watchers_8000, "the same with 8,000"),
    case(
        "close-sessions-500",
        4,
        crowds::close_500,
        "500 sessions with an ephemeral each end while everything is in flight",
    ),
    case("close-sessions-4000", 2, crowds::close_4000, "the same with 4,000"),
    case(
        "list-watches-1000",
        10,
        crowds::list_watches_1000,
        "100 of the 1,000 persistent watches of a session",
    ),
    case("list-watches-20000", 10, crowds::list_watches_20000, "100 of 20,000"),
    case(
        "notify-deep-250",
        10,
        crowds::notify_deep_250,
        "a change at a depth of 250, with a recursive watch of the root",
    ),
    case("notify-deep-5000", 10, crowds::notify_deep_5000, "the same at a depth of 5,000"),
    case(
        "local-sessions-1000",
        10,
        crowds::local_sessions_1000,
        "a page of 10 local sessions beside 1,000 global ones",
    ),
    case("local-sessions-20000", 10, crowds::local_sessions_20000, "the same beside 20,000"),
    case("encode-txn", 1000, encode::txn, "a setData txn for the log"),
    case("decode-txn", 1000, decode::txn, "the same, read back when the log is replayed"),
    case("append-batch", 20, log::append_batch, "64 txns, appended and flushed to a memory disk"),
    case("node-set-data", 500, node::set_data, "a setData from its request to its reply"),
    case("node-fire-watch", node::FIRED, node::fire_watch, "the same, with 100 watchers to notify"),
    case("encode-proposal", 1000, encode::proposal, "a PROPOSAL for a learner"),
    case("decode-proposal", 1000, decode::proposal, "the same, as the learner reads it"),
    case("digest-znode", 1000, encode::digest, "a znode's share of the tree's digest"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Operations check themselves, so it is enough to run all of them, up to the last.
    #[test]
    fn every_case_does_what_it_says_as_often_as_it_may() {
        for case in CASES {
            let mut operation = (case.set_up)();
            for index in 0..case.iterations_max() {
                operation(index);
            }
        }
    }

    /// A cost that grows faster than the number of items shows in a larger crowd, even if the counts are accepted.
    #[test]
    fn an_item_of_a_large_crowd_costs_about_as_much_as_one_of_a_small_crowd() {
        let baseline = include_str!("../baseline.txt");
        let count = |name: &str| -> u64 {
            let line = baseline.lines().find_map(|line| line.strip_prefix(name)).expect("counted");
            line.trim().parse().expect("a number")
        };
        for (small, large) in
            [("watchers-1000", "watchers-8000"), ("close-sessions-500", "close-sessions-4000")]
        {
            let (small, large) = (count(small), count(large));
            assert!(large * 2 <= small * 8 * 3, "{large} for 8 times as many as {small}");
        }
        let (small, large) = (count("notify-deep-250"), count("notify-deep-5000"));
        assert!(large * 2 <= small * 20 * 3, "{large} for 20 times the depth of {small}");
        // What an operation need not touch may be of any size.
        for (small, large) in [
            ("children-below-4k", "children-below-1m"),
            ("list-watches-1000", "list-watches-20000"),
            ("local-sessions-1000", "local-sessions-20000"),
        ] {
            let (small, large) = (count(small), count(large));
            assert!(large <= small * 2, "{large} instead of {small}");
        }
    }

    /// `--list` is parsed word by word.
    #[test]
    fn names_are_single_words_and_unique() {
        let names: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        assert!(names.iter().all(|name| !name.is_empty() && !name.contains(char::is_whitespace)));
        assert!(CASES.iter().all(|case| case.iterations > 0));
    }
}
