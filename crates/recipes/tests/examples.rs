//! Runs every example as its user would, as a separate program against a server, and checks its output.

use std::path::PathBuf;
use std::process::Command;

use herdsman_testing::TestServer;

/// An example and a line of its output that shows that it has done its work.
const EXAMPLES: &[(&str, &str)] = &[
    ("barrier", "worker 3 is done"),
    ("cache", "all deleted"),
    ("client", "closed: true"),
    ("commands", "2 answers, 0 missing"),
    ("configuration", "now: Some(50)"),
    ("deadlock", "ann held both"),
    ("discovery", "web-1 was removed"),
    ("ids", "visits: 1"),
    ("leader_election", "3 different tokens"),
    ("load_balancing", "picked: {\"large\": 30, \"small\": 10}"),
    ("lock", "sold 6, left b\"0\""),
    ("master_worker", "done: LENTE"),
    ("membership", "m1 has left"),
    ("partitioner", "ann has 6 again"),
    ("queue", "done: coffee, milk, tea"),
    ("shared_lock", "downgraded; a reader: true"),
];

/// Cargo builds examples beside the tests.
fn examples_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().and_then(|deps| deps.parent()).expect("target/<profile>").join("examples")
}

#[test]
fn every_example_prints_the_expected_line() {
    let server = TestServer::start();
    for (name, expected) in EXAMPLES {
        let mut command = Command::new(examples_dir().join(name));
        let output = command.arg(server.connect_string()).output().expect("the example runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaints}\n{said}");
        assert!(said.lines().any(|line| line == *expected), "{name} said:\n{said}");
    }
}

#[test]
fn no_example_is_forgotten_and_all_are_short() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an example").path();
        let lines = std::fs::read_to_string(&path).expect("its text").lines().count();
        assert!(lines < 80, "{} has {lines} lines", path.display());
        names.push(path.file_stem().expect("a name").to_string_lossy().into_owned());
    }
    names.sort();
    let known: Vec<_> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
}
