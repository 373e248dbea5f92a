//! `herdsman recipe dispatch`.

use super::terminal::{Running, Terminal};

const PATH: &str = "/fleet";

fn receiver(terminal: &Terminal, id: &str, command: &[&str]) -> Running {
    let mut arguments = vec!["dispatch", "receive", PATH, id, "--"];
    arguments.extend(command);
    let receiver = terminal.start(&arguments);
    assert_eq!(receiver.line(), format!("{id} receives messages from /fleet; Ctrl-C stops it"));
    receiver
}

#[test]
fn all_connected_clients_process_a_message_and_reply() {
    let terminal = Terminal::open();
    let send = ["dispatch", "send", PATH, "reload"];
    terminal
        .run(&send)
        .check_error(3, &["herdsman: no client is connected to receive the message"]);
    terminal
        .run(&["dispatch", "clients", PATH])
        .check_error(3, &["herdsman: no clients are connected at /fleet"]);
    let good = receiver(&terminal, "a", &["sed", "s/^/did /"]);
    terminal.run(&send).check(0, &["a: did reload"]);
    let line = good.line();
    assert!(line.starts_with("message _c_") && line.ends_with(": done"), "{line}");

    let bad = receiver(&terminal, "b", &["sh", "-c", "test -n \"$HERDSMAN_MESSAGE_ID\" && exit 7"]);
    terminal.run(&["dispatch", "clients", PATH]).check(0, &["a", "b"]);
    let mut ended = terminal.run(&send);
    ended.out.sort_unstable();
    ended.check(3, &["a: did reload", "b failed: the command exited with 7"]);
    let line = bad.line();
    assert!(line.ends_with(": failed: the command exited with 7"), "{line}");
    terminal.run(&["dispatch", "send", PATH, "again", "--to", "a"]).check(0, &["a: did again"]);

    bad.interrupted().check(0, &[]);
    terminal.run(&["dispatch", "clients", PATH]).check(0, &["a"]);
    good.line();
    good.line();
    good.interrupted().check(0, &[]);
}

#[test]
fn a_client_that_does_not_reply_in_time_is_named_and_can_reply_later() {
    let terminal = Terminal::open();
    let send = ["dispatch", "send", PATH, "reload", "--to", "a"];
    let mut hurried = send.to_vec();
    hurried.extend(["--timeout", "0.01"]);
    terminal.run(&hurried).check_error(3, &["herdsman: timed out waiting for a reply from a"]);
    let sent = terminal.start(&send);
    assert_eq!(sent.line(), "a disconnected without a reply");
    let late = receiver(&terminal, "a", &["cat"]);
    sent.end().check(0, &["a: reload"]);
    // Both messages.
    assert!(late.line().ends_with(": done") && late.line().ends_with(": done"));
}

#[test]
fn an_interrupted_message_is_processed_by_the_next_client_with_the_id() {
    let terminal = Terminal::open();
    let busy = receiver(&terminal, "a", &["sh", "-c", "echo busy >&2; sleep 600"]);
    let sent = terminal.start(&["dispatch", "send", PATH, "reload"]);
    assert_eq!(busy.error_line(), "busy");
    busy.interrupted().check(0, &[]);
    assert_eq!(sent.line(), "a disconnected without a reply");
    let _next = receiver(&terminal, "a", &["cat"]);
    sent.end().check(0, &["a: reload"]);
}

#[test]
fn a_command_that_cannot_be_run_ends_the_receiver() {
    let terminal = Terminal::open();
    let receiver = receiver(&terminal, "a", &["no-such-command"]);
    let sent = terminal.start(&["dispatch", "send", PATH, "reload"]);
    receiver.end().check_error(127, &["herdsman: cannot run no-such-command", "No such file"]);
    sent.interrupted();
}
