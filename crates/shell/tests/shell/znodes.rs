//! Commands that read and write znodes.

use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode, Rule};

use crate::world::{World, shell};

#[test]
fn a_znode_is_created_read_changed_and_deleted() {
    let world = World::start();
    assert_eq!(world.run(&["create", "/app", "hello world"]).ok(), "Created /app\n");
    assert_eq!(world.run(&["get", "/app"]).ok(), "hello world\n");
    assert_eq!(world.run(&["set", "/app", "-v", "0", "changed"]).ok(), "");
    assert_eq!(
        world.run(&["set", "-v", "0", "/app", "x"]).failed(1),
        "version No is not valid : /app"
    );
    let shown = world.run(&["get", "-s", "/app"]).ok();
    assert!(shown.starts_with("changed\ncZxid = 0x"), "{shown}");
    assert!(
        shown.contains("\ndataVersion = 1\n") && shown.ends_with("numChildren = 0\n"),
        "{shown}"
    );
    assert_eq!(
        world.run(&["delete", "-v", "7", "/app"]).failed(1),
        "version No is not valid : /app"
    );
    assert_eq!(world.run(&["delete", "/app"]).ok(), "");
    assert_eq!(world.run(&["get", "/app"]).failed(1), "Node does not exist: /app");
    assert_eq!(world.run(&["stat", "/app"]).failed(1), "Node does not exist: /app");
}

#[test]
fn children_are_listed_in_order() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/c\ncreate /a/b\ncreate /a/b/d\ncreate /a/c/e\n");
    assert_eq!(world.run(&["ls", "/a"]).ok(), "[b, c]\n");
    assert_eq!(world.run(&["ls", "/a/b/d"]).ok(), "[]\n");
    assert_eq!(world.run(&["ls", "-R", "/a"]).ok(), "/a\n/a/b\n/a/c\n/a/b/d\n/a/c/e\n");
    assert_eq!(world.run(&["ls", "/a", "-R"]).ok(), "/a\n/a/b\n/a/c\n/a/b/d\n/a/c/e\n");
    let with_stat = world.run(&["ls", "/a", "-s"]).ok();
    assert!(with_stat.starts_with("[b, c]\ncZxid = 0x"), "{with_stat}");
    assert!(with_stat.ends_with("numChildren = 2\n"), "{with_stat}");
    assert_eq!(world.run(&["ls", "-R", "/none"]).failed(1), "Node does not exist: /none");
    assert_eq!(world.run(&["getAllChildrenNumber", "/a"]).ok(), "4\n");
    assert_eq!(world.run(&["ls", "/"]).ok(), "[a, zookeeper]\n");
}

#[test]
fn a_chroot_is_the_root() {
    let world = World::start();
    world.pipe_ok("create /app\ncreate /app/x\n");
    let servers = format!("{}/app", world.server.connect_string());
    let run = |words: &[&str]| shell(&[&["-server", servers.as_str()], words].concat(), "");
    assert_eq!(run(&["ls", "/"]).ok(), "[x]\n");
    assert_eq!(run(&["create", "-s", "/n-"]).ok(), "Created /n-0000000001\n");
    assert_eq!(run(&["ls", "-R", "/"]).ok(), "/\n/n-0000000001\n/x\n");
    assert_eq!(run(&["get", "/none"]).failed(1), "Node does not exist: /none");
    let config = run(&["config"]).ok();
    assert_eq!(config, world.run(&["config"]).ok(), "it is outside of the chroot");
}

