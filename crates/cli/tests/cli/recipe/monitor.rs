//! `herdsman recipe monitor`.

use std::io::Write as _;
use std::process::Stdio;

use super::terminal::{Running, Terminal};

const PATH: &str = "/machines";

#[test]
fn a_machine_joins_becomes_stale_and_leaves() {
    let terminal = Terminal::open();
    let watcher = terminal.start(&["monitor", "watch", PATH, "--stale-after", "0.05"]);
    let machine = terminal.start(&["monitor", "report", PATH, "m1", "[1, 2]", "--every", "600"]);
    assert_eq!(machine.line(), "m1 reports to /machines; Ctrl-C stops it");
    assert_eq!(watcher.line(), "+ m1 [1,2]");
    assert_eq!(watcher.line(), "! m1 [1,2]");
    machine.interrupted().check(0, &["m1 has stopped reporting"]);
    assert_eq!(watcher.line(), "- m1 [1,2]");
    watcher.interrupted().check(0, &[]);
    assert!(terminal.children(PATH).is_empty());
}

#[test]
fn a_machine_reports_again_and_again() {
    let terminal = Terminal::open();
    let machine = terminal.start(&["monitor", "report", PATH, "m1", "true", "--every", "0.01"]);
    machine.line();
    let watcher = terminal.start(&["monitor", "watch", PATH, "--stale-after", "600"]);
    assert_eq!(watcher.line(), "+ m1 true");
    assert_eq!(watcher.line(), "~ m1 true");
}

#[test]
fn each_line_of_input_is_a_status_until_its_end() {
    let terminal = Terminal::open();
    let watcher = terminal.start(&["monitor", "watch", PATH, "--stale-after", "600"]);
    let mut command = terminal.command(&["monitor", "report", PATH, "m1"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("piped");
    let machine = Running::follow(child);
    stdin.write_all(b"\"starting\"\n").expect("it reads");
    assert_eq!(watcher.line(), "+ m1 \"starting\"");
    stdin.write_all(b"\"ready\"\n").expect("it reads");
    assert_eq!(watcher.line(), "~ m1 \"ready\"");
    drop(stdin);
    machine
        .end()
        .check(0, &["m1 reports to /machines; Ctrl-C stops it", "m1 has stopped reporting"]);
    assert_eq!(watcher.line(), "- m1 \"ready\"");
}

#[test]
fn what_is_not_json_is_not_published() {
    let terminal = Terminal::open();
    terminal.run(&["monitor", "report", PATH, "m1", "{oops"]).check_error(2, &["{oops"]);
    let report = terminal.command(&["monitor", "report", PATH, "m1"]);
    let ended = Running::start_with_input(report, b"1\n{oops\n").end();
    ended.check_error(1, &["herdsman: a line of standard input is not JSON"]);
    assert!(terminal.children(PATH).is_empty());
    terminal
        .run(&["monitor", "watch", PATH, "--stale-after", "0"])
        .check_error(2, &["--stale-after", "more than 0"]);
}
