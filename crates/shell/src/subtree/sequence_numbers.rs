//! Warns of sequence numbers that a parent's counter has not reached yet.
//!
//! A parent counts the children that were created in it, and `create -s` takes its number from that counter. No request
//! sets the counter, so znodes that are copied or imported into a new parent may have numbers that it has not reached
//! yet. When it reaches them, `create -s` fails. This finds such parents.

use std::collections::BTreeMap;

use herdsman_client::{Client, Stat};

use super::path;

/// Digits of a number that a server appends to a name.
const DIGITS: usize = 10;

/// Most parents that are checked.
const PARENTS_MAX: usize = 1_000;

/// The highest number at the end of a name, by parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceNumbers(BTreeMap<String, i64>);

impl SequenceNumbers {
    /// Records a znode that is written.
    pub(super) fn note(&mut self, path: &str) {
        let (Some(number), Some(parent)) = (number(path::name(path)), path::parent(path)) else {
            return;
        };
        if let Some(highest) = self.0.get_mut(parent) {
            *highest = number.max(*highest);
        } else if self.0.len() < PARENTS_MAX {
            self.0.insert(parent.to_owned(), number);
        }
    }

    /// Warns of the first parent whose counter will reach the number of a child. Skips parents that cannot be read: a
    /// warning must not make a completed command fail.
    pub async fn warning(&self, client: &Client) -> Option<String> {
        for (parent, highest) in &self.0 {
            let Ok(Some(stat)) = client.exists(parent).await else { continue };
            let next = next_number(&stat);
            if next <= *highest {
                return Some(format!(
                    "{parent} has a child with the number {highest}, but its next sequential child will get \
                     {next}: create -s may fail with \"Node already exists\""
                ));
            }
        }
        None
    }
}

/// The number at the end of a name of a sequential znode.
fn number(name: &str) -> Option<i64> {
    let digits = name.get(name.len().checked_sub(DIGITS)?..)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The next number, computed from the cversion: each created and each deleted child has increased that by one.
fn next_number(stat: &Stat) -> i64 {
    (i64::from(stat.cversion) + i64::from(stat.num_children)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_ten_digits() {
        assert_eq!(number("job-0000000041"), Some(41));
        assert_eq!(number("0000000007"), Some(7));
        for other in ["job-41", "job-000000004x", "", "é000000041"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
