//! `diff`: its notations, its output and its exit codes.

use serde_json::Value;

use super::Files;
use crate::world::World;

fn world_with_two_subtrees() -> World {
    let world = World::start();
    world.pipe_ok(
        "create /a root\ncreate /a/same x\ncreate /a/text one\ncreate /a/gone\n\
         create /a/gone/below\ncreate /b root\ncreate /b/same x\ncreate /b/text two\n\
         create /b/new y\nsetAcl /b/same world:anyone:cdra\n",
    );
    world
}

#[test]
fn equal_subtrees_print_nothing() {
    let world = World::start();
    world.pipe_ok("create /a x\ncreate /a/b y\ncreate /c x\ncreate /c/b y\n");
    assert_eq!(world.run(&["diff", "/a", "/c"]).ok(), "");
    assert_eq!(world.run(&["diff", "/a", "/a", "--stat"]).ok(), "");
    let differ = world.run(&["diff", "/a", "/c", "--stat"]);
    assert_eq!(differ.code, 1);
    assert!(differ.out.contains("~ b: czxid, mzxid, pzxid"), "{}", differ.out);
}

#[test]
fn differences_are_shown_as_diff_does() {
    let world = world_with_two_subtrees();
    let ran = world.run(&["diff", "/a", "/b"]);
    assert_eq!((ran.code, ran.errors.as_str()), (1, ""));
    assert_eq!(
        ran.out,
        "- gone (0 B)\n- gone/below (0 B)\n+ new (1 B)\n~ same: acl\n  - acl world:anyone:cdrwa\n  \
         + acl world:anyone:cdra\n~ text: data\n--- /a: text\n+++ /b: text\n@@ -1 +1 @@\n-one\n\
         \\ No newline at end of file\n+two\n\\ No newline at end of file\n1 equal, 2 changed, 2 \
         only in the first, 1 only in the second\n"
    );
    let brief = world.run(&["diff", "--brief", "/a", "/b"]);
    assert_eq!(
        brief.out,
        "- gone (0 B)\n+ new (1 B)\n~ same: acl\n~ text: data\n1 equal, 2 changed, 2 only in the \
         first, 1 only in the second\n"
    );
}

#[test]
fn differences_in_json_are_a_line_each() {
    let world = world_with_two_subtrees();
    let ran = world.run(&["--json", "diff", "/a", "/b"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!((&lines[0]["path"], &lines[0]["difference"]), (&"gone".into(), &"only_left".into()));
    assert_eq!(lines[4]["fields"][0], "data");
    assert_eq!((&lines[4]["left"]["bytes"], &lines[5]["total"]["equal"]), (&3.into(), &1.into()));
}

#[test]
fn ensembles_and_files_are_compared_alike() {
    let (here, there) = (world_with_two_subtrees(), World::start());
    let files = Files::new();
    let file = files.word("a.jsonl");
    here.run(&["export", "/a", "-o", &file]);
    let quoted = format!("file:{file}");
    assert_eq!(here.run(&["diff", &quoted, "/a"]).ok(), "");
    there.run(&["import", &file, "/x/y"]).ok();
    let servers = there.server.connect_string();
    assert_eq!(here.run(&["diff", "/a", &format!("{servers}//x/y")]).ok(), "");
    assert_eq!(here.run(&["diff", "/a", &format!("{servers}/x//y")]).ok(), "");
    assert_eq!(here.run(&["diff", "/b", &format!("{servers}/x//y")]).code, 1);
    assert_eq!(there.server.session_count(), 0, "every session is closed");
}

#[test]
fn a_failure_has_its_own_code() {
    let world = World::start();
    world.pipe_ok("create /a\n");
    let files = Files::new();
    let garbage = files.write("garbage", "x\n");
    assert_eq!(world.run(&["diff", "/a", "/none"]).failed(2), "Node does not exist: /none");
    let line = world.run(&["diff", "/a", "no-such-file"]).failed(2);
    assert!(line.starts_with("no-such-file: "), "{line}");
    let line = world.run(&["diff", &format!("file:{garbage}"), "/a"]).failed(2);
    assert!(line.contains("line 1: not an export file"), "{line}");
    let ran = world.run(&["--connect-timeout", "0.2", "diff", "/a", "127.0.0.1:1//a"]);
    assert_eq!(ran.code, 2);
    assert!(ran.errors.starts_with("cannot connect to 127.0.0.1:1: "), "{ran:?}");
    assert!(ran.errors.contains("\nnone of 127.0.0.1:1 opened"), "{ran:?}");
    let ran = world.run(&["diff", &garbage, "/a"]);
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.errors,
        format!(
            "Node does not exist: {garbage}\nif {garbage} is meant to be a file, use \
             file:{garbage}\n"
        )
    );
    assert!(world.run(&["diff", "/a", "zk:x//a"]).failed(2).contains("port"));
    assert_eq!(world.run(&["diff", "/a"]).code, 2);
}
