//! `dump`: sessions and connections by the time they expire, and the owners of ephemerals.
//! Apache: `DumpCommand`, `ExpiryQueue.dump`, `LearnerSessionTracker.dumpSessions`,
//! `DataTree.dumpEphemerals`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use herdsman_node::ServesAs;
use herdsman_node::sessions::SessionScope;
use herdsman_proto::SessionId;

use super::{java, role};
use crate::clients::io_threads::ServerContext;
use crate::operators::stats::ConnStats;
use crate::start::settings;

/// Owners of ephemerals looked up under one guard of the tree.
const OWNERS_PER_GUARD: usize = 64;

pub(super) fn dump(shared: &ServerContext) -> String {
    let global = session_ends(shared, SessionScope::Global);
    let local = session_ends(shared, SessionScope::Local);
    let mut text = "SessionTracker dump:\n".to_owned();
    tracked(&mut text, shared, &global, &local);
    text.push_str("ephemeral nodes dump:\n");
    ephemerals_in_words(&mut text, shared);
    text.push_str("Connections dump:\nConnections ");
    sets(&mut text, &connection_ends(shared, &[global, local]), String::clone);
    text
}

/// A learner does not know when the sessions of the ensemble expire.
fn tracked(
    text: &mut String,
    shared: &ServerContext,
    global: &Ends<SessionId>,
    local: &Ends<SessionId>,
) {
    let role = role(shared);
    let has_local = settings::new_session_scope(&shared.config) == SessionScope::Local
        || role == Some(ServesAs::ReadOnly);
    if has_local {
        text.push_str("Local Session ");
        sets(text, local, |session| session.to_string());
    }
    if matches!(role, Some(ServesAs::Follower | ServesAs::Observer | ServesAs::ReadOnly)) {
        let sessions: Vec<_> = shared.core.tree().sessions().collect();
        let _ = writeln!(text, "Global Sessions({}):", sessions.len());
        for (session, timeout_ms) in sessions {
            let _ = writeln!(text, "{session}\t{timeout_ms}ms");
        }
    } else {
        text.push_str(if has_local { "Global Session " } else { "Session " });
        sets(text, global, |session| session.to_string());
    }
}

/// Entries by the time they end, by the wall clock.
pub type Ends<T> = BTreeMap<i64, Vec<T>>;

pub(super) fn all_session_ends(shared: &ServerContext) -> Ends<SessionId> {
    let mut ends = session_ends(shared, SessionScope::Global);
    for (at_ms, sessions) in session_ends(shared, SessionScope::Local) {
        ends.entry(at_ms).or_default().extend(sessions);
    }
    ends
}

fn session_ends(shared: &ServerContext, scope: SessionScope) -> Ends<SessionId> {
    let mut deadlines: Vec<_> = shared.core.with_node(|node| {
        let is_meant =
            |id: &SessionId| node.sessions().is_local(*id) == (scope == SessionScope::Local);
        let deadlines = node.sessions().deadlines();
        deadlines.map(|(at_ms, ids)| (at_ms, ids.into_iter().filter(is_meant).collect())).collect()
    });
    deadlines.retain(|(_, ids): &(u64, Vec<SessionId>)| !ids.is_empty());
    let now = shared.core.clock.now();
    let wall_ms = |at_ms: u64| now.wall_ms + at_ms.cast_signed() - now.monotonic_ms.cast_signed();
    deadlines.into_iter().map(|(at_ms, sessions)| (wall_ms(at_ms), sessions)).collect()
}

/// A connection ends with its session; one without a session has a time limit. Where
/// the leader decides about sessions, a connection ends when its client was silent for the timeout.
fn connection_ends(shared: &ServerContext, sessions: &[Ends<SessionId>]) -> Ends<String> {
    let ends = sessions.iter().flatten();
    let by_session: HashMap<SessionId, i64> =
        ends.flat_map(|(&at_ms, ids)| ids.iter().map(move |&id| (id, at_ms))).collect();
    let sessionless_ms = shared.settings.sessionless_timeout_ms.cast_signed();
    let now = shared.core.clock.now();
    let mut ends = Ends::new();
    for client in shared.core.clients.all() {
        let ConnStats { session, timeout_ms, last_response_ms, .. } = *client.stats.lock();
        let of_session = by_session.get(&session).copied();
        let of_silence = (session != SessionId::NONE).then(|| {
            let silent_ms = now.monotonic_ms.saturating_sub(last_response_ms).cast_signed();
            (now.wall_ms - silent_ms).max(client.established_ms) + i64::from(timeout_ms)
        });
        let at_ms = of_session.or(of_silence);
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

pub(super) fn ephemerals(shared: &ServerContext) -> Vec<(SessionId, Vec<Arc<str>>)> {
    let owners = shared.core.tree().ephemeral_owners();
    let mut owned = Vec::with_capacity(owners.len());
    for owners in owners.chunks(OWNERS_PER_GUARD) {
        let tree = shared.core.tree();
        owned
            .extend(owners.iter().map(|&owner| (owner, tree.ephemerals(owner).cloned().collect())));
    }
    owned
}

fn ephemerals_in_words(text: &mut String, shared: &ServerContext) {
    let owned = ephemerals(shared);
    let _ = writeln!(text, "Sessions with Ephemerals ({}):", owned.len());
    for (owner, paths) in owned {
        let _ = writeln!(text, "{owner}:");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
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
