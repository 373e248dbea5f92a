//! What comes with the binary: completions, manual pages, the health check.

use std::process::{Command, Output};

use rustix::process::Signal;

use crate::process::{Process, config, herdsman};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(arguments).env_remove("HERDSMAN_ADMIN").output().expect("the binary runs")
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success());
        for command in ["server", "shell", "inspect", "repair", "backup", "restore", "recipe"] {
            assert!(script.contains(command), "{command} is not in the script for {shell}");
        }
    }
    assert_eq!(run(&["completions", "tcl"]).status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("man1");
    let output = run(&["man", "--out", out.to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
    for (page, expected) in [
        ("herdsman.1", "Start here"),
        ("herdsman-server.1", "SIGTERM"),
        ("herdsman-shell.1", "HERDSMAN_SERVERS"),
        ("herdsman-recipe-lock.1", "Exit codes"),
    ] {
        let text = std::fs::read_to_string(out.join(page)).expect(page);
        let text = text.replace("\\-", "-");
        assert!(text.contains(expected), "{expected:?} is not in {page}:\n{text}");
    }
    let refused = run(&["man", "--out", "/dev/null/man1"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn health_is_what_the_server_says_of_itself() {
    let directory = config("");
    let mut server = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = server.line_with("console and admin commands on ").expect("it says where");
    let url = line.split_whitespace().last().expect("a URL").to_owned();
    server.port();
    for question in [&["health", "--admin", &url][..], &["health", "--ready", "--admin", &url]] {
        let output = run(question);
        assert!(output.status.success(), "{output:?}");
    }
    server.signal(Signal::TERM);
    server.end();
    let output = run(&["health", "--admin", &url]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
}

/// The console's way out is the shell's way in.
#[test]
fn an_export_over_http_is_imported_by_the_shell() {
    let directory = config("extendedTypesEnabled=true\n");
    let mut server = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = server.line_with("console and admin commands on ").expect("it says where");
    let url = line.split_whitespace().last().expect("a URL").to_owned();
    let address = format!("127.0.0.1:{}", server.port());
    let shell =
        |words: &[&str]| run(&[&["shell", "--yes", "--servers", &address][..], words].concat());
    for words in [
        &["create", "/app", "plain"][..],
        &["create", "-c", "/app/box"],
        &["create", "/app/box/inner", "x", "world:anyone:r"],
        &["create", "-t", "60000", "/app/lease", "soon over"],
    ] {
        let output = shell(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    let export = format!("{url}/api/v1/export?path=/app");
    let mut answer = ureq::get(&export).call().expect("it answers");
    let file = directory.path().join("app.jsonl");
    std::fs::write(&file, answer.body_mut().read_to_string().expect("text")).expect("written");
    let file = file.to_str().expect("text");
    let imported = shell(&["import", file, "/copy"]);
    assert!(imported.status.success(), "{imported:?}");
    let compared = shell(&["diff", "/app", "/copy"]);
    assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    let again = ureq::get(&format!("{url}/api/v1/node?path=/copy/lease")).call();
    let lease = again.expect("it answers").body_mut().read_to_string().expect("text");
    assert!(lease.contains("\"ttl_ms\":60000"), "{lease}");
}
