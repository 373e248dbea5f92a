//! Sets watches again on a new connection, in requests that every server accepts.

use std::sync::Arc;

use herdsman_proto::Zxid;
use herdsman_proto::request::{SetWatches, Text};

use super::{Entry, Existence, Recipient, WatchTable, Watches};

/// The size of the paths in one request: servers refuse requests above 1 MiB, and Apache's client
/// splits at the same size.
const BATCH_BYTES_MAX: usize = 128 << 10;

/// A list of [`SetWatches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl Watches {
    /// Returns all watches, in requests of bounded size. From now on they count as set on the server: a
    /// watch that is dropped before the reply arrives is removed by a later request.
    pub(crate) fn set_again(&self, relative_zxid: Zxid) -> Vec<SetWatches<'static>> {
        let mut batches = Vec::new();
        let mut batch = SetWatches { relative_zxid, ..SetWatches::default() };
        let mut bytes = 0;
        for (list, path) in self.mark_all_set() {
            if bytes + path.len() > BATCH_BYTES_MAX && bytes > 0 {
                let empty = SetWatches { relative_zxid, ..SetWatches::default() };
                batches.push(std::mem::replace(&mut batch, empty));
                bytes = 0;
            }
            bytes += path.len() + size_of::<i32>();
            list.of(&mut batch).push(Text::Owned(path.to_string()));
        }
        if bytes > 0 {
            batches.push(batch);
        }
        batches
    }

    fn mark_all_set(&self) -> Vec<(List, Arc<str>)> {
        let mut all = Vec::new();
        for (path, entries) in &mut self.inner.lock().paths {
            for (list, table) in LISTS {
                let entry = &mut entries[*table as usize];
                if entry.belongs_to(*list) {
                    entry.on_server = true;
                    all.push((*list, path.clone()));
                }
            }
        }
        all
    }
}

const LISTS: &[(List, WatchTable)] = &[
    (List::Data, WatchTable::Data),
    (List::Exist, WatchTable::Data),
    (List::Child, WatchTable::Child),
    (List::Persistent, WatchTable::Persistent),
    (List::Recursive, WatchTable::Recursive),
];

impl List {
    fn of<'a>(self, batch: &'a mut SetWatches<'static>) -> &'a mut Vec<Text<'static>> {
        match self {
            List::Data => &mut batch.data,
            List::Exist => &mut batch.exist,
            List::Child => &mut batch.child,
            List::Persistent => &mut batch.persistent,
            List::Recursive => &mut batch.persistent_recursive,
        }
    }
}

impl Entry {
    /// Data watches are split by whether the znode existed: the server checks a znode that did not
    /// exist differently.
    fn belongs_to(&self, list: List) -> bool {
        let wanted = match list {
            List::Data => Existence::Present,
            List::Exist => Existence::Missing,
            List::Child | List::Persistent | List::Recursive => return !self.watchers.is_empty(),
        };
        self.watchers.iter().any(|watcher| match &watcher.to {
            Recipient::OneShot { existence, .. } => *existence == wanted,
            Recipient::Persistent { .. } => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::WatchLifetime;
    use super::*;

    #[test]
    fn requests_stay_below_the_limit_and_carry_every_path_once() {
        let watches = Arc::new(Watches::default());
        let mut kept = Vec::new();
        for number in 0..5000 {
            let path = format!("/{}/{number:06}", "x".repeat(90));
            kept.push(
                watches
                    .expect(&path, WatchTable::Data, WatchLifetime::Session, 0)
                    .confirm(Existence::Present),
            );
        }
        let batches = watches.set_again(Zxid(7));
        assert!(batches.len() > 3);
        let mut paths: Vec<_> = batches.iter().flat_map(|batch| &batch.data).collect();
        for batch in &batches {
            let bytes: usize = batch.data.iter().map(|path| path.len() + 4).sum();
            assert!(bytes <= BATCH_BYTES_MAX + 128, "{bytes}");
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 5000);
        drop(kept);
        assert!(watches.set_again(Zxid(7)).is_empty());
    }

    #[test]
    fn a_missing_znode_goes_to_the_exist_list() {
        let watches = Arc::new(Watches::default());
        let _missing = watches
            .expect("/a", WatchTable::Data, WatchLifetime::Session, 0)
            .confirm(Existence::Missing);
        let _recursive = watches
            .expect("/a", WatchTable::Recursive, WatchLifetime::Client, 0)
            .confirm(Existence::Present);
        let [batch] = watches.set_again(Zxid(1)).try_into().expect("one batch");
        assert_eq!((batch.data.len(), batch.exist.len()), (0, 1));
        assert_eq!(batch.persistent_recursive.len(), 1);
    }
}
