//! The paths of a run's znodes: numbered leaves, spread over parents so that no parent becomes huge.
//!
//! ```text
//! /bench                       the root, marked by its data
//! /bench/keys                  a family
//! /bench/keys/0001             a parent
//! /bench/keys/0001/000003ef    a leaf: its number in hexadecimal; 1000 in a row share a parent
//! ```
//! All leaves of a family have paths of the same length, so that a request is encoded once and only digits are
//! replaced afterwards.

/// The default number of leaves of a parent.
pub(crate) const LEAVES_PER_PARENT: u32 = 1000;

/// A parent's name has four digits.
pub(crate) const PARENTS_MAX: u32 = 0x1_0000;

/// The level of leaves below the root.
pub(crate) const LEAF_LEVEL: usize = 3;

/// Numbered znodes under one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    prefix: String,
    parents: u32,
}

/// The bytes `/pppp/nnnnnnnn` at the end of a leaf's path.
pub(crate) const TAIL_BYTES: usize = 14;

impl Family {
    /// Creates a family under `root` with this many parents.
    pub(crate) fn new(root: &str, name: &str, parents: u32) -> Self {
        let parents = parents.clamp(1, PARENTS_MAX);
        Family { prefix: format!("{}/{name}", root.trim_end_matches('/')), parents }
    }

    /// Creates a family for this many leaves, with [`LEAVES_PER_PARENT`] for each parent.
    pub(crate) fn for_leaves(root: &str, name: &str, leaves: u32) -> Self {
        Family::new(root, name, leaves.div_ceil(LEAVES_PER_PARENT))
    }

    /// Returns the path of the znode above the parents.
    pub(crate) fn top(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn parents(&self) -> u32 {
        self.parents
    }

    pub(crate) fn parent_path(&self, parent: u32) -> String {
        format!("{}/{parent:04x}", self.prefix)
    }

    pub(crate) fn leaf_path(&self, number: u32) -> String {
        format!("{}/{:04x}/{number:08x}", self.prefix, self.parent_of(number))
    }

    /// Does not depend on the number of leaves while there are enough parents: keys created for one run are found
    /// by another run that uses fewer of them.
    fn parent_of(&self, number: u32) -> u32 {
        (number / LEAVES_PER_PARENT) % self.parents
    }

    /// Whether these bytes are the path of that leaf.
    pub(crate) fn is_leaf_path(&self, number: u32, path: &[u8]) -> bool {
        let Some((head, tail)) = path.split_last_chunk::<TAIL_BYTES>() else {
            return false;
        };
        let mut expected = *b"/pppp/nnnnnnnn";
        self.patch_tail(number, &mut expected);
        *tail == expected && head == self.prefix.as_bytes()
    }

    /// Writes a leaf's number to the end of a path.
    pub(crate) fn patch_tail(&self, number: u32, tail: &mut [u8; TAIL_BYTES]) {
        let parent = self.parent_of(number);
        let [_, p0, p1, p2, p3, _, leaf @ ..] = tail;
        [*p0, *p1] = hex_pair((parent >> 8) as u8);
        [*p2, *p3] = hex_pair(parent as u8);
        for (pair, byte) in leaf.chunks_exact_mut(2).zip(number.to_be_bytes()) {
            pair.copy_from_slice(&hex_pair(byte));
        }
    }
}

fn hex_pair(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patched_tail_is_the_end_of_the_path() {
        for (parents, number) in
            [(1, 0), (1, 77), (1000, 999), (1000, 123_456_789), (65_536, u32::MAX)]
        {
            let family = Family::new("/bench", "keys", parents);
            let path = family.leaf_path(number);
            let mut tail = *family.leaf_path(0).as_bytes().last_chunk::<TAIL_BYTES>().unwrap();
            family.patch_tail(number, &mut tail);
            assert_eq!(path.as_bytes().last_chunk::<TAIL_BYTES>(), Some(&tail), "{path}");
            assert!(family.is_leaf_path(number, path.as_bytes()));
            assert!(!family.is_leaf_path(number ^ 1, path.as_bytes()));
            assert!(!family.is_leaf_path(number, &path.as_bytes()[1..]));
        }
    }

    #[test]
    fn parents_grow_with_the_leaves() {
        for (leaves, parents) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (5_000_000, 5000)] {
            assert_eq!(Family::for_leaves("/b", "keys", leaves).parents(), parents, "{leaves}");
        }
        assert_eq!(Family::new("/", "keys", 1).top(), "/keys");
        let [few, many] = [3000, 90_000].map(|leaves| Family::for_leaves("/b", "keys", leaves));
        assert_eq!(few.leaf_path(2999), many.leaf_path(2999));
    }
}
