//! Counts znodes and bytes of subtrees.
//!
//! In: the znodes of a walk, in its order. Out: the sizes of all subtrees down to a depth, each computed as
//! soon as the walk has left it. Not here: the walk, the order of the list.

use serde::Serialize;

use super::walk::Position;

/// The size of a subtree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubtreeSize {
    /// Its root.
    pub path: String,
    /// Its znodes, including the root.
    pub znodes: u64,
    /// Their bytes of data, without paths, ACLs and stats.
    pub bytes: u64,
}

/// Adds up the znodes of a walk.
#[derive(Debug)]
pub struct SubtreeSizes {
    depth_max: usize,
    /// The subtrees that contain the current znode, from the root down.
    open: Vec<SubtreeSize>,
    done: Vec<SubtreeSize>,
    top_max: Option<usize>,
}

/// How many sizes beyond `top_max` are collected before the list is truncated.
const SLACK: usize = 4096;

impl SubtreeSizes {
    /// Reports subtrees up to `depth_max` below the root of the walk, and only the `top_max` largest.
    #[must_use]
    pub fn new(depth_max: usize, top_max: Option<usize>) -> Self {
        SubtreeSizes { depth_max, open: Vec::new(), done: Vec::new(), top_max }
    }

    /// Adds the next znode of the walk.
    pub fn add(&mut self, position: &Position, bytes: u64) {
        while self.open.len() > position.depth {
            self.close();
        }
        if self.open.len() == position.depth {
            self.open.push(SubtreeSize { path: position.path.clone(), znodes: 0, bytes: 0 });
        }
        if let Some(innermost) = self.open.last_mut() {
            innermost.znodes += 1;
            innermost.bytes += bytes;
        }
    }

    /// The sizes, the largest first.
    #[must_use]
    pub fn finish(mut self) -> Vec<SubtreeSize> {
        while !self.open.is_empty() {
            self.close();
        }
        self.truncate();
        self.done
    }

    fn close(&mut self) {
        let Some(closed) = self.open.pop() else {
            return;
        };
        if let Some(parent) = self.open.last_mut() {
            parent.znodes += closed.znodes;
            parent.bytes += closed.bytes;
        }
        if self.open.len() <= self.depth_max {
            self.done.push(closed);
            if let Some(top_max) = self.top_max
                && self.done.len() > top_max + SLACK
            {
                self.truncate();
            }
        }
    }

    fn truncate(&mut self) {
        let largest_first = |size: &SubtreeSize| std::cmp::Reverse((size.bytes, size.znodes));
        self.done.sort_by(|left, right| {
            largest_first(left).cmp(&largest_first(right)).then_with(|| left.path.cmp(&right.path))
        });
        self.done.truncate(self.top_max.unwrap_or(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: [(&str, usize, u64); 6] = [
        ("/", 0, 1),
        ("/a", 1, 10),
        ("/a/b", 2, 100),
        ("/a/c", 2, 1000),
        ("/d", 1, 5),
        ("/e", 1, 5),
    ];

    fn check(depth_max: usize, top_max: Option<usize>, expected: &[(&str, u64, u64)]) {
        let mut subtree_sizes = SubtreeSizes::new(depth_max, top_max);
        for (path, depth, bytes) in WALK {
            subtree_sizes.add(&Position { path: path.to_owned(), depth, is_last: false }, bytes);
        }
        let sizes = subtree_sizes.finish();
        let shown: Vec<_> = sizes.iter().map(|w| (w.path.as_str(), w.znodes, w.bytes)).collect();
        assert_eq!(shown, expected, "depth {depth_max}, top {top_max:?}");
    }

    #[test]
    fn a_subtree_counts_everything_below_it() {
        check(0, None, &[("/", 6, 1121)]);
        check(1, None, &[("/", 6, 1121), ("/a", 3, 1110), ("/d", 1, 5), ("/e", 1, 5)]);
        check(9, Some(3), &[("/", 6, 1121), ("/a", 3, 1110), ("/a/c", 1, 1000)]);
        check(1, Some(0), &[]);
    }

    #[test]
    fn only_the_largest_are_kept_in_memory() {
        let mut subtree_sizes = SubtreeSizes::new(1, Some(2));
        subtree_sizes.add(&Position { path: "/".to_owned(), depth: 0, is_last: true }, 0);
        for number in 0..3 * SLACK as u64 {
            let position = Position { path: format!("/{number}"), depth: 1, is_last: false };
            subtree_sizes.add(&position, number);
            assert!(subtree_sizes.done.len() <= SLACK + 3);
        }
        let paths: Vec<_> = subtree_sizes.finish().into_iter().map(|size| size.path).collect();
        assert_eq!(paths, ["/".to_owned(), format!("/{}", 3 * SLACK - 1)]);
    }
}
