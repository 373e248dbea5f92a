//! Bad input: one clear line, the right exit code, and nothing changed.

use std::net::TcpListener;

use crate::world::{World, shell};

#[test]
fn wrong_usage_is_reported_in_one_line() {
    let table = [
        ("lx /", "unknown command \"lx\"; did you mean `ls`?"),
        ("frobnicate", "unknown command \"frobnicate\"; `help` lists the commands"),
        (
            "ls",
            "ls: the following required arguments were not provided: <PATH>; usage: ls [-s] [-w] \
             [-R] path",
        ),
        ("ls -z /", "ls: unexpected argument '-z' found; usage: ls [-s] [-w] [-R] path"),
        (
            "create -c -e /a",
            "create: the argument '-c' cannot be used with '-e'; usage: create [-s] [-e] [-c] \
             [-t ttl] [-p] path [data] [acl]",
        ),
        ("help nope", "help: unknown command \"nope\"; `help` lists the commands"),
        ("create /a x world:anyone", "\"world:anyone\" does not have the form scheme:id:perm"),
        ("get /a/", "not a valid path: \"/a/\""),
        ("get a", "not a valid path: \"a\""),
    ];
    let world = World::start();
    for (line, said) in table {
        let words: Vec<&str> = line.split(' ').collect();
        let failed = world.run(&words).failed(2);
        assert!(failed.starts_with(said), "{line}: {failed}");
    }
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
}

/// CVE-2016-5017: the C client's shell copied a command into a buffer of fixed length.
#[test]
fn a_command_may_have_any_length() {
    let world = World::start();
    // A server accepts a little more in one request.
    let long = "x".repeat(1000 * 1024);
    for line in [long.clone(), format!("ls /{long}"), format!("ls {long}"), format!("ls --{long}")]
    {
        let words: Vec<&str> = line.split(' ').collect();
        for ran in [world.run(&words), world.pipe(&line)] {
            assert_eq!((ran.code > 0, ran.errors.lines().count()), (true, 1), "{}", &line[..8]);
        }
    }
    world.pipe_ok(&format!("create /a {long}\n"));
    assert_eq!(world.run(&["get", "/a"]).ok(), format!("{long}\n"));
}

#[test]
fn a_mistake_is_reported_without_a_server() {
    let ran = shell(&["--server", "127.0.0.1:1", "--connect-timeout", "600", "lx"], "");
    assert_eq!(ran.failed(2), "unknown command \"lx\"; did you mean `ls`?");
}

#[test]
fn an_invalid_address_is_reported() {
    let failed = shell(&["--server", "a:99999999", "ls", "/"], "").failed(2);
    let said = "servers \"a:99999999\": port \"99999999\" in \"a:99999999\" is not a number from 1 \
                to 65535";
    assert_eq!(failed, said);
    let file = shell(&["-client-configuration", "x.properties", "ls", "/"], "").failed(2);
    assert!(file.starts_with("x.properties: cannot read x.properties: "), "{file}");
}

#[test]
fn help_needs_no_server() {
    let flags = ["--server", "127.0.0.1:1", "--connect-timeout", "600"];
    for (words, piece) in [
        (&["help", "get"][..], "get /app"),
        (&["help"], "`help COMMAND` shows flags"),
        (&["get", "--help"], "get /app"),
        (&["version"], "Herdsman shell version"),
    ] {
        let said = shell(&[&flags, words].concat(), "").ok();
        assert!(said.contains(piece), "{words:?}: {said}");
    }
}

#[test]
fn an_unreachable_server_is_reported_at_once() {
    let words = ["--server", "127.0.0.1:1", "--connect-timeout", "0.3", "ls", "/"];
    let ran = shell(&words, "");
    let [first, last] = ran.errors.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    assert_eq!(
        first,
        "cannot connect to 127.0.0.1:1: connection refused; retrying for up to 0.3 s"
    );
    assert!(last.starts_with("none of 127.0.0.1:1 opened a session within 300ms"), "{last}");
    assert_eq!(ran.code, 1);
    let in_json = shell(&[&["--json"], &words[..]].concat(), "").errors;
    assert!(in_json.starts_with(r#"{"note":"cannot connect to 127.0.0.1:1: "#), "{in_json}");
}

#[test]
fn a_silent_server_is_a_failure() {
    // Accepts connections and never replies.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let words = ["--server", address.as_str(), "--connect-timeout", "0.3", "--json", "ls", "/"];
    let failed = shell(&words, "").failed(1);
    let failed: serde_json::Value = serde_json::from_str(&failed).expect("it is JSON");
    assert_eq!(failed["error"], "ConnectFailed");
    let message = failed["message"].as_str().expect("it has a text");
    assert!(message.starts_with(&format!("none of {address} opened a session")), "{message}");
}

#[test]
fn wrong_credentials_are_a_failure() {
    let world = World::start();
    let failed = world.run(&["--auth", "nonsense:x", "ls", "/"]).failed(1);
    assert!(failed.contains("authentication failed"), "{failed}");
}
