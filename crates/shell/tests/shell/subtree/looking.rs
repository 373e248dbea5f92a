//! `tree`, `find` and `du`.

use serde_json::Value;

use super::run_as_ann;
use crate::world::World;

fn small_world() -> World {
    let world = World::start();
    world.pipe_ok(
        "create /app root\ncreate /app/config 'host=a'\ncreate /app/config/db '{\"port\": 1}'\n\
         create /app/empty\ncreate /app/logs 0123456789\n",
    );
    world
}

#[test]
fn a_tree_is_drawn() {
    let world = small_world();
    assert_eq!(
        world.run(&["tree", "/app"]).ok(),
        "/app\n├── config\n│   └── db\n├── empty\n└── logs\n\n5 znodes, 31 B\n"
    );
    assert_eq!(
        world.run(&["tree", "-d", "1", "-s", "/"]).ok(),
        "/  0 B\n└── app  4 B  (+3 below)\n\n2 znodes, 4 B\n"
    );
    assert_eq!(
        world.run(&["tree", "/app/config", "--data"]).ok(),
        "/app/config  host=a\n└── db  {\"port\": 1}\n\n2 znodes, 17 B\n"
    );
    let cut = world.run(&["tree", "/app", "--max", "2"]).ok();
    assert_eq!(cut, "/app\n├── config\n… truncated; --max 20 shows more lines\n\n2 znodes, 10 B\n");
    assert_eq!(world.run(&["tree", "/app", "--max", "0"]).ok().lines().count(), 7);
    assert_eq!(world.run(&["tree", "/none"]).failed(1), "Node does not exist: /none");
}

#[test]
fn ephemerals_and_unreadable_znodes_are_marked() {
    let world = World::start();
    run_as_ann(&world, &["create", "/secret", "x", "auth::cdrwa"]).ok();
    let drawn = world.pipe_ok("create -e /mine\ntree / --all\n");
    assert!(drawn.contains("├── mine  [ephemeral 0x"), "{drawn}");
    assert!(drawn.contains("├── secret (not readable)\n└── zookeeper\n"), "{drawn}");
    assert!(drawn.contains(", 1 ephemeral, 1 not readable\n"), "{drawn}");
    let found = world.run(&["find", "/", "--name", "secret"]);
    assert_eq!((found.code, found.out.as_str()), (0, ""));
    assert_eq!(found.errors, "1 znode could not be read, nor anything below\n");
}

#[test]
fn a_tree_in_json_is_one_line_per_znode() {
    let world = small_world();
    let out = world.run(&["--json", "tree", "/app", "--data"]).ok();
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!((&lines[2]["path"], &lines[2]["depth"]), (&"/app/config/db".into(), &2.into()));
    assert_eq!((&lines[1]["data"], &lines[1]["children"]), (&"host=a".into(), &1.into()));
    assert_eq!(lines[5]["total"]["znodes"], 5);
}

#[test]
fn znodes_are_found_by_every_condition() {
    let world = small_world();
    for (words, found) in [
        (&["--name", "d*"][..], "/app/config/db\n"),
        (&["--name", "app/*"], ""),
        (&["--regex", "^/app/.*g"], "/app/config\n/app/config/db\n/app/logs\n"),
        (&["--data", "host="], "/app/config\n"),
        (&["--data-regex", "^[0-9]+$"], "/app/logs\n"),
        (&["--ephemeral"], ""),
        (&["--type", "persistent", "--larger", "6"], "/app/config/db\n/app/logs\n"),
        (&["--larger", "1k"], ""),
        (&["--empty"], "/app/empty\n"),
        (&["--older", "1d"], ""),
        (&["--newer", "1d", "--max", "2"], "/app\n/app/config\n"),
    ] {
        let words = [&["find", "/app"], words].concat();
        assert_eq!(world.run(&words).ok(), found, "{words:?}");
    }
}

#[test]
fn invalid_conditions_are_reported_before_any_request() {
    let world = World::start();
    for (words, said) in [
        (&["--name", "["][..], "is not a glob pattern"),
        (&["--regex", "("], "is not a regular expression"),
        (&["--newer", "10"], "is not a duration"),
        (&["--larger", "big"], "is not a size"),
        (&["--owner", "me"], "is not a session id"),
        (&["--type", "container"], "persistent, ephemeral"),
        (&["--data", "a", "--data-regex", "b"], "cannot be used with"),
    ] {
        let line = world.run(&[&["find", "/"], words].concat()).failed(2);
        assert!(line.contains(said), "{line:?} should contain {said:?}");
    }
}

#[test]
fn subtrees_are_measured() {
    let world = small_world();
    let columns = |out: String| -> Vec<String> {
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(
        columns(world.run(&["du", "/app"]).ok()),
        ["31 5 /app", "17 2 /app/config", "10 1 /app/logs", "0 1 /app/empty"]
    );
    assert_eq!(
        columns(world.run(&["du", "/", "-d", "9", "--top", "4", "-h"]).ok()),
        ["31 B 6 /", "31 B 5 /app", "17 B 2 /app/config", "11 B 1 /app/config/db"]
    );
    let json = world.run(&["--json", "du", "/app", "-d", "0"]).ok();
    assert_eq!(json, "{\"path\":\"/app\",\"znodes\":5,\"bytes\":31}\n");
    assert!(world.run(&["du", "--help"]).ok().contains("largest first"));
}
