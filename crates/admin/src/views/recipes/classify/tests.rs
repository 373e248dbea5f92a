//! Table tests: directories as names, owners and data in, findings as text out.

use bytes::Bytes;
use herdsman_proto::{SessionId, Zxid};

use super::*;

const UUID: &str = "53345f98-9423-4e0c-a7b5-9f819e3ec2e1";
const HEX: &str = "1fcc1adf1e4b4dbb9a3ad36b0d4a6fd1";

/// A child, ephemeral if the session is not 0.
fn child(name: &str, session: i64, data: &str) -> Child {
    Child {
        name: name.to_owned(),
        session: (session != 0).then_some(SessionId(session)),
        since_ms: 100,
        czxid: Zxid(1),
        data: Bytes::copy_from_slice(data.as_bytes()),
        children: 0,
    }
}

fn directory(path: &str, data: &str, children: Vec<Child>) -> Directory {
    let data = Bytes::copy_from_slice(data.as_bytes());
    Directory { path: path.to_owned(), data, since_ms: 7, children }
}

fn words(finding: &Finding) -> String {
    let names = |nodes: &[Child]| -> String {
        let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(" ")
    };
    match finding {
        Finding::Line { path, nodes } => format!("line {path}: {}", names(nodes)),
        Finding::Latch { path, nodes } => format!("latch {path}: {}", names(nodes)),
        Finding::Leases { path, nodes } => format!("leases {path}: {}", names(nodes)),
        Finding::Semaphore { path } => format!("semaphore {path}"),
        Finding::KazooSemaphore { path, nodes } => format!("kazoo {path}: {}", names(nodes)),
        Finding::Single { path, .. } => format!("single {path}"),
        Finding::LeaderNode { path, .. } => format!("post {path}"),
        Finding::Barrier { path, kind, size, members, open, .. } => {
            let (size, open) = (size.map_or(0, |size| size), if *open { "open" } else { "shut" });
            format!("{kind} {path} {members}/{size} {open}")
        }
        Finding::Queue { path, kind, depth, .. } => format!("{kind} queue {path} {depth}"),
        Finding::Taken { path, count } => format!("taken {path} {count}"),
        Finding::Consumers { path, count } => format!("consumers {path} {count}"),
        Finding::Service { path, instances } => format!("service {path} {}", instances.len()),
        Finding::Group { path, nodes } => format!("group {path}: {}", names(nodes)),
    }
}

/// Children are written as `name`, or `name@session`, or `name=data`, or `name@session=data`.
fn check_data(path: &str, data: &str, children: &[&str], expected: &[&str]) {
    let parse = |text: &&str| {
        let (name, data) = text.split_once('=').unwrap_or((*text, ""));
        let (name, session) = name.split_once('@').unwrap_or((name, "0"));
        child(name, session.parse().expect("a session"), data)
    };
    let children = children.iter().map(parse).collect();
    let found = classify(directory(path, data, children));
    let mut found: Vec<_> = found.iter().map(words).collect();
    found.sort();
    assert_eq!(found, expected, "{path}");
}

fn check(path: &str, children: &[&str], expected: &[&str]) {
    check_data(path, "", children, expected);
}

#[test]
fn locks_of_all_layouts() {
    let curator = format!("_c_{UUID}-lock-0000000012");
    check("/a", &[&format!("{curator}@1")], &[&format!("line /a: {curator}")]);
    let kazoo = format!("{HEX}__lock__0000000003");
    check("/a", &[&format!("{kazoo}@1")], &[&format!("line /a: {kazoo}")]);
    let read = format!("_c_{UUID}-__READ__0000000001");
    check("/a", &[&format!("{read}@1")], &[&format!("line /a: {read}")]);
    check("/a", &["lock-0000000001@1"], &["line /a: lock-0000000001"]);
}

#[test]
fn similar_names_are_not_locks() {
    // Not ephemeral, or another word with the same ending.
    check("/a", &["lock-0000000001"], &[]);
    check("/a", &["block-0000000001"], &[]);
    check("/a", &["block-0000000001@1"], &["group /a: block-0000000001"]);
    check("/a", &["lock-1@1"], &["group /a: lock-1"]);
}

#[test]
fn other_children_of_a_queue_are_skipped() {
    let lock = format!("_c_{UUID}-lock-0000000001");
    check("/a", &[&format!("{lock}@1"), "README", "x@2"], &[&format!("line /a: {lock}")]);
}

#[test]
fn elections() {
    let nodes = ["_c_b-latch-0000000002@2", "_c_z-latch-0000000001@1"];
    check("/e", &nodes, &["latch /e: _c_z-latch-0000000001 _c_b-latch-0000000002"]);
    let epoch = r#"{"epoch":3,"leader":"host-1","holder":"x","resigned":false}"#;
    check("/app", &["master@1=host-1", &format!("master-epoch={epoch}")], &["post /app/master"]);
    check("/app", &["master@1=host-1", "master-epoch=3"], &["group /app: master"]);
}

#[test]
fn the_path_distinguishes_elections_from_locks() {
    for path in ["/app/leader", "/leader-election/web", "/Master", "/a/elector"] {
        assert!(is_election(path), "{path}");
    }
    for path in ["/locks/x", "/leader/x/y", "/leader/lock", "/master-lock", "/"] {
        assert!(!is_election(path), "{path}");
    }
}

