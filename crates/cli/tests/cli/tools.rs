//! What comes with the binary: completions, manual pages, the health check.

use std::io::{Read as _, Write as _};
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
    for flag in ["--out", "--output"] {
        let output = run(&["man", flag, out.to_str().expect("text")]);
        assert!(output.status.success(), "{output:?}");
    }
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
fn health_reports_what_the_server_answers() {
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{output:?}");
    assert!(said.contains("connection refused. Is the server running"), "{said}");
}

/// `--server` is understood as before, but there it is a URL, and elsewhere it names the servers of a session.
#[test]
fn the_admin_port_has_one_name() {
    for command in ["backup", "restore", "health"] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).expect("text");
        assert!(help.contains("--admin <URL>"), "{command}: {help}");
        assert!(!help.contains("--server"), "{command}: {help}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("zk.snapshot");
    for flag in ["--admin", "--server"] {
        let file = file.to_str().expect("text");
        let output = run(&["backup", flag, "127.0.0.1:8080", "-o", file]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("give it as http://host:8080"), "{flag}: {said}");
    }
}

/// Returns what a health check prints about a server that sends this response.
fn health_of(answer: &'static [u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let stub = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        _ = stream.read(&mut [0; 4096]).expect("a request");
        _ = stream.write_all(answer);
    });
    let output = run(&["health", "--admin", &url]);
    stub.join().expect("the stub answers");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_failed_health_check_says_what_to_do() {
    assert!(health_of(b"").contains("is this the client port?"));
    let said = health_of(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    assert!(said.contains("HTTP status 404"), "{said}");
    let moved = b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n";
    assert!(health_of(moved).contains("HTTP status 302"));
    let turned = "HTTP/1.1 503 X\r\nContent-Length: 5\r\n\r\na\u{202e}b".as_bytes();
    assert!(!health_of(turned).contains('\u{202e}'));
    for address in ["zk1:8080", "127.0.0.1:8080", "localhost"] {
        let output = run(&["health", "--admin", address]);
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = format!(
            "herdsman: {address}: the URL needs http:// or https://, as in http://{address}\n"
        );
        assert_eq!((output.status.code(), said.as_ref()), (Some(1), expected.as_str()));
    }
    assert_eq!(run(&["health", "--timeout", "0"]).status.code(), Some(2));
}

/// Any program may answer at the address.
#[test]
fn a_response_to_a_health_check_can_neither_control_the_terminal_nor_flood_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let stub = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = [0; 4096];
        _ = stream.read(&mut head).expect("a request");
        let body = format!("\x1b[2Jgone\n{}", "x".repeat(100_000));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        _ = stream.write_all(answer.as_bytes());
    });
    let output = run(&["health", "--admin", &url]);
    stub.join().expect("the stub answers");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("gone") && !said.contains('\x1b'), "{said}");
    assert!(said.lines().count() == 1 && said.len() < 2000, "{} bytes", said.len());
}

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
