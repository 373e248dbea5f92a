//! The error of a request with several faults: clients can see the order of the checks.

use herdsman_proto::ErrorCode;
use herdsman_tree::TreeOptions;
use herdsman_tree::owner::OwnerRules;

use crate::world::World;

const SETUP: &[&str] = &[
    "create /a",
    "create /a/kid",
    "create /locked '' acl=digest:u1:h:rwcda",
    "u1: create /locked/kid '' acl=digest:u1:h:rwcda",
    "create /mine '' flags=1",
];

fn check(line: &str, expected: &str) {
    check_with(TreeOptions::default(), line, expected);
}

fn check_with(options: TreeOptions, line: &str, expected: &str) {
    let mut world = World::new(options, SETUP);
    assert_eq!(world.run(line), expected, "{line:?}");
}

/// Each line also has the faults of all lines below it, as far as they can be combined.
#[test]
fn create_checks_in_apaches_order() {
    check("expired: create a flags=9 acl=-", "BadArguments");
    check("expired: create a flags=5 acl=-", "Unimplemented");
    check("expired: createTTL a flags=0 ttl=5 acl=-", "BadArguments");
    check("expired: create a acl=-", "SessionExpired");
    check("moved: create a acl=-", "SessionMoved");
    check("create a acl=-", "BadArguments");
    check("create /no/\0 acl=-", "BadArguments");
    check("create /no/kid acl=-", "InvalidAcl");
    check("create /no/ acl=world:anyone:r", "NoNode");
    check("create a/b", "NoNode");
    check("create /locked/", "NoAuth");
    check("create /a/", "BadArguments");
    check("create /a/kid/", "BadArguments");
    check("create /a/.", "BadArguments");
    check("create /a/kid", "NodeExists");
    check("create /", "NodeExists");
    check("create /mine/kid", "NoChildrenForEphemerals");
    check("create /a/new", "/a/new");
}

/// The number is appended before the path is checked, so an invalid path may become valid.
#[test]
fn a_sequence_number_can_make_a_path_valid() {
    check("create /a/ flags=2", "/a/0000000001");
    check("create /a/. flags=2", "/a/.0000000001");
    check("create / flags=2", "/0000000003");
    check("create /a/\u{1} flags=2", "BadArguments");
}

#[test]
fn ttl_rules_come_before_the_session() {
    let options = TreeOptions {
        owner_rules: OwnerRules { extended_types: true, ..OwnerRules::default() },
        ..TreeOptions::default()
    };
    let check = |line, expected| check_with(options.clone(), line, expected);
    check("expired: createTTL a ttl=0 acl=-", "BadArguments");
    check("expired: createTTL a ttl=-1 acl=-", "BadArguments");
    check("expired: createTTL a ttl=0x10000000000 acl=-", "BadArguments");
    check("expired: create a flags=5 acl=-", "BadArguments");
    check("expired: createTTL a ttl=5 acl=-", "SessionExpired");
}

#[test]
fn delete_checks_in_apaches_order() {
    check("expired: delete / v=7", "SessionExpired");
    for special in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        check(&format!("delete {special} v=7"), "BadArguments");
    }
    check("delete a v=7", "BadArguments");
    check("delete '' v=7", "BadArguments");
    check("delete /no/\0 v=7", "BadArguments");
    check("delete /no/kid v=7", "NoNode");
    check("delete /locked/no v=7", "NoAuth");
    check("delete /a/no v=7", "NoNode");
    check("delete /a/ v=7", "NoNode");
    check("delete /a v=7", "BadVersion");
    check("delete /a v=0", "NotEmpty");
    check("delete /a/kid v=0", "deleted");
}

#[test]
fn set_data_checks_in_apaches_order() {
    check("expired: set a x v=7", "SessionExpired");
    check("set a x v=7", "BadArguments");
    check("set /no/ x v=7", "BadArguments");
    check("set /no x v=7", "NoNode");
    check("set /locked x v=7", "NoAuth");
    check("set /a x v=7", "BadVersion");
    check("set /a x v=-2", "BadVersion");
    check("set /a x v=0", "c1 m6 p2 v1 cv1 av0 len1 kids1");
}

#[test]
fn set_acl_checks_in_apaches_order() {
    check("expired: setacl a - v=7", "SessionExpired");
    check("setacl a - v=7", "BadArguments");
    check("setacl /no - v=7", "InvalidAcl");
    check("setacl /no world:anyone:r v=7", "NoNode");
    check("setacl /locked world:anyone:r v=7", "NoAuth");
    check("setacl /a world:anyone:r v=7", "BadVersion");
    check("setacl /a world:anyone:r v=0", "c1 m1 p2 v0 cv1 av1 len0 kids1");
}

#[test]
fn check_checks_in_apaches_order() {
    check("expired: multi check a v=7", "[SessionExpired]");
    check("multi check a v=7", "[BadArguments]");
    check("multi check /no v=7", "[NoNode]");
    check("multi check /locked v=7", "[NoAuth]");
    check("multi check /a v=7", "[BadVersion]");
    check("multi check /a v=0", "[checked]");
    check("multi check /a", "[checked]");
}

#[test]
fn a_standalone_server_has_no_members_to_change() {
    check("expired: reconfig", "ReconfigDisabled");
    let enabled = TreeOptions { reconfig_enabled: true, ..TreeOptions::default() };
    check_with(enabled.clone(), "expired: reconfig", "SessionExpired");
    check_with(enabled, "reconfig", "Unimplemented");
}

/// A failed write is a txn as well, without a digest.
#[test]
fn failures_take_a_zxid_and_carry_no_digest() {
    let mut world = World::new(TreeOptions::default(), SETUP);
    let before = world.tree.last_zxid();
    let (entry, _) =
        world.write(crate::world::USERS[0], "delete /no", &mut herdsman_tree::Events::new());
    assert_eq!((entry.txn, entry.digest), (herdsman_proto::Txn::error(ErrorCode::NoNode), None));
    assert_eq!(world.tree.last_zxid(), before.next());
}