#[test]
fn semaphores() {
    check("/s", &["locks", "leases"], &["semaphore /s"]);
    let lease = format!("_c_{UUID}-lease-0000000004");
    check("/s/leases", &[&format!("{lease}@1")], &[&format!("leases /s: {lease}")]);
    check("/odd", &[&format!("{lease}@1")], &[&format!("leases /odd: {lease}")]);
    check_data("/k", "3", &["__lock__", &format!("{HEX}@1")], &[&format!("kazoo /k: {HEX}")]);
}

#[test]
fn locks_of_one_node() {
    check("/jobs", &["nightly@1=host/1", "nightly-fence"], &["single /jobs/nightly"]);
    check("/", &["nightly@1=host/1", "nightly-fence"], &["single /nightly"]);
    check(
        "/jobs",
        &["nightly@1=host/1", "nightly-fence@1"],
        &["group /jobs: nightly nightly-fence"],
    );
    check("/jobs/nightly-fence", &[&format!("{UUID}@1")], &[]);
    check("/jobs/nightly-fence", &["post-1@1"], &["group /jobs/nightly-fence: post-1"]);
    check("/jobs", &["nightly@1=some words"], &["group /jobs: nightly"]);
}

#[test]
fn barriers() {
    let (one, other) = (format!("{UUID}@1"), format!("{HEX}@2"));
    check("/b", &[&one, &other, "ready"], &["double barrier /b 2/0 open"]);
    check_data("/b", "3", &[&one, &other], &["double barrier /b 2/3 shut"]);
    check("/my-Barrier", &[&one], &["double barrier /my-Barrier 1/0 shut"]);
    check_data("/b", "3", &["ready"], &["double barrier /b 0/3 open"]);
    check("/b", &["ready"], &[]);
    check("/b", &[&one], &[&format!("group /b: {UUID}")]);
    check("/deploy", &["barrier", "other"], &["barrier /deploy/barrier 0/0 shut"]);
}

#[test]
fn count_down_latches() {
    check("/r", &["migrated=2/5"], &["count-down latch /r/migrated 3/5 shut"]);
    check("/r", &["migrated=0/5"], &[]);
    check("/r/migrated", &[&format!("_op_{UUID}@1=2")], &[]);
    check("/r", &["migrated=6/5"], &[]);
    check("/r", &["ratio=1/2/3"], &[]);
    let mut open = child("migrated", 0, "0/5");
    open.children = 1;
    let found = classify(directory("/r", "", vec![open]));
    assert_eq!(words(&found[0]), "count-down latch /r/migrated 5/5 open");
}

#[test]
fn queues() {
    check("/q", &["qn-0000000001", "qn-0000000002"], &["simple queue /q 2"]);
    check("/q", &["queue-0000000001"], &["work queue /q 1"]);
    check("/q", &["queue-0000000001", "queue-1000000050000000001"], &["priority queue /q 2"]);
    check("/q", &["queue-|18BCFE56800|0000000001"], &["delay queue /q 1"]);
    check("/q", &["queue-|order 7|0000000001"], &["id queue /q 1"]);
    check("/q/entries", &["entry-100-0000000001"], &["kazoo queue /q/entries 1"]);
    check("/q-locks", &["queue-0000000001@1"], &["taken /q-locks 1"]);
    check("/q-consumers", &["_c_x-place-0000000001@1"], &["consumers /q-consumers 1"]);
    check("/t", &["_c_x-ticket-0000000001@1"], &["tickets queue /t 1"]);
    check("/q-receipts", &[&format!("{UUID}@1")], &[]);
}

#[test]
fn the_oldest_item_counts() {
    let mut old = child("qn-0000000002", 0, "");
    old.since_ms = 5;
    let found = classify(directory("/q", "", vec![child("qn-0000000001", 0, ""), old]));
    let expected =
        Finding::Queue { path: "/q".to_owned(), kind: "simple", depth: 2, oldest_ms: Some(5) };
    assert_eq!(found, [expected]);
}

#[test]
fn services() {
    let json = r#"{"name":"web","id":"web-1","address":"10.0.0.1","port":8080,"payload":null}"#;
    check("/services/web", &[&format!("web-1@1={json}")], &["service /services/web 1"]);
    // A static one, and one whose node has a number after its id.
    check("/services/web", &[&format!("web-1={json}")], &["service /services/web 1"]);
    check("/services/web", &[&format!("web-10000000001@1={json}")], &["service /services/web 1"]);
    // Of another service, of another instance, or not JSON.
    check("/services/api", &[&format!("web-1@1={json}")], &["group /services/api: web-1"]);
    check("/services/web", &[&format!("x@1={json}")], &["group /services/web: x"]);
    check("/services/web", &["web-1@1={\"name\":"], &["group /services/web: web-1"]);
}

#[test]
fn other_ephemerals_are_groups() {
    check("/brokers/ids", &["2@2=b", "1@1=a", "notes"], &["group /brokers/ids: 1 2"]);
    check("/config", &["a=1", "b=2"], &[]);
    check("/empty", &[], &[]);
}
