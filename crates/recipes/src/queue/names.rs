//! The names of items in Curator's queues and in ZooKeeper's own, and the order that follows from them.
//!
//! In: the names of a queue's children. Out: the names of items, in the order in which they are to be consumed, and
//! when each is due. Pure.
//!
//! | queue | name (`N` is the server's number) | order |
//! |---|---|---|
//! | work | `queue-N` | text |
//! | id | `queue-\|<id>\|N` | text without the id |
//! | priority | `queue-`, `0` if negative else `1`, `%08X`, `N` | text |
//! | delay | `queue-\|<%08X of epoch ms>\|N` | number, then text |
//! | plain | `qn-N` | by [`QueueLayout`] |
//!
//! Names that do not begin with `queue-` (in a plain queue: `qn-`) are not items and are left out. All others are
//! items, as they are to Curator, which puts items back under a bare `queue-N` in every kind of queue.

use herdsman_client::Lifetime;

use crate::error::{Error, Result};
use crate::sequence::split_name;

/// The prefix of the names of all items.
pub(super) const ITEM: &str = "queue-";
/// The separator around an id, or around the time when an item is due.
const MARK: char = '|';
/// An arbitrary limit: longer ids make no sense in a name.
const ID_BYTES_MAX: usize = 512;

/// The order of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Text order of the whole name: arrival, and priority before it.
    Name,
    /// Arrival, whatever the id.
    Arrival,
    /// The time when it is due.
    Due,
}

/// The layout of a plain queue. The two differ little, and either reads a queue with items of both correctly as long
/// as its numbers have not overflowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueLayout {
    /// That of Curator's `SimpleDistributedQueue`: the queue's own node is a container, all names that begin with
    /// `qn-` are items, and they are ordered as text.
    #[default]
    Curator,
    /// That of ZooKeeper's own `DistributedQueue` (`zookeeper-recipes-queue`): the queue's own node is persistent,
    /// because a Java consumer fails if another one creates it at the same moment; only names with a number after
    /// `qn-` are items, and they are ordered by their numbers, even after these have overflowed and become negative.
    Apache,
}

impl QueueLayout {
    /// Returns the lifetime of the queue's own node.
    pub(super) fn lifetime(self) -> Lifetime {
        match self {
            QueueLayout::Curator => Lifetime::Container,
            QueueLayout::Apache => Lifetime::Persistent,
        }
    }

    /// Returns the items among the children, in the order in which they are consumed. Other children are left out.
    pub(super) fn in_order(self, mut names: Vec<String>) -> Vec<String> {
        match self {
            QueueLayout::Curator => {
                names.retain(|name| name.starts_with(super::simple::ITEM));
                names.sort_unstable();
                names
            }
            QueueLayout::Apache => {
                let number = |name: &str| -> Option<i64> {
                    name.strip_prefix(super::simple::ITEM)?.parse().ok()
                };
                let items = names.into_iter().filter_map(|name| Some((number(&name)?, name)));
                let mut items: Vec<_> = items.collect();
                items.sort_unstable();
                items.into_iter().map(|(_, name)| name).collect()
            }
        }
    }
}

/// The kind of queue, as recognized from the name of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemKind {
    /// `qn-N`: a plain queue.
    Simple,
    /// `queue-N`: a work queue, or an item of another queue that Curator has put back.
    Work,
    /// It has a priority.
    Priority,
    /// It is due at a certain time. An id that looks like such a time is taken for one.
    Delay {
        /// The time, in milliseconds since 1970.
        due_ms: i64,
    },
    /// It has an id.
    Id,
}

/// Returns the kind of queue to which an item with this name belongs; `None` if it is not the name of an item.
///
/// ```
/// use herdsman_recipes::queue::{ItemKind, item_kind};
///
/// assert_eq!(item_kind("qn-0000000001"), Some(ItemKind::Simple));
/// assert_eq!(item_kind("queue-1000000050000000001"), Some(ItemKind::Priority));
/// assert_eq!(item_kind("README"), None);
/// ```
#[must_use]
pub fn item_kind(name: &str) -> Option<ItemKind> {
    if split_name(name, super::simple::ITEM).is_some_and(|split| split.prefix.is_empty()) {
        return Some(ItemKind::Simple);
    }
    let detail = split_name(name, "")?.prefix.strip_prefix(ITEM)?;
    if let Some(marked) = detail.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(MARK)) {
        let due_ms = is_due_time(marked).then(|| due_ms(name));
        return Some(due_ms.map_or(ItemKind::Id, |due_ms| ItemKind::Delay { due_ms }));
    }
    let is_priority = detail.len() == 9
        && detail.starts_with(['0', '1'])
        && detail[1..].bytes().all(is_upper_hex);
    match detail {
        "" => Some(ItemKind::Work),
        _ if is_priority => Some(ItemKind::Priority),
        _ => None,
    }
}

