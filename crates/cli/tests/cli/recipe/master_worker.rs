//! `herdsman recipe master`, `worker` and `submit`.

use super::terminal::{Running, Terminal};

const PATH: &str = "/jobs";

fn master(terminal: &Terminal, more: &[&str]) -> Running {
    let mut arguments = vec!["master", PATH, "--id", "m"];
    arguments.extend(more);
    let master = terminal.start(&arguments);
    assert_eq!(master.line(), "m is a standby master of /jobs");
    master
}

fn worker(terminal: &Terminal, id: &str, more: &[&str]) -> Running {
    let mut arguments = vec!["worker", PATH, "--id", id];
    arguments.extend(more);
    let worker = terminal.start(&arguments);
    assert_eq!(worker.line(), format!("{id} executes tasks of /jobs; Ctrl-C stops it"));
    worker
}

#[test]
fn the_output_of_the_command_is_the_result_of_the_task() {
    let terminal = Terminal::open();
    let master = master(&terminal, &[]);
    assert_eq!(master.line(), "m is the active master of /jobs");
    let worker = worker(&terminal, "w", &["--", "tr", "a-z", "A-Z"]);
    terminal.run(&["submit", PATH, "hello"]).check(0, &["HELLO"]);
    let line = worker.line();
    assert!(line.starts_with("task ") && line.ends_with(": done"), "{line}");
    let submit = terminal.command(&["submit", PATH]);
    Running::start_with_input(submit, b"two\nlines\n").end().check(0, &["TWO", "LINES"]);
    worker.line();
    worker.interrupted().check(0, &[]);
    assert!(terminal.children("/jobs/workers").is_empty());
    master.interrupted().check(0, &[]);
    assert!(terminal.children("/jobs/master").is_empty());
}

#[test]
fn the_result_of_a_task_with_a_key_can_be_read_later() {
    let terminal = Terminal::open();
    let submit = ["submit", PATH, "x y", "--key", "greeting"];
    for _ in 0..2 {
        let mut impatient = submit.to_vec();
        impatient.push("--no-wait");
        terminal.run(&impatient).check(0, &["key-greeting"]);
    }
    let mut hurried = submit.to_vec();
    hurried.extend(["--timeout", "0.01"]);
    terminal.run(&hurried).check_error(3, &["herdsman: timed out waiting for task key-greeting"]);
    let _master = master(&terminal, &[]);
    let script = "echo \"$HERDSMAN_TASK_ID $HERDSMAN_TASK_ATTEMPT $1\"";
    let worker = worker(&terminal, "w", &["--as-argument", "--", "sh", "-c", script, "sh"]);
    terminal.run(&submit).check(0, &["key-greeting 1 x y"]);
    assert_eq!(worker.line(), "task key-greeting: done");
}

#[test]
fn a_failing_task_is_retried_up_to_the_limit() {
    let terminal = Terminal::open();
    let _master = master(&terminal, &["--attempts", "2"]);
    let worker = worker(&terminal, "w", &["--", "sh", "-c", "exit 7"]);
    let ended = terminal.run(&["submit", PATH, "x", "--key", "k"]);
    ended.check_error(3, &["herdsman: task key-k failed: the command exited with 7"]);
    for _ in 0..2 {
        assert_eq!(worker.line(), "task key-k: failed: the command exited with 7");
    }
}

#[test]
fn data_that_cannot_be_an_argument_fails_only_its_task() {
    let terminal = Terminal::open();
    let _master = master(&terminal, &[]);
    let worker = worker(&terminal, "w", &["--as-argument", "--", "echo"]);
    let submit = terminal.command(&["submit", PATH]);
    let ended = Running::start_with_input(submit, b"a\0b").end();
    ended.check_error(3, &["failed: the data cannot be an argument"]);
    terminal.run(&["submit", PATH, "fine"]).check(0, &["fine"]);
    worker.line();
    worker.line();
    worker.interrupted().check(0, &[]);
}

#[test]
fn an_interrupted_worker_ends_its_command_and_another_gets_the_task() {
    let terminal = Terminal::open();
    let _master = master(&terminal, &[]);
    let stubborn = "trap 'echo asked to end >&2; exit' TERM
        echo busy >&2; while :; do sleep 0.05; done";
    let busy = worker(&terminal, "busy", &["--", "sh", "-c", stubborn]);
    let submitted = terminal.start(&["submit", PATH, "hello"]);
    assert_eq!(busy.error_line(), "busy");
    busy.interrupted().check_error(0, &["asked to end"]);
    let _next = worker(&terminal, "next", &["--", "cat"]);
    submitted.end().check(0, &["hello"]);
}

#[test]
fn a_command_that_cannot_be_run_ends_the_worker_and_not_the_task() {
    let terminal = Terminal::open();
    let _master = master(&terminal, &[]);
    let broken = worker(&terminal, "broken", &["--", "no-such-command"]);
    let submitted = terminal.start(&["submit", PATH, "hello"]);
    broken.end().check_error(127, &["herdsman: cannot run no-such-command", "No such file"]);
    let _next = worker(&terminal, "next", &["--", "cat"]);
    submitted.end().check(0, &["hello"]);
}

#[test]
fn a_second_master_takes_over() {
    let terminal = Terminal::open();
    let first = master(&terminal, &[]);
    assert_eq!(first.line(), "m is the active master of /jobs");
    let second = master(&terminal, &[]);
    terminal.wait_for_children("/jobs/master", 2);
    first.interrupted().check(0, &[]);
    assert_eq!(second.line(), "m is the active master of /jobs");
}

#[test]
fn waiting_for_a_result_can_be_interrupted() {
    let terminal = Terminal::open();
    let submitted = terminal.start(&["submit", PATH, "hello", "--key", "k"]);
    terminal.wait_for("/jobs/status/key-k");
    submitted.interrupted().check(130, &[]);
}
