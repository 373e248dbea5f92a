//! Detects deadlocks across all locks.
//!
//! In: the contenders of locks, read at different moments, and a function that checks later whether
//! nodes still exist. Out: cycles that were real when the last of them was read. A node that was deleted since it was
//! read, and with it its wait, would raise a false alarm; so the locks of a cycle are read once more, and only nodes
//! that still exist count: all of them existed at the moment between the two. Names are never used twice and nodes
//! never change their order, so each existing node waits for the existing nodes before it.

use std::collections::BTreeSet;

use herdsman_recipes::lock::{Contender, queues};
use herdsman_recipes::wait_for::{Deadlock, LockQueue, WaitForGraph};

use super::assemble::Lines;
use super::model::{DeadlockStep, DeadlockView};

/// Finds the deadlocks in these queues. `present` is called once, with all contenders of the locks in question,
/// and must remove those that no longer exist.
pub fn find(lines: &Lines, present: impl FnOnce(&mut Lines)) -> Vec<DeadlockView> {
    let suspected = deadlocks(lines.clone());
    if suspected.is_empty() {
        return Vec::new();
    }
    let paths: BTreeSet<&str> =
        suspected.iter().flat_map(|one| &one.cycle).map(|wait| wait.path.as_str()).collect();
    let of_circles = lines.iter().filter(|(path, _)| paths.contains(path.as_str()));
    let mut again: Lines = of_circles.map(|(path, line)| (path.clone(), line.clone())).collect();
    present(&mut again);
    deadlocks(again).iter().map(view).collect()
}

fn deadlocks(lines: Lines) -> Vec<Deadlock> {
    let locks: Vec<(String, Vec<Contender>)> =
        lines.into_iter().filter(|(_, line)| line.len() > 1).collect();
    // A single contender in a queue neither waits nor blocks another one.
    let locks: Vec<LockQueue> = queues(locks);
    WaitForGraph::new(&locks).deadlocks()
}

fn view(deadlock: &Deadlock) -> DeadlockView {
    let waits = &deadlock.cycle;
    let before = (0..waits.len()).map(|i| &waits[(i + waits.len() - 1) % waits.len()]);
    let cycle = waits.iter().zip(before).map(|(wait, before)| DeadlockStep {
        session: session_of(&wait.waiter).to_owned(),
        holds: before.path.clone(),
        waits_for: wait.path.clone(),
    });
    DeadlockView {
        cycle: cycle.collect(),
        also_stuck: deadlock.stuck.len(),
        text: deadlock.to_string(),
    }
}

/// The session of an owner, whose name is its session and a text.
fn session_of(owner: &str) -> &str {
    owner.split_once(' ').map_or(owner, |(session, _)| session)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use herdsman_proto::{SessionId, Zxid};
    use herdsman_recipes::lock::{LineNode, contenders};

    use super::*;

    fn lines(locks: &[(&str, &[i64])]) -> Lines {
        let line = |sessions: &[i64]| {
            let nodes = sessions.iter().enumerate().map(|(i, session)| LineNode {
                name: format!("_c_{session}-lock-{i:010}"),
                session: SessionId(*session),
                data: Bytes::from_static(b"host"),
                czxid: Zxid(i as i64),
            });
            contenders(nodes.collect())
        };
        locks.iter().map(|(path, sessions)| ((*path).to_owned(), line(sessions))).collect()
    }

    #[test]
    fn a_cycle_is_reported_lock_by_lock() {
        let lines = lines(&[("/x", &[1, 2]), ("/y", &[2, 3]), ("/z", &[3, 1]), ("/free", &[9])]);
        let found = find(&lines, |again| assert_eq!(again.len(), 3));
        assert_eq!(found.len(), 1);
        let steps: Vec<_> = found[0]
            .cycle
            .iter()
            .map(|one| (one.session.as_str(), one.holds.as_str(), one.waits_for.as_str()))
            .collect();
        assert_eq!(steps, [("0x1", "/x", "/z"), ("0x3", "/z", "/y"), ("0x2", "/y", "/x")]);
        let expected = "0x1 host waits for /z held by 0x3 host; 0x3 host waits for /y held by 0x2 \
                        host; 0x2 host waits for /x held by 0x1 host";
        assert_eq!(found[0].text, expected);
    }

    #[test]
    fn deleted_nodes_raise_no_alarm() {
        let lines = lines(&[("/x", &[1, 2]), ("/y", &[2, 1])]);
        let delete = |again: &mut Lines| again.get_mut("/y").unwrap().truncate(1);
        assert!(find(&lines, delete).is_empty());
        assert_eq!(find(&lines, |_| {}).len(), 1);
    }

    #[test]
    fn without_a_cycle_nothing_is_checked_again() {
        let lines = lines(&[("/x", &[1, 2]), ("/y", &[1, 2])]);
        assert!(find(&lines, |_| panic!("there is nothing to confirm")).is_empty());
    }
}
