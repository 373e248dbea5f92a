//! Paths: mostly from a small pool, so that requests collide; sometimes invalid in every way.

use super::{Generator, Place};

/// The names in the pool. Only `q` gets quotas.
const NAMES: [&str; 4] = ["a", "b", "c", "q"];

/// Suffixes that make a valid path invalid, or look invalid but are not.
const ODD_SUFFIXES: [&[u8]; 20] = [
    b"/",
    b"//x",
    b"/.",
    b"/..",
    b"/./x",
    b"/../x",
    b"/...",
    b"/..x",
    b"/\0",
    b"/x\0y",
    b"/\x01",
    b"/x\x1f",
    b"/\x7f",
    "/\u{85}".as_bytes(),
    "/\u{e000}".as_bytes(),
    "/\u{f8ff}".as_bytes(),
    "/\u{fff0}".as_bytes(),
    "/\u{fffd}".as_bytes(),
    b"/\xff\xfe",
    "/z\u{fc}rich \u{6771}\u{4eac}".as_bytes(),
];

/// Paths that are invalid as a whole, or outside of the script's subtree.
const ODD_PATHS: [&[u8]; 9] = [
    b"",
    b"a",
    b"relative/x",
    b"//",
    b"/\0",
    b"/.",
    b" /x",
    b"/zookeeper/quota/nothing/below",
    b"/nothing/below",
];

/// The service's own znodes.
pub(super) const SPECIAL: [&[u8]; 5] =
    [b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config", b""];

impl Generator {
    /// A valid path.
    pub(super) fn good_path(&mut self, place: Place) -> String {
        if self.rng.percent(25) && !self.created.is_empty() {
            let path = self.rng.pick(&self.created).clone();
            if place == Place::Alone || !self.has_quota(&path) {
                return path;
            }
        }
        let mut path = self.root.clone();
        let names = if place == Place::Alone { 4 } else { 3 };
        for _ in 0..self.rng.weighted(&[1, 9, 8, 4]) {
            path.push('/');
            path.push_str(NAMES[self.rng.below(names)]);
        }
        path
    }

    fn has_quota(&self, path: &str) -> bool {
        path.strip_prefix(&self.root).is_some_and(|rest| rest.starts_with("/q"))
    }

    /// A path, valid most of the time.
    pub(super) fn path(&mut self, place: Place) -> Vec<u8> {
        let mut path = self.good_path(place).into_bytes();
        match self.rng.weighted(&[93, 5, 1, 1]) {
            0 => {}
            1 => path.extend_from_slice(self.rng.pick::<&[u8]>(&ODD_SUFFIXES)),
            2 => path = self.rng.pick::<&[u8]>(&ODD_PATHS).to_vec(),
            _ => {
                path.push(b'/');
                let length = 1 + self.rng.below(6000);
                path.extend(std::iter::repeat_n(b'l', length));
            }
        }
        path
    }

    /// A path for a read: also the service's own.
    pub(super) fn readable_path(&mut self, place: Place) -> Vec<u8> {
        if self.rng.percent(7) {
            return self.rng.pick::<&[u8]>(&SPECIAL).to_vec();
        }
        self.path(place)
    }

    /// An expected version: often any, often the right one.
    pub(super) fn version(&mut self, path: &[u8]) -> i32 {
        let known = self.versions.get(&*String::from_utf8_lossy(path)).copied();
        match self.rng.weighted(&[50, 30, 8, 12]) {
            0 => -1,
            1 => known.unwrap_or(0),
            2 => known.unwrap_or(0).wrapping_add(1),
            _ => *self.rng.pick(&[0, 1, 2, -2, -100, i32::MIN, i32::MAX]),
        }
    }

    /// Data: null, empty, short, and sometimes near the frame limit.
    pub(super) fn data(&mut self, place: Place) -> Option<Vec<u8>> {
        let large = if place == Place::Alone { 1 } else { 0 };
        let length = match self.rng.weighted(&[8, 12, 70, 9, large]) {
            0 => return None,
            1 => 0,
            2 => 1 + self.rng.below(20),
            3 => 100 + self.rng.below(4000),
            _ => 1_040_000 + self.rng.below(10_000),
        };
        let first = self.rng.bits() as u8;
        Some((0..length).map(|index| first.wrapping_add(index as u8)).collect())
    }
}
