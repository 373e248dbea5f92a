//! `inspect compare`.

use crate::harness::{Copy, run};

#[test]
fn equal_sides_are_equal() {
    let (a, b) = (Copy::of("apache-3.9.5/gz"), Copy::of("apache-3.9.5/gz"));
    let newest = a.file_text("snapshot.71.gz");
    run(&["inspect", "compare", a.text(), b.text()]).expect(0, &["equal: "]);
    run(&["inspect", "compare", &newest, b.text()]).expect(0, &["equal: "]);
    let json = run(&["inspect", "compare", &newest, b.text(), "--json"]).json();
    assert_eq!((json.len(), json[0]["equal"].as_bool()), (1, Some(true)));
}

#[test]
fn differences_are_shown_and_counted() {
    let copy = Copy::of("apache-3.9.5/plain");
    let old = copy.file_text("snapshot.54");
    let ran = run(&["inspect", "compare", &old, copy.text()]).expect(
        1,
        &[
            "only in b  /app/second",
            "only in b  /app/second/child",
            "differs    /app",
            "cversion",
            "only in b; ",
        ],
    );
    let brief = run(&["inspect", "compare", &old, copy.text(), "--brief"]).expect(1, &[]);
    assert_eq!(brief.out.lines().count(), 3);
    assert_eq!(brief.out.lines().last(), ran.out.lines().last());
    let part = run(&["inspect", "compare", &old, copy.text(), "--path", "/app/second", "--json"]);
    let lines = part.json();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[2]["counts"]["only_in_b"], 2);
    let back = run(&["inspect", "compare", copy.text(), &old, "--json"]).json();
    assert!(back.iter().any(|line| line["only_in"] == "a" && line["path"] == "/app/second"));
}

#[test]
fn what_cannot_be_compared_is_said_in_a_line() {
    let copy = Copy::of("apache-3.9.5/plain");
    for other in ["/nowhere", &copy.file_text("log.1")] {
        let ran = run(&["inspect", "compare", copy.text(), other]);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
    }
}
