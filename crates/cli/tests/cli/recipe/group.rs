//! `herdsman recipe group`.

use super::terminal::Terminal;

const PATH: &str = "/cluster";

#[test]
fn a_member_is_there_until_ctrl_c() {
    let terminal = Terminal::open();
    terminal
        .run(&["group", "members", PATH])
        .check_error(3, &["herdsman: /cluster has no members"]);
    let first = terminal.start(&["group", "join", PATH, "a", "--data", "10.0.0.1:7000"]);
    assert_eq!(first.line(), "joined /cluster as a; Ctrl-C leaves it");
    let watcher = terminal.start(&["group", "members", PATH, "--watch"]);
    assert_eq!(watcher.line(), "+ a 10.0.0.1:7000");
    let second = terminal.start(&["group", "join", PATH, "b"]);
    assert_eq!(watcher.line(), "+ b");
    terminal.run(&["group", "members", PATH]).check(0, &["a 10.0.0.1:7000", "b"]);

    terminal.ask(async |client| client.set("/cluster/a", "two\nlines \x1b[2J").await);
    assert_eq!(watcher.line(), "~ a two\\nlines \\u{1b}[2J");
    first.interrupted().check(0, &["left /cluster"]);
    assert_eq!(watcher.line(), "- a two\\nlines \\u{1b}[2J");
    second.line();
    second.interrupted().check(0, &["left /cluster"]);
    assert_eq!(watcher.line(), "- b");
    watcher.interrupted().check(0, &[]);
    assert!(terminal.children(PATH).is_empty());
}

#[test]
fn a_member_waits_until_its_id_is_free() {
    let terminal = Terminal::open();
    let first = terminal.start(&["group", "join", PATH, "a"]);
    first.line();
    let second = terminal.start(&["group", "join", PATH, "a"]);
    first.interrupted().check(0, &["left /cluster"]);
    assert_eq!(second.line(), "joined /cluster as a; Ctrl-C leaves it");
    second.interrupted().check(0, &["left /cluster"]);
}
