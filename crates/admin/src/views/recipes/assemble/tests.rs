//! Tests: findings in, views out.

use bytes::Bytes;
use herdsman_proto::Zxid;

use super::*;

fn node(name: &str, session: i64, czxid: i64) -> Child {
    Child {
        name: name.to_owned(),
        session: Some(SessionId(session)),
        since_ms: czxid * 10,
        czxid: Zxid(czxid),
        data: Bytes::from_static(b"host/1"),
        children: 0,
    }
}

fn line(path: &str, nodes: Vec<Child>) -> Finding {
    Finding::Line { path: path.to_owned(), nodes }
}

fn shown(found: Vec<Finding>) -> Recipes {
    assemble(found, &Peers::new()).0
}

fn holders(lock: &LockView) -> Vec<&str> {
    lock.holders.iter().map(|holder| holder.node.as_str()).collect()
}

fn waiters(lock: &LockView) -> Vec<(&str, Vec<&str>)> {
    let one = |waiter: &WaiterView| waiter.waits_for.clone();
    let waits: Vec<Vec<String>> = lock.waiters.iter().map(one).collect();
    assert!(waits.iter().all(|names| !names.is_empty()), "a waiter waits for at least one node");
    let names = lock.waiters.iter().map(|waiter| waiter.place.node.as_str());
    let waits = lock.waiters.iter().map(|waiter| waiter.waits_for.iter().map(String::as_str));
    names.zip(waits.map(Iterator::collect)).collect()
}

#[test]
fn the_lowest_number_holds_a_lock_whatever_its_name() {
    let (a, b, c) = ("_c_z-lock-0000000001", "_c_a-lock-0000000002", "_c_m-lock-0000000010");
    let nodes = vec![node(c, 3, 30), node(a, 1, 10), node(b, 2, 20)];
    let peer = "192.0.2.1:5000".parse().unwrap();
    let peers = Peers::from([(SessionId(1), peer)]);
    let (recipes, lines) = assemble(vec![line("/l", nodes)], &peers);
    let lock = &recipes.locks[0];
    assert_eq!((lock.path.as_str(), lock.kind, lock.layout), ("/l", "lock", "curator"));
    let holder = NodeView {
        node: a.to_owned(),
        session: Some("0x1".to_owned()),
        since_ms: 100,
        payload: Some("host/1".to_owned()),
        peer: Some("192.0.2.1:5000".to_owned()),
        mode: None,
    };
    assert_eq!(lock.holders, [holder]);
    assert_eq!(waiters(lock), [(b, vec![a]), (c, vec![b])]);
    assert_eq!((lock.holders_total, lock.waiters_total), (1, 2));
    assert_eq!(lines["/l"].len(), 3);
}

#[test]
fn readers_share_a_lock_until_the_first_writer() {
    let name = |marker: &str, number: u32| format!("_c_x-__{marker}__{number:010}");
    let nodes = vec![
        node(&name("READ", 1), 1, 1),
        node(&name("READ", 2), 2, 2),
        node(&name("WRIT", 3), 3, 3),
        node(&name("READ", 4), 4, 4),
        node(&name("WRIT", 5), 5, 5),
    ];
    let recipes = shown(vec![line("/rw", nodes)]);
    let lock = &recipes.locks[0];
    assert_eq!(lock.kind, "read-write lock");
    assert_eq!(holders(lock), [name("READ", 1), name("READ", 2)]);
    assert!(lock.holders.iter().all(|holder| holder.mode == Some("read")));
    let (r1, r2, w3, r4) = (name("READ", 1), name("READ", 2), name("WRIT", 3), name("READ", 4));
    let expected = [
        (w3.as_str(), vec![r1.as_str(), r2.as_str()]),
        (r4.as_str(), vec![w3.as_str()]),
        (&name("WRIT", 5), vec![r4.as_str()]),
    ];
    assert_eq!(waiters(lock), expected);
    assert_eq!(lock.waiters[0].place.mode, Some("write"));
}

