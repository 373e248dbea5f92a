//! A queue with an order: clients take the item with the lowest number.
//!
//! Numbers increase with each item, so no lower one can be added while a client that has seen the lowest
//! deletes it. The acknowledged deletes, in the order of their zxids, therefore have increasing numbers,
//! and so have the creates. The rules for an unordered queue apply here too.

use super::check::Findings;
use super::history::Record;
use super::{ids, queue};
use crate::listing::Nodes;

pub fn check(records: &[Record], end: &Nodes) -> Findings {
    let mut findings = queue::check(records, end);
    findings.extend(ids::check(records));
    let mut taken: Vec<(i64, &str)> = queue::taken(records).collect();
    taken.sort_unstable();
    for pair in taken.windows(2) {
        if ids::number(pair[0].1) >= ids::number(pair[1].1) {
            let (one, other) = (pair[0].1, pair[1].1);
            findings.wrong.push(format!("{one} was taken before {other}"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Op;
    use crate::workloads::history::Answer;
    use crate::workloads::history::made::*;

    #[test]
    fn items_are_taken_in_their_order() {
        let take = |number: u64, zxid| {
            (Op::delete(&format!("/q/item-{number:010}"), 0), done(zxid, Answer::Nothing))
        };
        let findings = |calls: Vec<_>| check(&history(calls), &Nodes::new());
        assert!(findings(vec![take(1, 5), take(3, 6)]).is_empty());
        // Another client may learn later that it was first.
        assert!(findings(vec![take(3, 6), take(1, 5)]).is_empty());
        assert_eq!(findings(vec![take(3, 5), take(1, 6)]).wrong.len(), 1);
    }
}
