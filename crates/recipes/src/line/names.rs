//! The names of the nodes in a line, by layout.
//!
//! In: a node's name and the markers of a line. Out: its place, or nothing if the node does not belong
//! to the line. Pure.
//!
//! | layout | names | read as |
//! |---|---|---|
//! | Curator | `_c_<uuid>-<marker>N` | anything, then the marker, then the number |
//! | kazoo | `<uuid><marker>N` | the same |
//! | ZooKeeper's `WriteLock` | `x-<session>-N` | the marker, a session id, then the number |
//! | ZooKeeper's `LeaderElectionSupport` | `n_N` | the marker, then the number |
//!
//! `WriteLock` orders nodes by number, then by the text before it. So does this module: of two names with the same
//! number, the one whose beginning is smaller as text is smaller as a whole.

use super::Place;
use crate::sequence::split_name;

/// The prefix of the names of ZooKeeper's `WriteLock`.
pub(crate) const WRITE_LOCK: &str = "x-";

/// The prefix of the names of our readers beside such locks. A `WriteLock` waits for every child whose name ends with
/// a hyphen and a number, so it waits for these as well.
pub(crate) const READ_LOCK: &str = "read-";

/// The prefix of the names of ZooKeeper's `LeaderElectionSupport`.
pub(crate) const OFFER: &str = "n_";

/// Hexadecimal digits of a session id in the names of ZooKeeper's C lock.
const HEX_DIGITS: usize = 16;

/// Returns the place of a node with this name in a line whose nodes have one of these markers.
pub(crate) fn place_in(name: String, markers: &[&'static str]) -> Option<Place> {
    let fits = |marker: &&'static str| Some((sequence(&name, marker)?, *marker));
    let (sequence, marker) = markers.iter().find_map(fits)?;
    Some(Place { sequence, name, marker })
}

/// Returns the prefix of a new node's name, in a layout whose names cannot contain a unique id. `WriteLock` writes
/// the session id as a signed decimal number.
pub(super) fn prefix(marker: &str, session_id: i64) -> String {
    match marker {
        WRITE_LOCK | READ_LOCK => format!("{marker}{session_id}-"),
        _ => marker.to_owned(),
    }
}

fn sequence(name: &str, marker: &str) -> Option<i32> {
    let split = match marker {
        WRITE_LOCK | READ_LOCK => {
            let split = split_name(name, "-")?;
            split.prefix.strip_prefix(marker).filter(|session| is_session_id(session))?;
            split
        }
        OFFER => split_name(name, marker).filter(|split| split.prefix.is_empty())?,
        _ => split_name(name, marker)?,
    };
    Some(split.sequence)
}

/// Returns whether this is a session id as the Java lock or the C lock writes it.
fn is_session_id(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.parse::<i64>().is_ok() || (text.len() == HEX_DIGITS && text.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, marker: &'static str, expected: Option<i32>) {
        let place = place_in(name.to_owned(), &[marker]);
        assert_eq!(place.map(|place| place.sequence), expected, "{name} {marker}");
    }

    #[test]
    fn names_of_zookeepers_own_locks() {
        check("x-72057594037927936-0000000012", WRITE_LOCK, Some(12));
        check("x--9151314442816847872-0000000003", WRITE_LOCK, Some(3));
        check("x-72057594037927936--000000001", WRITE_LOCK, Some(-1));
        check("x-72057594037927936--2147483648", WRITE_LOCK, Some(i32::MIN));
        check("x-010000fa0bcd0000-0000000004", WRITE_LOCK, Some(4));
        check("read-72057594037927936-0000000005", READ_LOCK, Some(5));
        for foreign in [
            "x-0000000001",
            "x--0000000001",
            "x-ray-0000000001",
            "x-010000FA0BCD0000-0000000004",
            "x-99999999999999999999-0000000001",
            "x-1-1",
            "x-1-lock-0000000001",
            "read-1-0000000001",
            "_c_x-1-0000000001",
            "_c_5f1c-lock-0000000012",
        ] {
            check(foreign, WRITE_LOCK, None);
        }
    }

    #[test]
    fn names_of_offers() {
        check("n_0000000000", OFFER, Some(0));
        check("n_-2147483648", OFFER, Some(i32::MIN));
        for foreign in ["n_", "n_1", "an_0000000000", "n_0000000000x", "x-1-0000000001"] {
            check(foreign, OFFER, None);
        }
    }

    #[test]
    fn equal_numbers_are_ordered_by_the_text_before_them() {
        let sorted = [
            "x--5-0000000001",
            "x-1-0000000001",
            "x-12-0000000001",
            "x-2-0000000001",
            "x-1-0000000002",
        ];
        let mut places: Vec<_> = sorted
            .iter()
            .rev()
            .filter_map(|name| place_in((*name).to_owned(), &[WRITE_LOCK]))
            .collect();
        places.sort();
        assert_eq!(places.iter().map(|place| place.name.as_str()).collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn new_nodes_are_named_as_java_names_them() {
        assert_eq!(prefix(WRITE_LOCK, 0x0100_0000_0000_0000), "x-72057594037927936-");
        assert_eq!(prefix(WRITE_LOCK, -1), "x--1-");
        assert_eq!(prefix(READ_LOCK, 7), "read-7-");
        assert_eq!(prefix(OFFER, 7), "n_");
    }
}
