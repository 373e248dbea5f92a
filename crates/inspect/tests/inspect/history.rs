//! `inspect history`.

use crate::harness::{Copy, run};

fn what(path: &str, copy: &Copy) -> Vec<String> {
    let ran = run(&["inspect", "history", path, "--data-dir", copy.text(), "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json().iter().map(|line| line["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn creates_sets_and_deletes_are_found_also_in_multis() {
    let copy = Copy::of("apache-3.9.5/plain");
    assert_eq!(what("/app", &copy)[0], "create");
    let multi = run(&["inspect", "history", "/app/multi/a", "--data-dir", copy.text()])
        .expect(0, &["0x36", "create", "in multi /app/multi/a", "setData in multi"]);
    assert!(multi.out.contains("session 0x"), "{}", multi.out);
    run(&["inspect", "history", "/nothing/here", "--data-dir", copy.text()])
        .expect(0, &["no txn or snapshot in these files"]);
    let all =
        run(&["inspect", "history", "/app", "--data-dir", copy.text(), "-r", "--json"]).json();
    assert!(all.len() > 30, "{}", all.len());
}

/// An ephemeral whose session has ended, in a log that lists what it deletes and in one that does not.
#[test]
fn the_end_of_a_session_deletes_its_ephemerals() {
    for variant in ["apache-3.9.5/plain", "apache-3.9.5/old-style"] {
        let copy = Copy::of(variant);
        let closes =
            run(&["inspect", "log", copy.text(), "--type", "closeSession", "--json"]).json();
        let creates =
            run(&["inspect", "log", copy.text(), "--type", "create,create2", "--json"]).json();
        let mut found = 0;
        for create in creates.iter().filter(|line| line["ephemeral"] == true) {
            let number = |line: &serde_json::Value| line["time_ms"].as_i64();
            let is_closed = closes.iter().any(|close| {
                close["session"] == create["session"] && number(close) >= number(create)
            });
            let path = create["path"].as_str().unwrap();
            let what = what(path, &copy);
            if is_closed && !what.contains(&"delete".to_owned()) {
                assert_eq!(what.last().unwrap(), "closeSession", "{variant} {path}");
                found += 1;
            }
        }
        assert!(found > 0, "{variant} has no ephemeral that ended with its session");
    }
}

#[test]
fn what_was_there_before_the_logs_is_told() {
    let copy = Copy::of("apache-3.9.5/plain");
    for name in ["snapshot.0", "log.1"] {
        std::fs::remove_file(copy.file(name)).unwrap();
    }
    run(&["inspect", "history", "/app", "--data-dir", copy.text()])
        .expect(0, &["/app  exists in snapshot.54: created by txn 0x3"]);
}

#[test]
fn bad_paths_are_refused() {
    let copy = Copy::of("apache-3.9.5/plain");
    run(&["inspect", "history", "app", "--data-dir", copy.text()]).expect(2, &["is not a path"]);
    run(&["inspect", "history", "/app/", "--data-dir", copy.text()]).expect(2, &["is not a path"]);
}