#[test]
fn a_queue_at_the_path_of_a_leader_is_an_election_and_blocks_no_client() {
    let nodes = vec![node("_c_b-lock-0000000002", 2, 2), node("_c_a-lock-0000000001", 1, 1)];
    let (recipes, lines) = assemble(vec![line("/app/leader", nodes)], &Peers::new());
    assert!(recipes.locks.is_empty() && lines.is_empty());
    let election = &recipes.elections[0];
    assert_eq!(election.leader.as_ref().unwrap().node, "_c_a-lock-0000000001");
    assert_eq!(election.candidates[0].waits_for, ["_c_a-lock-0000000001"]);
    assert_eq!(election.candidates_total, 1);
}

#[test]
fn a_latch_has_a_leader_and_candidates() {
    let nodes = vec![node("_c_b-latch-0000000001", 2, 1), node("_c_a-latch-0000000002", 1, 2)];
    let recipes = shown(vec![Finding::Latch { path: "/latch".to_owned(), nodes }]);
    let election = &recipes.elections[0];
    assert_eq!(election.leader.as_ref().unwrap().session.as_deref(), Some("0x2"));
    assert_eq!(election.candidates[0].waits_for, ["_c_b-latch-0000000001"]);
}

#[test]
fn a_semaphore_is_assembled_from_its_permits_and_its_queue() {
    let leases = vec![
        node("_c_a-lease-0000000001", 1, 11),
        node("_c_b-lease-0000000002", 2, 12),
        // Created by the first client in the queue while it collects, so not held yet.
        node("_c_c-lease-0000000003", 3, 21),
    ];
    let waiting = vec![node("_c_d-lock-0000000009", 4, 22), node("_c_c-lock-0000000008", 3, 20)];
    let (recipes, lines) = assemble(
        vec![
            Finding::Semaphore { path: "/s".to_owned() },
            line("/s/locks", waiting),
            Finding::Leases { path: "/s".to_owned(), nodes: leases },
        ],
        &Peers::new(),
    );
    assert_eq!(recipes.locks.len(), 1);
    let lock = &recipes.locks[0];
    assert_eq!((lock.path.as_str(), lock.kind), ("/s", "semaphore"));
    let held = vec!["_c_a-lease-0000000001", "_c_b-lease-0000000002"];
    assert_eq!(holders(lock), held);
    let (first, second) = ("_c_c-lock-0000000008", "_c_d-lock-0000000009");
    assert_eq!(waiters(lock), [(first, held), (second, vec![first])]);
    // Waiters need any one of the holders to release, so there is no cycle.
    assert!(lines.is_empty());
}

#[test]
fn an_idle_semaphore_is_not_shown() {
    assert!(shown(vec![Finding::Semaphore { path: "/s".to_owned() }]).locks.is_empty());
}

#[test]
fn queues_are_shown_with_their_consumers() {
    let queue = |path: &str| Finding::Queue {
        path: path.to_owned(),
        kind: "work",
        depth: 3,
        oldest_ms: Some(1),
    };
    let recipes = shown(vec![
        Finding::Taken { path: "/q-locks".to_owned(), count: 2 },
        Finding::Consumers { path: "/idle-consumers".to_owned(), count: 4 },
        queue("/q"),
        queue("/alone"),
    ]);
    let shown_queues: Vec<_> = recipes
        .queues
        .iter()
        .map(|queue| (queue.path.as_str(), queue.kind, queue.taken, queue.consumers_waiting))
        .collect();
    let expected =
        [("/alone", "work", None, 0), ("/idle", "empty", None, 4), ("/q", "work", Some(2), 0)];
    assert_eq!(shown_queues, expected);
}

#[test]
fn long_lists_are_truncated_and_say_so() {
    let nodes: Vec<_> =
        (0..300).map(|i| node(&format!("_c_x-lock-{i:010}"), i + 1, i + 1)).collect();
    let recipes = shown(vec![line("/l", nodes)]);
    let lock = &recipes.locks[0];
    assert_eq!((lock.waiters.len(), lock.waiters_total), (NODES_MAX, 299));
    assert!(!recipes.truncated);
    let many =
        (0..=SHOWN_MAX).map(|i| line(&format!("/{i:05}"), vec![node("lock-0000000001", 1, 1)]));
    let recipes = shown(many.collect());
    assert_eq!(recipes.locks.len(), SHOWN_MAX);
    assert!(recipes.truncated);
    assert!(recipes.locks.is_sorted_by(|one, other| one.path < other.path));
}
