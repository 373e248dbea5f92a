//! Parses and orders the names of sequential nodes.
//!
//! In: the names of a directory's children, in any order. Out: the names that belong to a recipe, with their sequence
//! numbers. Deliberately not here: the meaning of markers, which each recipe defines.
//!
//! A server ends the name of a sequential node with the number of children created under the parent so far, as C's
//! `%010d` prints a 32-bit integer. Layouts read here are those of
//! - Curator: `_c_<uuid>-lock-0000000012`, where `_c_<uuid>-` protects against a lost reply,
//! - kazoo: `<uuid>__lock__0000000003`,
//! - ZooKeeper's own queue: `qn-0000000001`.
//!
//! Prefixes are random, so the names must be ordered by their numbers and never as text.
//!
//! # Wrap-around
//! After 2,147,483,647 the number becomes -2,147,483,648, and from then on a new node sorts *before* all older ones,
//! here as in Curator and kazoo (whose order as text is moreover reversed among negative numbers). There is no order
//! that all three share beyond that point, so there must not be 2³¹ creates in the lifetime of a directory: delete
//! the empty directory and the count starts at zero again, which happens automatically where the parent is a
//! container.

/// The width to which the server pads a sequence number; only numbers below -999,999,999 are wider.
const SEQUENCE_WIDTH: usize = 10;

/// A parsed name of a sequential node. Ordered by sequence number; the parts of the name break ties, so that the
/// order is total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequentialName<'n> {
    /// The number that the server appended.
    pub sequence: i32,
    /// The text before the marker; often a unique id of the node's creator.
    pub prefix: &'n str,
    /// The requested marker, directly before the number.
    pub marker: &'n str,
}

/// Parses a node's name, if it is `prefix`, then `marker`, then a sequence number as a server prints it. Other names
/// do not belong to the recipe and give `None`.
///
/// ```
/// use herdsman_recipes::sequence::split_name;
///
/// let name = split_name("_c_5f1c-lock-0000000012", "-lock-").unwrap();
/// assert_eq!((name.prefix, name.sequence), ("_c_5f1c", 12));
/// assert_eq!(split_name("qn-0000000001", "qn-").unwrap().prefix, "");
/// assert_eq!(split_name("README", "-lock-"), None);
/// ```
#[must_use]
pub fn split_name<'n>(name: &'n str, marker: &str) -> Option<SequentialName<'n>> {
    // A marker may itself end with "-", so the widths are tried rather than the sign searched for.
    [SEQUENCE_WIDTH, SEQUENCE_WIDTH + 1].into_iter().find_map(|width| {
        let (front, digits) = name.split_at_checked(name.len().checked_sub(width)?)?;
        let prefix = front.strip_suffix(marker)?;
        Some(SequentialName {
            sequence: parse_sequence(digits)?,
            prefix,
            marker: &front[prefix.len()..],
        })
    })
}

/// Returns the names that contain one of the markers, in the order in which they were created. Other names are left
/// out. Where two markers fit (one ends with the other) the one listed first counts.
///
/// ```
/// use herdsman_recipes::sequence::in_order;
///
/// let children = ["a__READ__0000000002", "lost+found", "b__WRIT__0000000001"];
/// let queue = in_order(children, &["__READ__", "__WRIT__"]);
/// assert_eq!(queue.iter().map(|name| name.prefix).collect::<Vec<_>>(), ["b", "a"]);
/// ```
#[must_use]
pub fn in_order<'n>(
    names: impl IntoIterator<Item = &'n str>,
    markers: &[&str],
) -> Vec<SequentialName<'n>> {
    let mut ordered: Vec<_> = names
        .into_iter()
        .filter_map(|name| markers.iter().find_map(|marker| split_name(name, marker)))
        .collect();
    ordered.sort_unstable();
    ordered
}

/// Parses a number exactly as a server prints it: a `+`, another width or surplus zeros give `None`.
fn parse_sequence(digits: &str) -> Option<i32> {
    let sequence: i32 = digits.parse().ok()?;
    (format!("{sequence:0SEQUENCE_WIDTH$}") == digits).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, marker: &str, expected: Option<(&str, i32)>) {
        let split = split_name(name, marker);
        assert_eq!(split.map(|split| (split.prefix, split.sequence)), expected, "{name} {marker}");
        if let Some(split) = split {
            assert_eq!(split.marker, marker);
        }
    }

    #[test]
    fn names_of_each_layout() {
        let uuid = "5f1c1c6e-93a4-4d8e-9a55-0d8f3f1f2a11";
        let curator = format!("_c_{uuid}-lock-0000000012");
        check(&curator, "-lock-", Some((&format!("_c_{uuid}"), 12)));
        check(&curator, "lock-", Some((&format!("_c_{uuid}-"), 12)));
        check(&format!("{uuid}__lock__0000000003"), "__lock__", Some((uuid, 3)));
        check("qn-0000000001", "qn-", Some(("", 1)));
        check("queue-0000000000", "queue-", Some(("", 0)));
        check("_c_1-__READ__0000000007", "__READ__", Some(("_c_1-", 7)));
        check("2147483647", "", Some(("", i32::MAX)));
        check("é-lock-0000000001", "-lock-", Some(("é", 1)));
    }

    #[test]
    fn numbers_after_the_overflow() {
        check("qn--2147483648", "qn-", Some(("", i32::MIN)));
        check("qn--1000000000", "qn-", Some(("", -1_000_000_000)));
        check("qn--999999999", "qn-", Some(("", -999_999_999)));
        check("qn--000000005", "qn-", Some(("", -5)));
        check("a__lock__-000000001", "__lock__", Some(("a", -1)));
    }

    #[test]
    fn foreign_names() {
        for name in [
            "",
            "qn-",
            "qn",
            "README",
            "0000000001",
            "qn-000000001",
            "qn-00000000001",
            "qn-+000000001",
            "qn-2147483648",
            "qn--2147483649",
            "qn--0000000005",
            "qn-00000000x1",
            "qn-0000000001-",
            "nq-0000000001",
            "qn-é000000001",
            "qn-٠٠٠٠٠",
        ] {
            check(name, "qn-", None);
        }
    }

    #[test]
    fn the_number_decides_the_order_and_not_the_text() {
        let names = [
            "z-lock-0000000001",
            "a-lock-0000000010",
            "other",
            "m-lock-0000000009",
            "b-lock--2147483648",
        ];
        let order: Vec<_> = in_order(names, &["-lock-"]).iter().map(|name| name.sequence).collect();
        assert_eq!(order, [i32::MIN, 1, 9, 10]);
    }

    #[test]
    fn the_first_marker_that_fits_counts() {
        let names = in_order(["a__lock__0000000001"], &["__", "__lock__"]);
        assert_eq!((names[0].prefix, names[0].marker), ("a__lock", "__"));
    }
}
