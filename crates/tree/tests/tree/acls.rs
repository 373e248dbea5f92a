//! Which permission each op asks for and of which znode, and which lists may be set.

use herdsman_tree::TreeOptions;

use crate::world::World;

/// Does the line succeed for `u1` when it has exactly these permissions on `/p` and `/p/kid`?
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

/// One of `wanted` on the parent, or on the znode itself, is needed and enough.
fn check(line: &str, wanted_of_parent: &str, wanted_of_kid: &str) {
    for perm in ["r", "w", "c", "d", "a"] {
        let expected = wanted_of_parent.contains(perm) || wanted_of_parent.is_empty();
        assert_eq!(allowed(line, perm, "rwcda"), expected, "{line} with {perm} on /p");
        let expected = wanted_of_kid.contains(perm) || wanted_of_kid.is_empty();
        assert_eq!(allowed(line, "rwcda", perm), expected, "{line} with {perm} on /p/kid");
    }
}

#[test]
fn every_op_asks_for_its_permission() {
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

/// What is not there is not hidden either.
#[test]
fn a_missing_znode_asks_for_nothing() {
    let mut world = World::new(TreeOptions::default(), &["create /p '' acl=digest:u2:h:rwcda"]);
    assert_eq!(world.run("u1: exists /p/no"), "NoNode");
    assert_eq!(world.run("u1: get /p/no"), "NoNode");
}

/// The list that is stored when `u1` asks for one.
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
fn lists_are_checked_and_spelled_out() {
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

#[test]
fn addresses_are_matched_by_network() {
    let mut world = World::new(
        TreeOptions::default(),
        &["create /near '' acl=ip:127.0.0.0/8:r", "create /far '' acl=ip:10.0.0.0/8:r"],
    );
    assert_eq!(world.run("get /near"), "'' c1 m1 p1 v0 cv0 av0 len0 kids0");
    assert_eq!(world.run("get /far"), "NoAuth");
}

/// Hashes of passwords are shown to those who may change them.
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
