//! Reads what servers log in ensembles: how a server was synchronized, and problems that Apache's servers
//! report (they log what `interop/zookeeper/logback-ensemble.xml` configures).
//!
//! Connections break in these tests, so exceptions that only report that do not count. Everything else that
//! Apache logs as an error counts, and so do warnings that it logs only for peers that violate the
//! protocol.

use crate::server::Program;

/// How a learner was synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It got the missing txns.
    Diff,
    /// It got a snapshot.
    Snap,
    /// It had to drop its last transactions first.
    Trunc,
}

const APACHE_WORDS: &[(&str, Sync)] = &[
    ("Learner Getting a diff from the leader", Sync::Diff),
    ("Learner Getting a snapshot from leader", Sync::Snap),
    ("Learner Truncating log to get in sync", Sync::Trunc),
];
const HERDSMAN_WORDS: &[(&str, Sync)] = &[
    ("(DIFF); ready", Sync::Diff),
    ("(SNAP); ready", Sync::Snap),
    ("(TRUNC); ready", Sync::Trunc),
];

/// The last synchronization of the server with this log.
pub fn last_sync(program: Program, log: &str) -> Option<Sync> {
    log.lines().rev().find_map(|line| sync_in(program, line))
}

/// The line about the first synchronization of this kind.
pub fn first_sync(program: Program, log: &str, kind: Sync) -> Option<&str> {
    log.lines().find(|line| sync_in(program, line) == Some(kind))
}

fn sync_in(program: Program, line: &str) -> Option<Sync> {
    let words = match program {
        Program::Herdsman => HERDSMAN_WORDS,
        Program::Apache | Program::Apache38 => APACHE_WORDS,
    };
    words.iter().find(|(word, _)| line.contains(word)).map(|(_, sync)| *sync)
}

/// Exceptions that report that a connection was lost or a server was shut down.
const BROKEN_CONNECTIONS: &[&str] = &[
    "java.io.EOFException",
    "java.io.IOException: Broken pipe",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.lang.InterruptedException",
];

/// Errors of correct servers. Apache logs the first one also among its own: it finds no common history and sends a
/// snapshot. The second one is about FETCH, with which a damaged server of ours asks each other server for records.
const USUAL_ERRORS: &[&str] = &["fall back to use snapshot", "First packet 1213399041,"];

/// Warnings about packets that no correct peer sends.
const PROTOCOL_WARNINGS: &[&str] = &[
    "unexpected quorum packet",
    "Unknown packet type",
    "Committing 0x",
    "without seeing txn",
    "Not expecting a sync",
    "Ignoring proposal",
    "Ignoring commit",
    "malformed response message",
    "Notification state unrecognized",
    "received before ACK",
    "future proposal",
    "not first!",
    "is from a different epoch",
];

/// Messages about differing digests.
const MISMATCHES: &[&str] = &["digest mismatch", "Digests are not matching"];

/// Lines that report a mistake of some server: all errors except those about lost connections, and warnings
/// about the protocol.
pub fn complaints(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let is_complaint = |index: &usize| {
        let line = lines[*index];
        let behind = lines.get(index + 1).copied().unwrap_or_default();
        let broken = BROKEN_CONNECTIONS.iter().any(|exception| behind.starts_with(exception));
        let usual = broken || USUAL_ERRORS.iter().any(|words| line.contains(words));
        let error = level(line) == Some("ERROR") && !usual && !is_mismatch(line);
        error || is_protocol_warning(line)
    };
    let with_exception = |index: usize| [Some(lines[index]), lines.get(index + 1).copied()];
    (0..lines.len()).filter(is_complaint).flat_map(with_exception).flatten().collect()
}

/// Lines about packets that no correct peer sends.
pub fn protocol_warnings(log: &str) -> Vec<&str> {
    log.lines().filter(|line| is_protocol_warning(line)).collect()
}

fn is_protocol_warning(line: &str) -> bool {
    PROTOCOL_WARNINGS.iter().any(|word| line.contains(word))
}

/// Lines about digests that differ.
pub fn mismatches(log: &str) -> Vec<&str> {
    log.lines().filter(|line| is_mismatch(line)).collect()
}

/// The same, without those after a snapshot from the leader. Apache sends one while it continues to write,
/// and the learner compares digests before it has caught up with what the snapshot already contains; an
/// ensemble of Apache's servers alone does that too.
pub fn unexcused_mismatches(log: &str) -> Vec<&str> {
    let mut fuzzy = false;
    let mut found = Vec::new();
    for line in log.lines() {
        if let Some(sync) = last_sync(Program::Apache, line) {
            fuzzy = sync == Sync::Snap;
        }
        if is_mismatch(line) && !fuzzy {
            found.push(line);
        }
    }
    found
}

fn is_mismatch(line: &str) -> bool {
    MISMATCHES.iter().any(|word| line.contains(word))
}

/// The second word, after the time.
fn level(line: &str) -> Option<&str> {
    line.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_connections_are_not_complaints() {
        let log = "22:58:03.866 ERROR LearnerHandler Unexpected exception in LearnerHandler: \n\
            java.io.EOFException: null\n\
            22:58:03.867 WARN  Learner Exception when following the leader\n";
        assert!(complaints(log).is_empty());
        let log = "22:58:03.866 ERROR LearnerHandler Unexpected exception in LearnerHandler: \n\
            java.lang.IllegalStateException: no\n";
        assert_eq!(complaints(log).len(), 2);
        assert!(protocol_warnings(log).is_empty());
        let fetch = "20:13:29.604 ERROR LearnerHandler First packet 1213399041,8589934617,#00,v{}\n\
            \x20is not FOLLOWERINFO or OBSERVERINFO!\n";
        assert!(complaints(fetch).is_empty());
        assert_eq!(complaints(&fetch.replace("1213399041", "17")).len(), 2);
        let log = "22:58:03.866 WARN  Follower Unknown packet type: 99\n";
        assert_eq!(complaints(log).len(), 1);
        assert_eq!(protocol_warnings(log).len(), 1);
    }

    #[test]
    fn mismatches_after_a_snapshot_are_excused_until_the_next_sync() {
        let snap = "22:58:37.878 INFO  Learner Getting a snapshot from leader 0x600000722\n";
        let diff = "22:58:37.878 INFO  Learner Getting a diff from the leader 0x600000722\n";
        let mismatch =
            "22:58:37.915 WARN  DataTree Message:Digests are not matching. Value is Zxid.\n";
        let log = format!("{snap}{mismatch}{diff}{mismatch}");
        assert_eq!(mismatches(&log).len(), 2);
        assert_eq!(unexcused_mismatches(&log).len(), 1);
        assert_eq!(last_sync(Program::Apache, &log), Some(Sync::Diff));
        assert_eq!(last_sync(Program::Herdsman, &log), None);
    }
}
