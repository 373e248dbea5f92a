//! The names of items in Curator's queues, and the order that they give.
//!
//! In: the names of a queue's children. Out: those that are items, in the order in which they are to
//! be consumed, and when each is due. Pure.
//!
//! | queue | name (`N` is the server's number) | order |
//! |---|---|---|
//! | work | `queue-N` | text |
//! | id | `queue-\|<id>\|N` | text without the id |
//! | priority | `queue-`, `0` if negative else `1`, `%08X`, `N` | text |
//! | delay | `queue-\|<%08X of epoch ms>\|N` | number, then text |
//!
//! Names that do not begin with `queue-` are foreign and left out. All others are items, as they are
//! to Curator, which puts items back under a bare `queue-N` whatever the queue.

use crate::error::{Error, Result};
use crate::sequence::split_name;

/// What the names of all items begin with.
pub(super) const ITEM: &str = "queue-";
/// Around an id, or the time when an item is due.
const MARK: char = '|';
/// Room for the name is limited by nothing but good sense.
const ID_BYTES_MAX: usize = 512;

/// Which item comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Text order of the whole name: arrival, and priority before it.
    Name,
    /// Arrival, whatever the id.
    Arrival,
    /// When it is due.
    Due,
}

/// An item that could be consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    /// Not before this, in milliseconds since 1970.
    pub(super) due_ms: i64,
}

impl Order {
    /// The items among the children, the first to be consumed first.
    pub(super) fn candidates(self, names: Vec<String>) -> Vec<Candidate> {
        let mut items: Vec<_> = names.into_iter().filter(|name| name.starts_with(ITEM)).collect();
        match self {
            Order::Name => items.sort_unstable(),
            Order::Arrival => items.sort_by_cached_key(|name| without_id(name)),
            Order::Due => items.sort_by_cached_key(|name| (due_ms(name), name.clone())),
        }
        let due = |name: &str| if self == Order::Due { due_ms(name) } else { 0 };
        items.into_iter().map(|name| Candidate { due_ms: due(&name), name }).collect()
    }
}

/// What the name of an item with this priority begins with; the smallest goes first.
pub(super) fn with_priority(priority: i32) -> String {
    format!("{ITEM}{}{priority:08X}", u8::from(priority >= 0))
}

/// What the name of an item with this id begins with.
pub(super) fn with_id(id: &str) -> Result<String> {
    Ok(format!("{ITEM}{MARK}{}{MARK}", stored_id(id)?))
}

/// What the name of an item that is due at this time begins with.
pub(super) fn with_due_time(due_ms: i64) -> String {
    format!("{ITEM}{MARK}{due_ms:08X}{MARK}")
}

/// An id as it stands in names: Curator's replacements for what a name cannot hold.
pub(super) fn stored_id(id: &str) -> Result<String> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        let text = format!("an id has 1 to {ID_BYTES_MAX} bytes, this one {}", id.len());
        return Err(Error::InvalidArgument(text));
    }
    Ok(id.replace(['/', MARK], "_"))
}

/// The id in a name: between the first two marks.
pub(super) fn id_of(name: &str) -> Option<&str> {
    let mut parts = name.splitn(3, MARK).skip(1);
    let id = parts.next()?;
    parts.next().map(|_| id)
}

/// The name without the server's number, to give an item a new place and keep all else.
pub(super) fn without_number(name: &str) -> &str {
    split_name(name, "").map_or(ITEM, |split| split.prefix)
}

fn without_id(name: &str) -> String {
    let mut parts = name.splitn(3, MARK);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(_), Some(after)) => format!("{before}{after}"),
        _ => name.to_owned(),
    }
}

/// Between the last two marks; what cannot be read is due at once.
fn due_ms(name: &str) -> i64 {
    let mut parts = name.rsplitn(3, MARK).skip(1);
    let (epoch, before) = (parts.next(), parts.next());
    let hex = epoch.filter(|_| before.is_some()).unwrap_or_default();
    i64::from_str_radix(hex, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: Order, names: &[&str], expected: &[&str]) {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let sorted: Vec<_> =
            order.candidates(names).into_iter().map(|candidate| candidate.name).collect();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn items_are_named_as_curator_names_them() {
        assert_eq!(with_priority(5), "queue-100000005");
        assert_eq!(with_priority(-1), "queue-0FFFFFFFF");
        assert_eq!(with_priority(0), "queue-100000000");
        assert_eq!(with_due_time(1_700_000_000_000), "queue-|18BCFE56800|");
        assert_eq!(with_due_time(1), "queue-|00000001|");
        assert_eq!(with_id("a/b|c").unwrap(), "queue-|a_b_c|");
        assert!(with_id("").is_err());
        assert!(with_id(&"x".repeat(ID_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn each_queue_has_its_order() {
        check(
            Order::Name,
            &[
                "queue-1000000050000000001",
                "README",
                "queue-0FFFFFFFF0000000002",
                "queue-0000000009",
            ],
            &["queue-0000000009", "queue-0FFFFFFFF0000000002", "queue-1000000050000000001"],
        );
        check(
            Order::Arrival,
            &["queue-|a|0000000002", "queue-|z|0000000001", "queue-0000000003"],
            &["queue-|z|0000000001", "queue-|a|0000000002", "queue-0000000003"],
        );
        check(
            Order::Due,
            &["queue-|18BCFE56800|0000000001", "queue-|FFFFFFFF|0000000002", "queue-0000000003"],
            &["queue-0000000003", "queue-|FFFFFFFF|0000000002", "queue-|18BCFE56800|0000000001"],
        );
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(id_of("queue-|a|0000000001"), Some("a"));
        assert_eq!(id_of("queue-0000000001"), None);
        assert_eq!(id_of("queue-|a"), None);
        assert_eq!(due_ms("queue-|18BCFE56800|0000000001"), 1_700_000_000_000);
        for unreadable in ["queue-0000000001", "queue-|x|0000000001", "queue-|12", "queue-||1"] {
            assert_eq!(due_ms(unreadable), 0, "{unreadable}");
        }
        assert_eq!(without_number("queue-1000000050000000001"), "queue-100000005");
        assert_eq!(without_number("queue-|a|-2147483648"), "queue-|a|");
        assert_eq!(without_number("queue-strange"), "queue-");
    }
}
