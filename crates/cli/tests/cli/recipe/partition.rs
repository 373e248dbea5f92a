//! `herdsman recipe partition`.

use super::terminal::{Running, Terminal};

const PATH: &str = "/shards";

fn member(terminal: &Terminal, id: &str) -> Running {
    member_with(terminal, id, &[])
}

fn member_with(terminal: &Terminal, id: &str, command: &[&str]) -> Running {
    let items = ["s1", "s2", "s3", "s4"];
    let mut arguments = vec!["partition", PATH];
    arguments.extend(items);
    arguments.extend(["--id", id, "--settle", "0.01", "--"]);
    arguments.extend(command);
    let member = terminal.start(&arguments);
    assert_eq!(member.line(), format!("{id} has joined /shards; Ctrl-C leaves it"));
    member
}

/// The items of the next lines, all of which begin with this mark.
fn items(member: &Running, mark: &str, count: usize) -> Vec<String> {
    let items = (0..count).map(|_| {
        let line = member.line();
        let rest = line.strip_prefix(mark).unwrap_or_else(|| panic!("{mark:?} in {line:?}"));
        rest.split(' ').next().expect("an item").to_owned()
    });
    let mut items: Vec<_> = items.collect();
    items.sort_unstable();
    items
}

#[test]
fn a_second_member_takes_half_and_leaves_it_again() {
    let terminal = Terminal::open();
    let first = member(&terminal, "a");
    assert_eq!(items(&first, "+ ", 4), ["s1", "s2", "s3", "s4"]);
    let second = member(&terminal, "b");
    let given = items(&first, "- ", 2);
    assert_eq!(items(&second, "+ ", 2), given);
    second.interrupted().check(0, &["b has left"]);
    assert_eq!(items(&first, "+ ", 2), given);
    first.interrupted().check(0, &["a has left"]);
    assert!(terminal.children("/shards/owners").is_empty());
    assert!(terminal.children("/shards/members").is_empty());
}

#[test]
fn items_are_lost_with_the_session_and_acquired_again() {
    let terminal = Terminal::open();
    let only = member(&terminal, "a");
    items(&only, "+ ", 4);
    terminal.server.expire_session(terminal.owner("/shards/members/a"));
    assert_eq!(items(&only, "! ", 4), ["s1", "s2", "s3", "s4"]);
    assert_eq!(items(&only, "+ ", 4), ["s1", "s2", "s3", "s4"]);
    only.interrupted().check(0, &["a has left"]);
}

/// Prints its item on standard error when it starts and when it gets SIGTERM.
const SERVE: &str = "trap 'echo ended $HERDSMAN_ITEM >&2; exit' TERM
    test -n \"$HERDSMAN_FENCING_TOKEN\" && echo serving $HERDSMAN_ITEM >&2
    while :; do sleep 0.05; done";

/// Lines of the commands. Some shells also report that the `sleep` in them was terminated.
fn error_lines(member: &Running, count: usize) -> Vec<String> {
    let lines = std::iter::repeat_with(|| member.error_line());
    let mut lines: Vec<_> = lines.filter(|line| line != "Terminated").take(count).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_command_runs_for_each_item_and_has_ended_before_the_item_is_released() {
    let terminal = Terminal::open();
    let first = member_with(&terminal, "a", &["sh", "-c", SERVE]);
    items(&first, "+ ", 4);
    let serving = error_lines(&first, 4);
    assert_eq!(serving, ["serving s1", "serving s2", "serving s3", "serving s4"]);
    let second = member(&terminal, "b");
    let given = items(&second, "+ ", 2);
    // What has been printed before the second member has an item.
    let ended: Vec<_> = given.iter().map(|item| format!("ended {item}")).collect();
    assert_eq!(error_lines(&first, 2), ended);
    assert_eq!(items(&first, "- ", 2), given);
    let last = first.interrupted();
    last.check(0, &["a has left"]);
    let ended = last.err.iter().filter(|line| line.starts_with("ended ")).count();
    assert_eq!(ended, 2, "{last:?}");
}

#[test]
fn commands_that_end_by_themselves_or_cannot_be_run_are_reported() {
    let terminal = Terminal::open();
    let only = member_with(&terminal, "a", &["sh", "-c", "test $HERDSMAN_ITEM != s3 || exit 7"]);
    items(&only, "+ ", 4);
    let mut ends: Vec<_> = (0..4).map(|_| only.line()).collect();
    ends.sort_unstable();
    assert_eq!(ends[1..3], ["s2: the command exited with 0", "s3: the command exited with 7"]);
    only.interrupted().check(0, &["a has left"]);
    let broken = member_with(&terminal, "b", &["no-such-command"]).end();
    broken.check_error(127, &["herdsman: cannot run no-such-command"]);
    assert!(terminal.children("/shards/owners").is_empty());
}

#[test]
fn there_must_be_items() {
    Terminal::open().run(&["partition", PATH]).check_error(2, &["required"]);
}