/// Returns whether this is a time as Java's `%08X` prints it. Twelve digits are enough for thousands of years.
fn is_due_time(text: &str) -> bool {
    (8..=12).contains(&text.len()) && text.bytes().all(is_upper_hex)
}

fn is_upper_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

/// An item that may be consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    /// The time before which it is not due, in milliseconds since 1970.
    pub(super) due_ms: i64,
}

impl Order {
    /// Returns the items among the children, in the order in which they are consumed.
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

/// Returns the prefix of the name of an item with this priority; the smallest priority goes first.
pub(super) fn with_priority(priority: i32) -> String {
    format!("{ITEM}{}{priority:08X}", u8::from(priority >= 0))
}

/// Returns the prefix of the name of an item with this id.
pub(super) fn with_id(id: &str) -> Result<String> {
    Ok(format!("{ITEM}{MARK}{}{MARK}", stored_id(id)?))
}

/// Returns the prefix of the name of an item that is due at this time.
pub(super) fn with_due_time(due_ms: i64) -> String {
    format!("{ITEM}{MARK}{due_ms:08X}{MARK}")
}

/// Returns an id as it is stored in names, with Curator's replacements for characters that a name cannot contain.
pub(super) fn stored_id(id: &str) -> Result<String> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        let text = format!("an id must have 1 to {ID_BYTES_MAX} bytes, this one has {}", id.len());
        return Err(Error::InvalidArgument(text));
    }
    Ok(id.replace(['/', MARK], "_"))
}

/// Returns the id in a name: the text between the first two separators.
pub(super) fn id_of(name: &str) -> Option<&str> {
    let mut parts = name.splitn(3, MARK).skip(1);
    let id = parts.next()?;
    parts.next().map(|_| id)
}

/// Returns the name without the server's number, to move an item and keep all else.
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

/// Returns the time between the last two separators; 0, that is due at once, if it cannot be decoded.
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
    fn a_plain_queue_is_in_the_order_of_its_layout() {
        let names = ["qn-0000000010", "README", "qn-", "qn-x", "qn--2147483648", "qn-0000000009"];
        let in_order = |layout: QueueLayout| {
            layout.in_order(names.iter().map(|&name| name.to_owned()).collect())
        };
        assert_eq!(
            in_order(QueueLayout::Apache),
            ["qn--2147483648", "qn-0000000009", "qn-0000000010"]
        );
        assert_eq!(
            in_order(QueueLayout::Curator),
            ["qn-", "qn--2147483648", "qn-0000000009", "qn-0000000010", "qn-x"]
        );
        // `DistributedQueue` does not require ten digits.
        let short = vec!["qn-10".to_owned(), "qn-9".to_owned()];
        assert_eq!(QueueLayout::Apache.in_order(short), ["qn-9", "qn-10"]);
    }

    #[test]
    fn names_show_the_kind_of_queue() {
        for (name, expected) in [
            ("qn-0000000001", Some(ItemKind::Simple)),
            ("xqn-0000000001", None),
            ("queue-0000000009", Some(ItemKind::Work)),
            ("queue-1000000050000000001", Some(ItemKind::Priority)),
            ("queue-0FFFFFFFF0000000002", Some(ItemKind::Priority)),
            ("queue-2FFFFFFFF0000000002", None),
            ("queue-|18BCFE56800|0000000001", Some(ItemKind::Delay { due_ms: 1_700_000_000_000 })),
            ("queue-|order 7|0000000001", Some(ItemKind::Id)),
            ("queue-|a|b|0000000001", Some(ItemKind::Id)),
            ("queue-strange0000000001", None),
            ("queue-", None),
            ("queue-x", None),
        ] {
            assert_eq!(item_kind(name), expected, "{name}");
        }
    }

    #[test]
    fn names_are_parsed() {
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
