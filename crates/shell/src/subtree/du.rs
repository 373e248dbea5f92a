//! How many znodes and bytes are in each subtree.
//!
//! In: the znodes of a walk, in its order. Out: the weights of all subtrees down to a depth, each as
//! soon as the walk has left it. Not here: the walk, the order of the list.

use serde::Serialize;

use super::walk::Place;

/// The weight of a subtree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Weight {
    /// Its root.
    pub path: String,
    /// Its znodes, the root included.
    pub znodes: u64,
    /// Their bytes of data; paths, ACLs and stats not counted.
    pub bytes: u64,
}

/// Adds up the znodes of a walk.
#[derive(Debug)]
pub struct Scales {
    depth_max: usize,
    /// The subtrees that the walk is in, from the root down.
    open: Vec<Weight>,
    done: Vec<Weight>,
    top_max: Option<usize>,
}

/// More than this many are not collected without being cut to those that are wanted.
const SLACK: usize = 4096;

impl Scales {
    /// Tells of subtrees at most `depth_max` below the root of the walk, and only of the `top_max`
    /// heaviest.
    #[must_use]
    pub fn new(depth_max: usize, top_max: Option<usize>) -> Self {
        Scales { depth_max, open: Vec::new(), done: Vec::new(), top_max }
    }

    /// Adds the next znode of the walk.
    pub fn add(&mut self, place: &Place, bytes: u64) {
        while self.open.len() > place.depth {
            self.close();
        }
        if self.open.len() == place.depth {
            self.open.push(Weight { path: place.path.clone(), znodes: 0, bytes: 0 });
        }
        if let Some(innermost) = self.open.last_mut() {
            innermost.znodes += 1;
            innermost.bytes += bytes;
        }
    }

    /// The weights, the heaviest first.
    #[must_use]
    pub fn finish(mut self) -> Vec<Weight> {
        while !self.open.is_empty() {
            self.close();
        }
        self.cut();
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
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        let heaviest_first = |weight: &Weight| std::cmp::Reverse((weight.bytes, weight.znodes));
        self.done.sort_by(|left, right| {
            heaviest_first(left)
                .cmp(&heaviest_first(right))
                .then_with(|| left.path.cmp(&right.path))
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
        let mut scales = Scales::new(depth_max, top_max);
        for (path, depth, bytes) in WALK {
            scales.add(&Place { path: path.to_owned(), depth, is_last: false }, bytes);
        }
        let weights = scales.finish();
        let shown: Vec<_> = weights.iter().map(|w| (w.path.as_str(), w.znodes, w.bytes)).collect();
        assert_eq!(shown, expected, "depth {depth_max}, top {top_max:?}");
    }

    #[test]
    fn subtrees_weigh_what_is_in_them() {
        check(0, None, &[("/", 6, 1121)]);
        check(1, None, &[("/", 6, 1121), ("/a", 3, 1110), ("/d", 1, 5), ("/e", 1, 5)]);
        check(9, Some(3), &[("/", 6, 1121), ("/a", 3, 1110), ("/a/c", 1, 1000)]);
        check(1, Some(0), &[]);
    }

    #[test]
    fn only_the_heaviest_are_kept_in_memory() {
        let mut scales = Scales::new(1, Some(2));
        scales.add(&Place { path: "/".to_owned(), depth: 0, is_last: true }, 0);
        for number in 0..3 * SLACK as u64 {
            let place = Place { path: format!("/{number}"), depth: 1, is_last: false };
            scales.add(&place, number);
            assert!(scales.done.len() <= SLACK + 3);
        }
        let paths: Vec<_> = scales.finish().into_iter().map(|weight| weight.path).collect();
        assert_eq!(paths, ["/".to_owned(), format!("/{}", 3 * SLACK - 1)]);
    }
}
