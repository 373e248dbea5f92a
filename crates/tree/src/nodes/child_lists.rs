//! Encoded lists of children, kept for wide znodes until their children change.
//!
//! Encoding a list of a million names takes more than 20 ms under a read guard of the tree, for which all writes
//! wait; copying a kept list takes a tenth of that. A list is kept when it is read for the second time
//! without a change in between, so that a list that is read once, or that changes all the time, costs nothing here.
//!
//! Invariant: a list that is kept is the list of its znode now. [`ChildLists::forget`] is called for each change of
//! a znode's children, and a znode is removed only without children, so the next znode with its id starts without.

use std::sync::Arc;

use parking_lot::Mutex;

use super::NodeId;

/// Shorter lists are encoded each time.
pub const WIDE: usize = 4_096;

/// Znodes whose lists are kept, or were read once.
const LISTS_MAX: usize = 8;

/// Bytes of all lists together. A longer list is never kept.
const BYTES_MAX: usize = 64 << 20;

/// The lists, in the order of their last use.
#[derive(Debug, Default)]
pub struct ChildLists {
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    parent: NodeId,
    /// Absent after the first read.
    list: Option<Arc<[u8]>>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.list.as_ref().map_or(0, |list| list.len())
    }
}

impl ChildLists {
    /// The kept list of a znode's children, if there is one.
    #[must_use]
    pub fn get(&self, parent: NodeId) -> Option<Arc<[u8]>> {
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|entry| entry.parent == parent)?;
        entries[at..].rotate_left(1);
        entries.last()?.list.clone()
    }

    /// Records a list that was encoded under the guard that the caller still holds.
    pub fn note(&self, parent: NodeId, encoded: &[u8]) {
        if encoded.len() > BYTES_MAX {
            return;
        }
        let is_second = self.entries.lock().iter().any(|entry| entry.parent == parent);
        let list = is_second.then(|| Arc::from(encoded));
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.parent != parent);
        entries.push(Entry { parent, list });
        let mut bytes: usize = entries.iter().map(Entry::bytes).sum();
        while entries.len() > LISTS_MAX || bytes > BYTES_MAX {
            bytes -= entries.remove(0).bytes();
        }
    }

    /// Drops the list of a znode, because its children change.
    pub fn forget(&mut self, parent: NodeId) {
        let entries = self.entries.get_mut();
        if !entries.is_empty() {
            entries.retain(|entry| entry.parent != parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId(number)
    }

    #[test]
    fn a_list_is_kept_from_the_second_reading_until_it_changes() {
        let mut lists = ChildLists::default();
        lists.note(id(1), b"a list");
        assert_eq!(lists.get(id(1)), None);
        lists.note(id(1), b"a list");
        assert_eq!(lists.get(id(1)).as_deref(), Some(&b"a list"[..]));
        lists.forget(id(2));
        assert!(lists.get(id(1)).is_some());
        lists.forget(id(1));
        assert_eq!(lists.get(id(1)), None);
        lists.note(id(1), b"another list");
        assert_eq!(lists.get(id(1)), None);
    }

    #[test]
    fn the_least_recently_read_lists_are_dropped() {
        let lists = ChildLists::default();
        let keep = |number, bytes| {
            let list = vec![number as u8; bytes];
            lists.note(id(number), &list);
            lists.note(id(number), &list);
        };
        for number in 0..LISTS_MAX as u32 {
            keep(number, 1);
        }
        assert!(lists.get(id(0)).is_some());
        keep(100, 1);
        assert!(lists.get(id(0)).is_some());
        assert_eq!(lists.get(id(1)), None);
        keep(101, BYTES_MAX);
        assert!(lists.get(id(101)).is_some());
        assert_eq!(lists.get(id(0)), None);
        keep(102, BYTES_MAX + 1);
        assert_eq!(lists.get(id(102)), None);
        assert!(lists.get(id(101)).is_some());
    }
}
