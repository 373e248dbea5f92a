//! multi and multiRead: all or nothing, and the exact bytes of requests, txns and results.

use herdsman_proto::txn::Entry;
use herdsman_proto::{JuteReader, OpCode, Request, Txn, WriteRequest};
use herdsman_tree::TreeOptions;
use herdsman_tree::read::ReadCaller as ModelCaller;
use herdsman_tree::{Outcome, Watcher};

use crate::words;
use crate::world::{USERS, World};

fn check(line: &str, expected: &str) {
    let mut world = World::new(TreeOptions::default(), &["create /a"]);
    assert_eq!(world.run(line), expected, "{line}");
}

#[test]
fn each_operation_has_a_result() {
    check("multi", "[]");
    check("multi create /b ; delete /b ; check /a", "[/b, deleted, checked]");
    check(
        "multi set /a x v=0 ; set /a y v=1",
        "[c1 m2 p1 v1 cv0 av0 len1 kids0, c1 m2 p1 v2 cv0 av0 len1 kids0]",
    );
    check(
        "multi create2 /b ; createContainer /c",
        "[/b c2 m2 p2 v0 cv0 av0 len0 kids0, /c c2 m2 p2 v0 cv0 av0 len0 kids0]",
    );
    check(
        "multi create /a/n '' flags=2 ; create /a/n '' flags=2",
        "[/a/n0000000000, /a/n0000000001]",
    );
}

#[test]
fn one_failure_undoes_everything() {
    check("multi delete /no", "[NoNode]");
    check("multi create /b ; delete /no ; create /c", "[undone, NoNode, RuntimeInconsistency]");
    check("expired: multi create /b ; create /c", "[SessionExpired, RuntimeInconsistency]");
    check("multi create /b ; check /b v=1", "[undone, BadVersion]");
}

/// ZOOKEEPER-1624: a failed multi must not use up sequence numbers.
#[test]
fn a_failed_multi_leaves_no_trace() {
    let mut world = World::new(TreeOptions::default(), &["create /a x", "create /a/old"]);
    let before = (world.tree.digest(), world.tree.node_count(), world.tree.data_size());
    let failing = "multi create /a/n '' flags=2 ; set /a y ; delete /a/old ; create /b ; create /b/c '' flags=3 ; delete /no";
    assert_eq!(world.run(failing), "[undone, undone, undone, undone, undone, NoNode]");
    assert_eq!(before, (world.tree.digest(), world.tree.node_count(), world.tree.data_size()));
    assert_eq!(world.run("create /a/n '' flags=2"), "/a/n0000000001");
    assert_eq!(world.run("ephemerals"), "[]");
}

/// The failed multi is logged: the operations before the failure stay as they were prepared.
#[test]
fn a_failed_multi_is_still_a_multi_txn() {
    let mut world = World::new(TreeOptions::default(), &[]);
    let digest = world.tree.digest();
    let line = "multi create /b ; delete /no ; create /c";
    let (Entry { txn, digest: recorded, .. }, _) =
        world.write(USERS[0], line, &mut herdsman_tree::Events::new());
    let Txn::Multi(txns) = txn else { panic!("{txn:?}") };
    let ops: Vec<_> = txns.iter().map(Txn::op).collect();
    assert_eq!(ops, [OpCode::Create, OpCode::Error, OpCode::Error]);
    assert_eq!(txns[1..], [Txn::Error(-101), Txn::Error(-2)]);
    assert_eq!(recorded.map(|digest| digest.tree_digest), Some(digest));
}

