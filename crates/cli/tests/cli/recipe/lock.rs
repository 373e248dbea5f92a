//! `herdsman recipe lock`.

use std::thread;

use tempfile::TempDir;

use super::terminal::Terminal;

const LOCK: &str = "/locks/deploy";

#[test]
fn a_command_finds_the_node_and_a_token_that_grows() {
    let terminal = Terminal::open();
    let mut last_token = -1;
    for _ in 0..2 {
        let script = "echo $HERDSMAN_LOCK_NODE; echo $HERDSMAN_FENCING_TOKEN";
        let lines = terminal.lines(&["lock", LOCK, "--", "sh", "-c", script]);
        assert!(lines[0].starts_with("/locks/deploy/_c_"), "{lines:?}");
        let token: i64 = lines[1].parse().expect("a number");
        assert!(token > last_token, "{token} after {last_token}");
        last_token = token;
        assert!(terminal.children(LOCK).is_empty());
    }
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let terminal = Terminal::open();
    terminal.run(&["lock", LOCK, "--", "sh", "-c", "exit 7"]).check(7, &[]);
    terminal.run(&["lock", LOCK, "--", "sh", "-c", "kill -KILL $$"]).check(137, &[]);
    terminal
        .run(&["lock", LOCK, "--", "no-such-command"])
        .check_error(127, &["herdsman: cannot run no-such-command", "No such file"]);
    assert!(terminal.children(LOCK).is_empty());
}

#[test]
fn without_waiting_a_held_lock_is_code_3() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["lock", LOCK]);
    let line = holder.line();
    assert!(line.starts_with("holding /locks/deploy/_c_"), "{line}");
    assert!(line.ends_with("; press Ctrl-C to release it"), "{line}");
    for patience in ["--no-wait", "-n", "--timeout=0", "-t0.01"] {
        let refused = terminal.run(&["lock", LOCK, patience, "--", "echo", "never"]);
        refused.check_error(3, &["herdsman: /locks/deploy is held by another client"]);
        assert!(refused.out.is_empty(), "{refused:?}");
        assert_eq!(terminal.children(LOCK).len(), 1, "{patience} left a node behind");
    }
    holder.interrupted().check(0, &["releasing it"]);
    terminal.run(&["lock", LOCK, "-n", "--", "echo", "mine"]).check(0, &["mine"]);
}

#[test]
fn interrupted_while_waiting_and_while_holding_the_node_is_gone_at_once() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["lock", LOCK]);
    holder.line();
    let waiter = terminal.start(&["lock", LOCK]);
    terminal.wait_for_children(LOCK, 2);
    waiter.interrupted().check(130, &[]);
    assert_eq!(terminal.children(LOCK).len(), 1);
    holder.interrupted().check(0, &["releasing it"]);
    assert!(terminal.children(LOCK).is_empty());
}

#[test]
fn a_waiter_gets_the_lock_when_the_holder_releases_it() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["lock", LOCK]);
    holder.line();
    let waiter = terminal.start(&["lock", LOCK, "--timeout", "60", "--", "echo", "mine"]);
    terminal.wait_for_children(LOCK, 2);
    holder.interrupted();
    waiter.end().check(0, &["mine"]);
}

#[test]
fn two_terminals_never_run_their_commands_at_the_same_time() {
    let terminal = Terminal::open();
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    let file = directory.path().join("counter");
    std::fs::write(&file, "0\n").expect("written");
    let script = "read n < \"$0\"; echo $((n + 1)) > \"$0\"";
    let file_name = file.to_str().expect("text");
    let count = || {
        for _ in 0..10 {
            terminal.lines(&["lock", LOCK, "--", "sh", "-c", script, file_name]);
        }
    };
    thread::scope(|scope| {
        scope.spawn(count);
        scope.spawn(count);
    });
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "20\n");
}

/// Prints its node when it starts; on SIGTERM prints a line and exits with 5.
const STUBBORN: &str = "trap 'echo asked to end; exit 5' TERM
    echo $HERDSMAN_LOCK_NODE; while :; do sleep 0.05; done";

#[test]
fn a_command_is_asked_to_end_when_the_lock_is_lost() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["lock", LOCK, "--", "sh", "-c", STUBBORN]);
    let node = holder.line();
    terminal.server.expire_session(terminal.owner(&node));
    let ended = holder.end();
    ended.check(4, &["asked to end"]);
    ended.check_error(4, &["herdsman: lost while the command was running"]);
}

#[test]
fn a_command_is_asked_to_end_when_only_herdsman_is_interrupted() {
    let terminal = Terminal::open();
    let holder = terminal.start_apart(&["lock", LOCK, "--", "sh", "-c", STUBBORN]);
    holder.line();
    holder.interrupted().check(5, &["asked to end"]);
    assert!(terminal.children(LOCK).is_empty());
}

#[test]
fn a_lock_whose_node_is_deleted_is_lost() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["lock", LOCK]);
    holder.line();
    let node = format!("{LOCK}/{}", terminal.children(LOCK)[0]);
    terminal.ask(async |client| client.delete(&node).await);
    holder.end().check_error(4, &["herdsman: lost", &node]);
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let terminal = Terminal::open();
    let readers = [(); 2].map(|()| terminal.start(&["lock", LOCK, "--mode", "read"]));
    for reader in &readers {
        reader.line();
    }
    let writer = ["lock", LOCK, "--mode", "write", "-n", "--", "echo", "written"];
    terminal.run(&writer).check(3, &[]);
    for reader in readers {
        reader.interrupted();
    }
    terminal.run(&writer).check(0, &["written"]);
}
