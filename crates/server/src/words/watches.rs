//! `wchs`, `wchc` and `wchp`: watches of the data table, which is what Apache shows.
//! Apache: `WatchManager.dumpWatches`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use herdsman_node::ConnId;
use herdsman_proto::SessionId;
use herdsman_tree::Watcher;
use herdsman_tree::watches::WatchSummary;

use crate::io_threads::Shared;

pub(super) fn wchs(shared: &Shared) -> String {
    let WatchSummary { connections, paths, watches } = summary(shared);
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

pub(super) fn summary(shared: &Shared) -> WatchSummary {
    let tree = shared.core.tree();
    tree.watches().summary()
}

pub(super) fn wchc(shared: &Shared) -> String {
    let mut text = String::new();
    for (session, paths) in by_session(shared) {
        let _ = writeln!(text, "{session}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text + "\n"
}

pub(super) fn wchp(shared: &Shared) -> String {
    let mut text = String::new();
    for (path, sessions) in by_path(shared) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
    text + "\n"
}

/// Sorting by path is left for after the guard is gone, so this asks by watcher as well.
pub(super) fn by_path(shared: &Shared) -> BTreeMap<Arc<str>, Vec<SessionId>> {
    let mut by_path: BTreeMap<Arc<str>, Vec<SessionId>> = BTreeMap::new();
    for (session, paths) in by_session(shared) {
        for path in paths {
            by_path.entry(path).or_default().push(session);
        }
    }
    by_path
}

pub(super) fn by_session(shared: &Shared) -> Vec<(SessionId, Vec<Arc<str>>)> {
    let by_watcher = {
        let tree = shared.core.tree();
        tree.watches().by_watcher()
    };
    let session = |watcher: Watcher| {
        let client = shared.core.clients.get(ConnId::from(watcher));
        client.map_or(SessionId::NONE, |client| client.stats.lock().session)
    };
    by_watcher.into_iter().map(|(watcher, paths)| (session(watcher), paths)).collect()
}
