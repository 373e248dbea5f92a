//! `herdsman recipe watch-config` and `publish-config`.

use std::io::{BufRead, BufReader};

use super::terminal::{Running, Terminal};

const PATH: &str = "/config/app";

#[test]
fn a_watcher_sees_each_value_and_each_invalid_one() {
    let terminal = Terminal::open();
    let watcher = terminal.start(&["watch-config", PATH]);
    assert_eq!(watcher.line(), "the node does not exist; the last value, if any, stays in effect");
    let publish = |value: &str| terminal.run(&["publish-config", PATH, value]);
    publish(r#"{"limit": 3}"#).check(0, &["published as version 0"]);
    assert_eq!(watcher.line(), r#"version 0: {"limit":3}"#);
    publish("[1]").check(0, &["published as version 1"]);
    assert_eq!(watcher.line(), "version 1: [1]");
    terminal.ask(async |client| client.set(PATH, "{oops").await);
    let line = watcher.line();
    assert!(
        line.starts_with("version 2 is not JSON (") && line.contains("stays in effect"),
        "{line}"
    );
    watcher.interrupted().check(0, &[]);
}

#[test]
fn one_value_is_enough_with_once() {
    let terminal = Terminal::open();
    let watcher = terminal.start(&["watch-config", PATH, "--once"]);
    watcher.line();
    watcher.interrupted().check(130, &[]);
    terminal.lines(&["publish-config", PATH, "true"]);
    terminal.run(&["watch-config", PATH, "--once"]).check(0, &["version 0: true"]);
}

#[test]
fn a_version_that_is_not_the_present_one_changes_nothing() {
    let terminal = Terminal::open();
    terminal.lines(&["publish-config", PATH, "1"]);
    terminal
        .run(&["publish-config", PATH, "2", "--if-version", "0"])
        .check(0, &["published as version 1"]);
    terminal
        .run(&["publish-config", PATH, "3", "--if-version", "0"])
        .check_error(3, &["herdsman: /config/app has another version"]);
    terminal.run(&["watch-config", PATH, "--once"]).check(0, &["version 1: 2"]);
}

#[test]
fn a_value_that_is_not_json_is_not_published() {
    let terminal = Terminal::open();
    terminal.run(&["publish-config", PATH, "{oops"]).check_error(2, &["{oops", "not JSON"]);
    assert!(terminal.ask(async |client| client.exists("/config").await).is_none());
}

#[test]
fn it_ends_quietly_when_its_output_is_closed() {
    let terminal = Terminal::open();
    let mut child = terminal.command(&["watch-config", PATH]).spawn().expect("the binary runs");
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("text");
    drop(reader);
    let watcher = Running::follow(child);
    terminal.lines(&["publish-config", PATH, "1"]);
    let ended = watcher.end();
    ended.check(141, &[]);
    assert!(ended.err.is_empty(), "{ended:?}");
}