#[test]
fn every_type_of_znode_can_be_created() {
    let mut world = World::start();
    world.server.stop();
    world.server.configure(|config| config.znodes.ttl = true);
    world.server.start_again();
    let lines = "create -c /box\ncreate -s /seq- x\ncreate -e /mine me\ncreate -e -s /box/e- x\n\
                 create -t 600000 /lease\ncreate -p /x/y/z deep\ngetEphemerals\ngetEphemerals /box\n";
    let said = world.pipe_ok(lines);
    assert_eq!(
        said,
        "Created /box\nCreated /seq-0000000001\nCreated /mine\nCreated /box/e-0000000000\n\
         Created /lease\nCreated /x/y/z\n[/box/e-0000000000, /mine]\n[/box/e-0000000000]\n"
    );
    assert_eq!(world.run(&["get", "/x/y/z"]).ok(), "deep\n");
    assert_eq!(world.run(&["stat", "/mine"]).failed(1), "Node does not exist: /mine");
    assert_eq!(world.run(&["get", "/lease"]).ok(), "\n");
}

#[test]
fn binary_data_goes_in_and_out() {
    let world = World::start();
    world.pipe_ok("create /blob\nset -b /blob AAEC/w==\n");
    assert_eq!(world.run(&["get", "-b", "/blob"]).ok(), "AAEC/w==\n");
    let dump = world.run(&["get", "-x", "/blob"]).ok();
    let row = "\n|00000000| 00 01 02 ff                                     |....            |\n";
    assert!(dump.contains(row), "{dump}");
    let refused = world.run(&["set", "-b", "/blob", "%"]).failed(2);
    assert!(refused.starts_with("set: the data is not base64:"), "{refused}");
}

#[test]
fn data_is_kept_as_it_is_written() {
    let world = World::start();
    world.pipe_ok("create /d '{\"a\": 1}'\ncreate /n -5\ncreate /e ''\nset /n -- -dash\n");
    assert_eq!(world.run(&["get", "/d"]).ok(), "{\"a\": 1}\n");
    assert_eq!(world.run(&["get", "/n"]).ok(), "-dash\n");
    assert_eq!(world.run(&["get", "/e"]).ok(), "\n");
}

#[test]
fn a_subtree_is_deleted() {
    let world = World::start();
    let mut lines = String::from("create /t\n");
    for at in 0..25 {
        lines.push_str(&format!("create /t/{at}\ncreate /t/{at}/x\n"));
    }
    world.pipe_ok(&lines);
    assert_eq!(world.run(&["delete", "/t"]).failed(1), "Node not empty: /t");
    assert_eq!(world.run(&["deleteall", "/t/3", "-b", "0"]).ok(), "");
    let deleted = world.run(&["--json", "deleteall", "-b", "7", "/t"]).ok();
    assert!(deleted.contains("\"count\":49"), "{deleted}");
    assert_eq!(world.run(&["deleteall", "/t"]).failed(1), "Node does not exist: /t");
    let root = "deleteall: the root cannot be deleted; name a znode below it";
    assert_eq!(world.run(&["deleteall", "/"]).failed(2), root);
}

#[test]
fn acls_are_shown_and_changed() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b\n");
    assert_eq!(world.run(&["getAcl", "/a"]).ok(), "'world,'anyone\n: cdrwa\n");
    let said = world.pipe_ok(
        "addauth digest bob:secret\nwhoami\nsetAcl -R /a auth::cdrwa\ngetAcl /a/b\nget /a/b\n",
    );
    let (who, acl) = said.split_once("'digest,").expect("the ACL is bob's");
    assert!(who.starts_with("Auth scheme: User\n") && who.contains("\ndigest: bob\n"), "{who}");
    assert!(acl.starts_with("'bob:") && acl.contains("\n: cdrwa\n"), "{acl}");
    assert_eq!(world.run(&["get", "/a"]).failed(1), "Insufficient permission : /a");
    assert_eq!(world.run(&["--auth", "digest:bob:secret", "get", "/a"]).ok(), "\n");
    let version = ["--auth", "digest:bob:secret", "setAcl", "-v", "9", "/a", "world:anyone:r"];
    assert_eq!(world.run(&version).failed(1), "version No is not valid : /a");
    let stat = world.run(&["--auth", "digest:bob:secret", "setAcl", "-s", "/a", "world:anyone:r"]);
    assert!(stat.ok().contains("\naclVersion = 2\n"));
}

