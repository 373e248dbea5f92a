//! `--json`: a value or lines of values on standard output, objects on standard error.

use serde_json::{Value, json};

use crate::world::World;

fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn every_answer_is_json() {
    let world = World::start();
    let servers = world.server.connect_string();
    let lines = "create /a {\"x\":1}\ncreate /a/b\nls /a\nls -s /a\nls -R /a\nget /a\nget -b /a\n\
                 get -s /a\nset /a y\nstat /a\ngetAcl /a\nsetAcl /a world:anyone:cdrwa\nwhoami\n\
                 getEphemerals\ngetAllChildrenNumber /\nsync /a\nconfig\naddWatch /a\n\
                 removewatches /a\nprintwatches\nsetquota -n 5 /a\nlistquota /a\ndelquota -n /a\n\
                 delquota /a\ndelquota /a\nhistory\nhelp\nhelp ls\nversion\ndelete /a/b\n\
                 deleteall /a\naddauth digest a:b\nclose\nconnect\n";
    let ran = crate::world::shell(&["--server", &servers, "--json"], lines);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let values = values(&ran.out);
    assert!(values.iter().all(|value| !value.is_null()));
    assert_eq!(values[0]["created"], "/a");
    assert_eq!(values[2], json!({"path": "/a", "children": ["b"]}));
    assert_eq!(values[3]["stat"]["numChildren"], 1);
    assert_eq!(values[4..6], [json!({"path": "/a"}), json!({"path": "/a/b"})]);
    assert_eq!(values[6], json!({"path": "/a", "data": "{\"x\":1}", "encoding": "utf8"}));
    assert_eq!(values[7], json!({"path": "/a", "data": "eyJ4IjoxfQ==", "encoding": "base64"}));
    for note in ran.errors.lines() {
        serde_json::from_str::<Value>(note).expect(note);
    }
}

#[test]
fn errors_are_objects() {
    let world = World::start();
    let error = world.run(&["--json", "get", "/none"]).failed(1);
    let error: Value = serde_json::from_str(&error).expect("it is JSON");
    let expected =
        json!({"error": "NoNode", "path": "/none", "message": "Node does not exist: /none"});
    assert_eq!(error, expected);
    let usage: Value =
        serde_json::from_str(&world.run(&["--json", "ls"]).failed(2)).expect("it is JSON");
    assert_eq!((&usage["error"], &usage["path"]), (&json!("Usage"), &Value::Null));
}

#[test]
fn events_are_objects() {
    let world = World::start();
    let servers = world.server.connect_string();
    let lines = "create /a\nget -w /a\nset /a x\n";
    let ran = crate::world::shell(&["--server", &servers, "--json"], lines);
    let events: Vec<_> =
        values(&ran.ok()).into_iter().filter(|value| !value["event"].is_null()).collect();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["event"], &events[0]["path"]),
        (&json!("NodeDataChanged"), &json!("/a"))
    );
}
