//! The permissions that each op needs and on which znode, and the lists that may be set.

use herdsman_proto::limits::ACL_ENTRIES_MAX;
use herdsman_proto::request::CreateRequest;
use herdsman_proto::{
    Acl, ErrorCode, Id, OpCode, Perms, SessionId, Txn, TxnHeader, WriteRequest, Zxid,
};
use herdsman_tree::{Caller, Overlay, Tree, TreeOptions};

use crate::world::World;

/// Whether the line succeeds for `u1` when it has exactly these permissions on `/p` and `/p/kid`.
fn allowed(line: &str, parent: &str, kid: &str) -> bool {
    let entry = |perms: &str| format!("digest:u2:h:rwcda,digest:u1:h:{perms}");
    let setup = [
        &*format!("super: create /p '' acl={}", entry(parent)),
        &*format!("super: create /p/kid x acl={}", entry(kid)),
    ];
    let mut world = World::new(TreeOptions::default(), &setup);
    let answer = world.run(&format!("u1: {line}"));
    let refused = answer.contains("NoAuth");
    assert!(refused || !answer.contains("No"), "{line}: {answer}");
    assert!(!world.run(&format!("super: {line}")).contains("NoAuth"));
    !refused
}

/// Checks that one of `wanted` on the parent, or on the znode itself, is necessary and sufficient.
fn check(line: &str, wanted_of_parent: &str, wanted_of_kid: &str) {
    for perm in ["r", "w", "c", "d", "a"] {
        let expected = wanted_of_parent.contains(perm) || wanted_of_parent.is_empty();
        assert_eq!(allowed(line, perm, "rwcda"), expected, "{line} with {perm} on /p");
        let expected = wanted_of_kid.contains(perm) || wanted_of_kid.is_empty();
        assert_eq!(allowed(line, "rwcda", perm), expected, "{line} with {perm} on /p/kid");
    }
}

#[test]
fn every_op_needs_its_permission() {
    check("create /p/new", "c", "");
    check("create2 /p/new", "c", "");
    check("createContainer /p/new", "c", "");
    check("delete /p/kid", "d", "");
    check("set /p/kid y", "", "w");
    check("setacl /p/kid world:anyone:r", "", "a");
    check("multi check /p/kid", "", "r");
    check("exists /p/kid", "", "r");
    check("get /p/kid", "", "r");
    check("ls /p/kid", "", "r");
    check("ls2 /p/kid", "", "r");
    check("count /p/kid", "", "r");
    check("getacl /p/kid", "", "ra");
    check("multiRead get /p/kid", "", "r");
    check("multiRead ls /p/kid", "", "r");
    check("addWatch /p/kid", "", "");
}

/// A missing znode is not hidden either.
#[test]
fn a_missing_znode_needs_no_permission() {
    let mut world = World::new(TreeOptions::default(), &["create /p '' acl=digest:u2:h:rwcda"]);
    assert_eq!(world.run("u1: exists /p/no"), "NoNode");
    assert_eq!(world.run("u1: get /p/no"), "NoNode");
}

/// Checks the list that is stored when `u1` sets this one.
fn check_stored(wanted: &str, expected: &str) {
    let mut world = World::new(TreeOptions::default(), &[]);
    let answer = world.run(&format!("u1: create /a '' acl={wanted}"));
    let stored = match answer.as_str() {
        "/a" => world.run("super: getacl /a").split(' ').next().unwrap_or_default().to_owned(),
        error => error.to_owned(),
    };
    assert_eq!(stored, expected, "{wanted}");
}

#[test]
fn lists_are_checked_and_expanded() {
    check_stored("world:anyone:rwcda", "world:anyone:31");
    check_stored("world:anyone:r,world:anyone:r", "world:anyone:1");
    check_stored("world:anyone:r,world:anyone:w", "world:anyone:1,world:anyone:2");
    check_stored("auth::rwcda", "digest:u1:h:31");
    check_stored("auth:anything:r,world:anyone:r", "digest:u1:h:1,world:anyone:1");
    check_stored("digest:u1:h:r,ip:10.0.0.0/8:w", "digest:u1:h:1,ip:10.0.0.0/8:2");
    check_stored("-", "InvalidAcl");
    check_stored("world:me:r", "InvalidAcl");
    check_stored("world:anyone:r,sasl:u:r", "InvalidAcl");
    check_stored("digest:u1:r", "InvalidAcl");
    check_stored("ip:10.0.0.0/33:r", "InvalidAcl");
    let mut world = World::new(TreeOptions::default(), &[]);
    assert_eq!(world.run("anon: create /a '' acl=auth::r"), "InvalidAcl");
}

