//! `wchs`, `wchc` and `wchp`: data watches, which are those that Apache shows.
//! Apache: `WatchManager.dumpWatches`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use herdsman_node::ConnId;
use herdsman_proto::SessionId;
use herdsman_tree::Watcher;
use herdsman_tree::watches::WatchSummary;

use crate::clients::io_threads::ServerContext;

/// Paths that are copied under one guard, which blocks setting and firing watches.
const PATHS_PER_GUARD: usize = 1000;

pub(super) fn wchs(shared: &ServerContext) -> String {
    let WatchSummary { connections, paths, watches } = summary(shared);
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

pub(super) fn summary(shared: &ServerContext) -> WatchSummary {
    let tree = shared.core.tree();
    tree.watches().summary()
}

pub(super) fn wchc(shared: &ServerContext) -> String {
    let mut text = String::new();
    for (session, paths) in by_session(shared) {
        let _ = writeln!(text, "{session}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text + "\n"
}

pub(super) fn wchp(shared: &ServerContext) -> String {
    let mut text = String::new();
    for (path, sessions) in by_path(shared) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
    text + "\n"
}

/// Sorted by path without the guard, so this collects by watcher as well.
pub(super) fn by_path(shared: &ServerContext) -> BTreeMap<Arc<str>, Vec<SessionId>> {
    let mut by_path: BTreeMap<Arc<str>, Vec<SessionId>> = BTreeMap::new();
    for (session, paths) in by_session(shared) {
        for path in paths {
            by_path.entry(path).or_default().push(session);
        }
    }
    by_path
}

/// Collected in parts, so that no request waits for all of it: the result is not of one moment.
pub(super) fn by_session(shared: &ServerContext) -> Vec<(SessionId, Vec<Arc<str>>)> {
    let mut watchers = {
        let tree = shared.core.tree();
        tree.watches().watchers()
    };
    watchers.sort_unstable();
    let session = |watcher: Watcher| {
        let client = shared.core.clients.get(ConnId::from(watcher));
        client.map_or(SessionId::NONE, |client| client.stats.lock().session)
    };
    let by_watcher =
        watchers.into_iter().map(|watcher| (session(watcher), paths_of(shared, watcher)));
    by_watcher.filter(|(_, paths)| !paths.is_empty()).collect()
}

fn paths_of(shared: &ServerContext, watcher: Watcher) -> Vec<Arc<str>> {
    let mut paths: Vec<Arc<str>> = Vec::new();
    loop {
        let next = {
            let tree = shared.core.tree();
            let after = paths.last().map(|path| &**path);
            tree.watches().paths_of(watcher, after, PATHS_PER_GUARD)
        };
        let is_last = next.len() < PATHS_PER_GUARD;
        paths.extend(next);
        if is_last {
            return paths;
        }
    }
}