#[test]
fn old_spellings_work_with_a_deprecation_note() {
    let world = World::start();
    world.pipe_ok("create /a x\ncreate /a/b\n");
    let ls2 = world.run(&["ls2", "/a"]);
    assert!(ls2.out.starts_with("[b]\ncZxid"), "{ls2:?}");
    assert!(ls2.errors.contains("'ls2' has been deprecated"), "{ls2:?}");
    for words in [["get", "/a", "watch"], ["ls", "/a", "watch"], ["stat", "/a", "true"]] {
        let ran = world.run(&words);
        assert_eq!(ran.code, 0);
        assert!(ran.errors.contains("has been deprecated"), "{ran:?}");
    }
    assert_eq!(world.run(&["set", "/a", "y", "5"]).code, 1, "the old place of the version");
    assert_eq!(world.run(&["delete", "/a/b", "5"]).code, 1);
    let rmr = world.run(&["rmr", "/a"]);
    assert!(rmr.code == 0 && rmr.errors.contains("deleteall"), "{rmr:?}");
    assert_eq!(world.run(&["sync", "/"]).ok(), "Sync is OK\n");
}

#[test]
fn help_shows_usage_and_examples() {
    let world = World::start();
    let help = world.run(&["help", "ls"]).ok();
    assert!(help.contains("\nUsage: ls [-s] [-w] [-R] path\n"), "{help}");
    assert!(help.contains("\nExamples:\n  ls /  "), "{help}");
    assert_eq!(world.run(&["ls", "--help"]).ok(), help);
    let all = world.run(&["help"]).ok();
    assert!(all.contains("\ngetAcl [-s] path\n        Print the ACL"), "{all}");
    assert!(!all.contains("\nrmr"), "deprecated commands are not listed");
}

#[test]
fn acls_that_cannot_all_be_changed_are_counted() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b '' world:anyone:r\n");
    assert_eq!(
        world.run(&["setAcl", "-R", "/a", "world:anyone:cdra"]).failed(1),
        "Insufficient permission : /a/b; 1 ACL changed before; run the same command again to change \
         the rest, as a user who may also read and change the znodes that have the new ACL"
    );
    assert_eq!(
        world.run(&["setAcl", "-R", "/a/b", "world:anyone:cdra"]).failed(1),
        "Insufficient permission : /a/b"
    );
}

/// The new ACL removes the permission to change it: the same command again used to fail at the first znode.
#[test]
fn acls_that_an_earlier_run_has_set_are_not_set_again() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b\ncreate /a/c\nsetAcl /a world:anyone:r\n");
    world.run(&["setAcl", "-R", "/a", "world:anyone:r"]).ok();
    assert_eq!(world.pipe_ok("getAcl /a/b\ngetAcl /a/c\n"), "'world,'anyone\n: r\n".repeat(2));
}

#[test]
fn acls_say_when_the_last_one_may_have_been_set() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b\n");
    let proxy = TestProxy::start(world.server.address());
    proxy.add_rule(Rule::new(Fault::CutBeforeReply).on(OpCode::SetAcl).skip(1));
    let words = ["-s", &proxy.connect_string(), "setAcl", "-R", "/a", "world:anyone:cdra"];
    let line = shell(&words, "").failed(1);
    assert!(line.contains("; 1 ACL changed before, and this one may be; "), "{line}");
}

#[test]
fn a_deletion_without_effect_says_so() {
    let world = World::start();
    world.pipe_ok("create /p\ncreate /p/a\ncreate /p/a/b\nsetAcl /p/a world:anyone:r\n");
    for batch in ["0", "10"] {
        assert_eq!(
            world.run(&["deleteall", "-b", batch, "/p"]).failed(1),
            "Insufficient permission : /p/a/b; nothing was deleted"
        );
    }
}
