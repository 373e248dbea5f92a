//! `herdsman recipe partition`.

use super::terminal::{Running, Terminal};

const PATH: &str = "/shards";

fn member(terminal: &Terminal, id: &str) -> Running {
    let items = ["s1", "s2", "s3", "s4"];
    let mut arguments = vec!["partition", PATH];
    arguments.extend(items);
    arguments.extend(["--id", id, "--settle", "0.01"]);
    let member = terminal.start(&arguments);
    assert_eq!(member.line(), format!("{id} divides /shards; Ctrl-C leaves"));
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
fn items_whose_session_ends_are_lost_and_come_back() {
    let terminal = Terminal::open();
    let only = member(&terminal, "a");
    items(&only, "+ ", 4);
    terminal.server.expire_session(terminal.owner("/shards/members/a"));
    assert_eq!(items(&only, "! ", 4), ["s1", "s2", "s3", "s4"]);
    assert_eq!(items(&only, "+ ", 4), ["s1", "s2", "s3", "s4"]);
    only.interrupted().check(0, &["a has left"]);
}

#[test]
fn there_must_be_items() {
    Terminal::open().run(&["partition", PATH]).check_error(2, &["required"]);
}
