//! `herdsman recipe queue`.

use std::process::Stdio;

use super::terminal::{Running, Terminal};

const PATH: &str = "/jobs";

#[test]
fn items_come_out_as_they_went_in() {
    let terminal = Terminal::open();
    terminal.run(&["queue", "put", PATH, "one", "two"]).check(0, &[]);
    let put = terminal.command(&["queue", "put", PATH]);
    Running::start_with_input(put, b"three\nfour, at last\n\nno line end").end().check(0, &[]);
    terminal.run(&["queue", "length", PATH]).check(0, &["6"]);
    terminal.run(&["queue", "peek", PATH]).check(0, &["one"]);
    terminal.run(&["queue", "take", PATH]).check(0, &["one"]);
    terminal
        .run(&["queue", "take", PATH, "--count", "5"])
        .check(0, &["two", "three", "four, at last", "", "no line end"]);
    terminal.run(&["queue", "length", PATH]).check(0, &["0"]);
}

#[test]
fn an_empty_queue_is_code_3() {
    let terminal = Terminal::open();
    terminal.run(&["queue", "length", PATH]).check(0, &["0"]);
    let empty = ["herdsman: /jobs is empty"];
    terminal.run(&["queue", "peek", PATH]).check_error(3, &empty);
    terminal.run(&["queue", "take", PATH, "--timeout", "0.01"]).check_error(3, &empty);
}

#[test]
fn taking_waits_for_an_item() {
    let terminal = Terminal::open();
    let taker = terminal.start(&["queue", "take", PATH, "--count", "2"]);
    terminal.run(&["queue", "put", PATH, "one"]).check(0, &[]);
    assert_eq!(taker.line(), "one");
    taker.interrupted().check(130, &[]);
    terminal.run(&["queue", "put", PATH, "two"]).check(0, &[]);
    terminal.run(&["queue", "length", PATH]).check(0, &["1"]);
}

/// Ctrl-C must work while the command waits for standard input.
#[test]
fn waiting_for_input_can_be_interrupted() {
    use std::io::Write;
    let terminal = Terminal::open();
    let mut command = terminal.command(&["queue", "put", PATH]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"one\n").expect("it reads");
    let putting = Running::follow(child);
    terminal.run(&["queue", "take", PATH]).check(0, &["one"]);
    putting.interrupted().check(130, &[]);
}
