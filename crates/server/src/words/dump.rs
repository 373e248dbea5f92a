//! `dump`: sessions and connections by the time they end, and who owns which ephemerals.
//! Apache: `DumpCommand`, `ExpiryQueue.dump`, `DataTree.dumpEphemerals`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use herdsman_proto::SessionId;

use super::java;
use crate::io_threads::Shared;

/// Owners of ephemerals looked up under one guard of the tree.
const OWNERS_PER_GUARD: usize = 64;

pub(super) fn dump(shared: &Shared) -> String {
    let sessions = session_ends(shared);
    let mut text = "SessionTracker dump:\nSession ".to_owned();
    sets(&mut text, &sessions, |session| session.to_string());
    text.push_str("ephemeral nodes dump:\n");
    ephemerals(&mut text, shared);
    text.push_str("Connections dump:\nConnections ");
    sets(&mut text, &connection_ends(shared, &sessions), String::clone);
    text
}

/// What ends when, by the wall clock.
type Ends<T> = BTreeMap<i64, Vec<T>>;

fn session_ends(shared: &Shared) -> Ends<SessionId> {
    let deadlines: Vec<_> =
        shared.core.with_node(|node| node.sessions().deadlines().collect::<Vec<_>>());
    let now = shared.core.clock.now();
    let wall_ms = |at_ms: u64| now.wall_ms + at_ms.cast_signed() - now.monotonic_ms.cast_signed();
    deadlines.into_iter().map(|(at_ms, sessions)| (wall_ms(at_ms), sessions)).collect()
}

/// A connection ends with its session; one without a session has a limited time to ask for one.
fn connection_ends(shared: &Shared, sessions: &Ends<SessionId>) -> Ends<String> {
    let by_session: HashMap<SessionId, i64> =
        sessions.iter().flat_map(|(&at_ms, ids)| ids.iter().map(move |&id| (id, at_ms))).collect();
    let sessionless_ms = shared.settings.sessionless_timeout_ms.cast_signed();
    let mut ends = Ends::new();
    for client in shared.core.clients.all() {
        let session = client.stats.lock().session;
        let at_ms = by_session.get(&session).copied();
        let at_ms = at_ms.unwrap_or(client.established_ms + sessionless_ms);
        let line = format!("ip: {} sessionId: {session}", java::address(client.peer));
        ends.entry(at_ms).or_insert_with(Vec::new).push(line);
    }
    ends
}

fn sets<T>(text: &mut String, ends: &Ends<T>, line: impl Fn(&T) -> String) {
    let count: usize = ends.values().map(Vec::len).sum();
    let _ = writeln!(text, "Sets ({})/({count}):", ends.len());
    for (&at_ms, members) in ends {
        let _ = writeln!(text, "{} expire at {}:", members.len(), java::date(at_ms));
        for member in members {
            let _ = writeln!(text, "\t{}", line(member));
        }
    }
}

fn ephemerals(text: &mut String, shared: &Shared) {
    let owners = shared.core.tree().ephemeral_owners();
    let _ = writeln!(text, "Sessions with Ephemerals ({}):", owners.len());
    for owners in owners.chunks(OWNERS_PER_GUARD) {
        let owned: Vec<(SessionId, Vec<Arc<str>>)> = {
            let tree = shared.core.tree();
            owners.iter().map(|&owner| (owner, tree.ephemerals(owner).cloned().collect())).collect()
        };
        for (owner, paths) in owned {
            let _ = writeln!(text, "{owner}:");
            for path in paths {
                let _ = writeln!(text, "\t{path}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_counted_and_listed() {
        let mut text = "Session ".to_owned();
        let ends = Ends::from([
            (1_794_773_425_000, vec![SessionId(0x1f), SessionId(0x20)]),
            (1_794_773_435_000, vec![SessionId(0x21)]),
        ]);
        sets(&mut text, &ends, |session| session.to_string());
        let expected = "Session Sets (2)/(3):\n2 expire at Sun Nov 15 20:10:25 UTC 2026:\n\t0x1f\n\
                        \t0x20\n1 expire at Sun Nov 15 20:10:35 UTC 2026:\n\t0x21\n";
        assert_eq!(text, expected);
    }
}