/// Checked before permissions and before the parent, like every error of a list.
#[test]
fn the_entries_of_a_list_are_limited() {
    let list = |count: usize| {
        let entries = (0..count).map(|i| format!("digest:user{i}:h:r"));
        entries.collect::<Vec<_>>().join(",")
    };
    let (longest, too_long) = (list(ACL_ENTRIES_MAX), list(ACL_ENTRIES_MAX + 1));
    let mut world = World::new(TreeOptions::default(), &["create /a '' acl=world:anyone:a"]);
    assert_eq!(world.run(&format!("create /b '' acl={longest}")), "/b");
    for (path, otherwise) in [("/c", "/c"), ("/no/c", "NoNode"), ("/a/c", "NoAuth")] {
        assert_eq!(world.run(&format!("create {path} '' acl={too_long}")), "InvalidAcl");
        assert_eq!(world.run(&format!("create {path} '' acl={longest}")), otherwise);
    }
    assert_eq!(world.run(&format!("setacl /a {too_long}")), "InvalidAcl");
    assert!(!world.run(&format!("setacl /a {longest}")).contains("Invalid"));
    // An entry that is named twice counts twice and is stored once.
    let doubled = format!("{0},{0}", list(ACL_ENTRIES_MAX / 2));
    assert_eq!(world.run(&format!("create /d '' acl={doubled}")), "/d");
    let stored = world.run("super: getacl /d");
    assert_eq!(stored.matches(":h:1").count(), ACL_ENTRIES_MAX / 2);
}

/// A short `auth` entry expands to all ids of the caller, which may be long.
#[test]
fn the_expansion_of_a_request_is_limited() {
    let long_id = Id::new("digest", &format!("{}:h", "u".repeat(60_000)));
    let many: Vec<_> = (0..60).map(|i| Id::new("digest", &format!("u{i}:h"))).collect();
    let auth = |count: i32| -> Vec<Acl> {
        (1..=count).map(|perms| Acl { perms: Perms(perms), id: Id::new("auth", "") }).collect()
    };
    let create = |path: &str, acl| {
        let path = path.to_owned().into();
        let op = OpCode::Create;
        WriteRequest::Create(CreateRequest { op, path, data: None, acl, flags: 0, ttl_ms: None })
    };
    let check = |ids: &[Id], write: &WriteRequest<'_>, expected: Option<ErrorCode>| {
        let tree = Tree::new(TreeOptions::default());
        let mut overlay = Overlay::new(0);
        let (session, zxid) = (SessionId(1), Zxid(1));
        let header = TxnHeader { session, cxid: 0, zxid, time_ms: 0 };
        let caller = Caller { ids, refused: None, ephemerals_refused: None };
        let entry = overlay.prepare(&tree, header, caller, write);
        match expected {
            Some(code) => {
                let errors = match &entry.txn {
                    Txn::Multi(txns) => txns.iter().filter(|txn| **txn == Txn::error(code)).count(),
                    single => usize::from(*single == Txn::error(code)),
                };
                assert_eq!((errors, overlay.len()), (1, 0), "{write:?}");
            }
            None => assert!(!overlay.is_empty(), "{write:?}"),
        }
    };
    let long_ids = [long_id];
    check(&long_ids, &create("/a", auth(2)), None);
    check(&long_ids, &create("/a", auth(3)), Some(ErrorCode::BadArguments));
    check(&many, &create("/a", auth(17)), None);
    check(&many, &create("/a", auth(18)), Some(ErrorCode::InvalidAcl));
    let multi = |count: usize| {
        WriteRequest::Multi((0..count).map(|i| create(&format!("/{i}"), auth(1))).collect())
    };
    check(&long_ids, &multi(2), None);
    check(&long_ids, &multi(3), Some(ErrorCode::BadArguments));
    // With ids of ordinary length, the length of a request is not limited here.
    check(&many[..4], &multi(10_000), None);
}

#[test]
fn addresses_are_matched_by_network() {
    let mut world = World::new(
        TreeOptions::default(),
        &["create /near '' acl=ip:127.0.0.0/8:r", "create /far '' acl=ip:10.0.0.0/8:r"],
    );
    assert_eq!(world.run("get /near"), "'' c1 m1 p1 v0 cv0 av0 len0 kids0");
    assert_eq!(world.run("get /far"), "NoAuth");
}

/// Password hashes are shown to clients that may change them.
#[test]
fn get_acl_masks_hashes() {
    let list = "digest:u1:h:a,digest:u2:h:r,ip:127.0.0.1:r";
    let mut world = World::new(TreeOptions::default(), &[&format!("create /a '' acl={list}")]);
    let mut check = |user: &str, expected: &str| {
        let answer = world.run(&format!("{user}: getacl /a"));
        assert_eq!(answer, format!("{expected} c1 m1 p1 v0 cv0 av0 len0 kids0"), "{user}");
    };
    check("super", "digest:u1:h:16,digest:u2:h:1,ip:127.0.0.1:1");
    check("u1", "digest:u1:h:16,digest:u2:h:1,ip:127.0.0.1:1");
    check("u2", "digest:u1:x:16,digest:u2:x:1,ip:127.0.0.1:1");
    check("anon", "digest:u1:x:16,digest:u2:x:1,ip:127.0.0.1:1");
}

#[test]
fn acl_checks_can_be_skipped() {
    let options = TreeOptions { skip_acl: true, ..TreeOptions::default() };
    let mut world = World::new(options, &["create /a '' acl=digest:u1:h:r"]);
    assert_eq!(world.run("u2: create /a/b"), "/a/b");
    assert_eq!(world.run("u2: setacl /a world:anyone:r"), "c1 m1 p2 v0 cv1 av1 len0 kids1");
}
