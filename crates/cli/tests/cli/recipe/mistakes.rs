//! What goes wrong, and the help.

use std::net::TcpListener;

use super::terminal::{Running, Terminal, recipe};

#[test]
fn an_invalid_path_is_reported() {
    let terminal = Terminal::open();
    for arguments in [
        &["lock", "deploy", "--", "echo", "never"][..],
        &["locks", "a"],
        &["election", "/a/"],
        &["barrier", "wait", "/a//b"],
        &["queue", "length", ""],
        &["watch-config", "/a/../b"],
        &["publish-config", "a", "1"],
        &["register", "web", "a:1", "--base", "services"],
        &["discover", "--base", "services"],
        &["id", "ids", "--kind", "sequential"],
        &["id", "ids"],
        &["counter", "add", "a"],
        &["counter", "get", "a"],
        &["semaphore", "a", "-p", "1"],
        &["group", "join", "a", "me"],
        &["group", "members", "a"],
        &["monitor", "report", "a", "m1", "1"],
        &["monitor", "watch", "a"],
        &["partition", "a", "s1"],
        &["dispatch", "send", "a", "x"],
        &["dispatch", "receive", "a", "me", "--", "true"],
        &["dispatch", "clients", "a"],
        &["master", "a"],
        &["worker", "a", "--", "true"],
        &["submit", "a", "x"],
    ] {
        let ended = terminal.run(arguments);
        ended.check_error(1, &["herdsman: ", "path"]);
        assert!(ended.out.is_empty(), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn an_invalid_connect_string_is_reported() {
    for (servers, reason) in [
        ("", "names no server"),
        ("host:port", "host:port"),
        ("a:1:2", "not an IPv6 address"),
        ("a:1/b/", "chroot"),
    ] {
        let ended = Running::start(recipe(servers, &["locks"])).end();
        ended.check_error(1, &["herdsman: cannot connect to", reason]);
    }
}

#[test]
fn connecting_to_a_missing_server_times_out() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("bound").to_string();
    // The connection is not accepted, so there is no response; after the drop it is refused.
    let arguments = ["--connect-timeout", "0.2", "id"];
    Running::start(recipe(&address, &arguments)).end().check_error(1, &[&address, "within"]);
    drop(held);
    Running::start(recipe(&address, &arguments)).end().check_error(1, &[&address, "refused"]);
}

/// Not only when the time is over: with this timeout the attempts would take longer than any test waits.
#[test]
fn a_server_that_cannot_be_reached_is_reported_at_once() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refusing = held.local_addr().expect("bound").to_string();
    drop(held);
    for (servers, reason) in
        [(refusing.as_str(), "connection refused"), ("no-such-host.invalid:2181", "unknown host")]
    {
        let connecting = Running::start(recipe(servers, &["--connect-timeout", "1000", "id"]));
        let line = connecting.error_line();
        let expected = format!("herdsman: cannot connect to {servers}: {reason}");
        assert!(
            line.starts_with(&expected) && line.ends_with("; retrying for up to 1000 s"),
            "{line}"
        );
        connecting.interrupted().check(130, &[]);
    }
}

#[test]
fn an_attempt_to_connect_can_be_interrupted() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("bound").to_string();
    let connecting = Running::start(recipe(&address, &["--connect-timeout", "1000", "id"]));
    // By now the command listens for Ctrl-C.
    let _accepted = held.accept().expect("it connects");
    connecting.interrupted().check(130, &[]);
}

#[test]
fn the_servers_can_come_from_the_environment() {
    let terminal = Terminal::open();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(["recipe", "locks"]).env("HERDSMAN_SERVERS", terminal.server.connect_string());
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn both_names_of_the_servers_flag_mean_the_same() {
    let terminal = Terminal::open();
    let servers = terminal.server.connect_string();
    for flag in ["--servers", "--server", "-s"] {
        for words in
            [&["recipe", flag, &servers, "locks"][..], &["recipe", "locks", flag, &servers]]
        {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_herdsman"));
            let output = command.args(words).output().expect("it runs");
            assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        }
    }
}

#[test]
fn invalid_credentials_are_refused() {
    let terminal = Terminal::open();
    for auth in ["digest", "", ":secret"] {
        terminal
            .run(&["--auth", auth, "locks"])
            .check_error(2, &["--auth", "digest:user:password"]);
    }
    terminal.run(&["--auth", "nosuch:a", "locks"]).check_error(1, &["authentication failed"]);
    terminal
        .run(&["--auth", "digest:user:password", "locks"])
        .check(0, &["no locks at or below /"]);
}

#[test]
fn invalid_times_are_wrong_usage() {
    let terminal = Terminal::open();
    for (time, reason) in [("soon", "for example 2.5"), ("-1", ""), ("1e300", "too large")] {
        let option = format!("--timeout={time}");
        terminal.run(&["lock", "/l", &option]).check_error(2, &["--timeout", reason]);
    }
    terminal.run(&["lock", "/l", "-n", "-t1"]).check_error(2, &["cannot be used with"]);
}

#[test]
fn every_help_has_a_line_for_each_command_and_the_exit_codes() {
    let help = |arguments: &[&str]| {
        let mut command = recipe("a:1", arguments);
        let ended = Running::start({
            command.arg("--help");
            command
        })
        .end();
        assert_eq!(ended.code, Some(0));
        ended.out
    };
    let recipes = [
        "lock",
        "locks",
        "election",
        "barrier",
        "queue",
        "watch-config",
        "publish-config",
        "register",
        "discover",
        "id",
        "counter",
        "semaphore",
        "group",
        "monitor",
        "partition",
        "dispatch",
        "master",
        "worker",
        "submit",
    ];
    let all = help(&[]);
    for recipe in recipes {
        let start = format!("  {recipe} ");
        assert!(all.iter().any(|line| line.starts_with(&start)), "{recipe}: {all:#?}");
        check_exit_codes(&help(&[recipe]));
    }
    check_exit_codes(&all);
    check_exit_codes(&help(&["queue", "take"]));
    check_exit_codes(&help(&["barrier", "together"]));
}

fn check_exit_codes(help: &[String]) {
    assert!(help.iter().any(|line| line.starts_with("Exit codes:")), "{help:#?}");
    assert!(help.iter().any(|line| line.contains("130  interrupted")), "{help:#?}");
}

#[test]
fn without_a_server_ctrl_c_still_ends_it() {
    let mut terminal = Terminal::open();
    let holder = terminal.start(&["lock", "/l"]);
    let watcher = terminal.start(&["watch-config", "/c"]);
    holder.line();
    watcher.line();
    terminal.server.kill();
    for running in [holder, watcher] {
        running
            .interrupted()
            .check_error(0, &["herdsman: the server did not confirm the end of the session"]);
    }
}
