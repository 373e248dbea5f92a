//! `herdsman recipe counter`.

use std::thread;

use super::terminal::Terminal;

const PATH: &str = "/stats/visits";

#[test]
fn a_number_is_read_added_to_and_replaced() {
    let terminal = Terminal::open();
    terminal.run(&["counter", "get", PATH]).check(0, &["0"]);
    terminal.run(&["counter", "add", PATH]).check(0, &["1"]);
    terminal.run(&["counter", "add", PATH, "-5"]).check(0, &["-4"]);
    terminal.run(&["counter", "set", PATH, "40"]).check(0, &["40"]);
    terminal.run(&["counter", "compare-and-set", PATH, "40", "-2"]).check(0, &["-2"]);
    terminal
        .run(&["counter", "compare-and-set", PATH, "40", "1"])
        .check_error(3, &["herdsman: /stats/visits is not 40; nothing was changed"]);
    terminal.run(&["counter", "get", PATH]).check(0, &["-2"]);
    terminal.run(&["counter", "add", PATH, "many"]).check_error(2, &["many"]);
}

#[test]
fn two_terminals_lose_no_addition() {
    let terminal = Terminal::open();
    let count = || (0..5).for_each(|_| drop(terminal.lines(&["counter", "add", PATH, "2"])));
    thread::scope(|scope| {
        scope.spawn(count);
        scope.spawn(count);
    });
    terminal.run(&["counter", "get", PATH]).check(0, &["20"]);
}

#[test]
fn data_that_is_not_a_number_is_left_alone() {
    let terminal = Terminal::open();
    terminal.ask(async |client| client.create("/text", "hello").await);
    for action in [&["counter", "get", "/text"][..], &["counter", "add", "/text"]] {
        terminal.run(action).check_error(1, &["/text", "cannot be read"]);
    }
    let data = terminal.ask(async |client| Ok(client.get("/text").await?.data));
    assert_eq!(data, "hello");
}