/// Concatenates bytes in hex, which may contain spaces.
fn hex(pieces: &[&str]) -> Vec<u8> {
    let digits: String = pieces.concat().chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// type, done, err
const END: &str = "ffffffff 01 ffffffff";
/// `/a`
const PATH: &str = "00000002 2f61";
/// world:anyone:31, once
const ACL: &str = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65";

#[test]
fn a_multi_request_is_read_from_apaches_bytes() {
    let create = ["00000001 00 ffffffff", PATH, "00000001 78", ACL, "00000000"].concat();
    let delete = ["00000002 00 ffffffff", PATH, "00000007"].concat();
    let set = ["00000005 00 ffffffff", PATH, "ffffffff", "ffffffff"].concat();
    let check = ["0000000d 00 ffffffff", PATH, "00000003"].concat();
    let bytes = hex(&[&create, &delete, &set, &check, END]);
    let mut reader = JuteReader::new(&bytes);
    let line = "multi create /a x ; delete /a v=7 ; set /a - ; check /a v=3";
    assert_eq!(Request::decode(OpCode::Multi, &mut reader), Ok(Request::Write(words::write(line))));
    assert!(reader.is_empty());
}

/// Ops that are not allowed in a multi, reads among writes, and lists that do not end.
#[test]
fn other_multi_requests_are_rejected() {
    for pieces in [
        &["00000007 00 ffffffff", PATH, ACL, "ffffffff", END][..],
        &["00000004 00 ffffffff", PATH, "00", END],
        &["0000000e 00 ffffffff", END, END],
        &["00000063 00 ffffffff", END],
        &["00000002 00 ffffffff", PATH, "00000007"],
        &["00000001 00 ffffffff", PATH, "00000001 78", ACL, "00000009", END],
        &[],
    ] {
        let bytes = hex(pieces);
        let request = Request::decode(OpCode::Multi, &mut JuteReader::new(&bytes));
        assert!(request.is_err(), "{request:?}");
    }
    let empty = hex(&[END]);
    let request = Request::decode(OpCode::Multi, &mut JuteReader::new(&empty));
    assert_eq!(request, Ok(Request::Write(WriteRequest::Multi(Vec::new()))));
}

fn reply(outcome: &Outcome) -> Vec<u8> {
    let mut out = Vec::new();
    outcome.encode_reply(&mut out).expect("a multi has a body, even a failed one");
    out
}

/// A stat with czxid 1, and everything else as given in hex.
fn stat(mzxid: &str, version: &str, length: &str) -> String {
    let long = |hex: &str| format!("{hex:0>16}");
    let int = |hex: &str| format!("{hex:0>8}");
    // World's clock advances by 1000 for each txn: 0x3e8, 0x7d0.
    let mtime = if mzxid == "1" { "3e8" } else { "7d0" };
    [
        long("1"),
        long(mzxid),
        long("3e8"),
        long(mtime),
        int(version),
        int("0"),
        int("0"),
        long("0"),
        int(length),
        int("0"),
        long("1"),
    ]
    .concat()
}

#[test]
fn multi_results_are_apaches_bytes() {
    let check = |line: &str, expected: &[&str]| {
        let mut world = World::new(TreeOptions::default(), &["create /a"]);
        let (_, outcome) = world.write(USERS[0], line, &mut herdsman_tree::Events::new());
        assert_eq!(reply(&outcome), hex(expected), "{line}");
    };
    check("multi", &[END]);
    let created = "00000001 00 00000000 00000002 2f62";
    check("multi create /b ; delete /b", &[created, "00000002 00 00000000", END]);
    check(
        "multi check /a ; set /a xy",
        &["0000000d 00 00000000", "00000005 00 00000000", &stat("2", "1", "2"), END],
    );
    let undone = "ffffffff 00 00000000 00000000";
    let no_node = "ffffffff 00 ffffff9b ffffff9b";
    let behind = "ffffffff 00 fffffffe fffffffe";
    check("multi create /b ; delete /c ; create /d", &[undone, no_node, behind, END]);
}

/// create2, createContainer and createTTL are all reported as create2.
#[test]
fn creates_with_a_stat_are_reported_as_create2() {
    for line in ["create2 /b", "createContainer /b", "createTTL /b"] {
        let mut world = World::new(crate::scripts::options(true), &[]);
        let (_, outcome) =
            world.write(USERS[0], &format!("multi {line}"), &mut herdsman_tree::Events::new());
        let header = hex(&["0000000f 00 00000000 00000002 2f62", &stat("1", "0", "0"), END]);
        assert_eq!(reply(&outcome), header, "{line}");
    }
}

#[test]
fn multi_read_results_are_apaches_bytes() {
    let world = World::new(TreeOptions::default(), &["create /a xy"]);
    let bytes = hex(&[
        "00000004 00 ffffffff",
        PATH,
        "01",
        "00000008 00 ffffffff",
        PATH,
        "01",
        "00000008 00 ffffffff 00000002 2f62 00",
        END,
    ]);
    let Ok(Request::Read(request)) =
        Request::decode(OpCode::MultiRead, &mut JuteReader::new(&bytes))
    else {
        panic!("a multiRead");
    };
    let asking = ModelCaller { session: USERS[0].session, watcher: Watcher(1), ids: &[] };
    let mut out = Vec::new();
    world.tree.read(asking, &request, &mut out).expect("each read fails on its own");
    let data = ["00000004 00 00000000 00000002 7879", &stat("1", "0", "2")].concat();
    let expected =
        hex(&[&data, "00000008 00 00000000 00000000", "ffffffff 00 ffffff9b ffffff9b", END]);
    assert_eq!(out, expected);
    assert_eq!(world.tree.watches().count(), 0, "a read in a multiRead sets no watch");
}
