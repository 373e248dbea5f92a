//! `herdsman bench` against a server in a process of its own, with the echo server that it starts itself.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{Process, config, herdsman};

fn bench(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.arg("bench").args(words.split_whitespace());
    command
}

fn run(words: &str) -> Output {
    bench(words).output().expect("the binary runs")
}

/// A server, and the flag that names it on a command line.
fn server() -> (tempfile::TempDir, Process, String) {
    let directory = config("");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let target = format!("--target h=127.0.0.1:{}", process.port());
    (directory, process, target)
}

#[test]
fn a_report_has_a_row_for_the_server_and_one_for_the_echo() {
    let (directory, _process, target) = server();
    let file = directory.path().join("report.json");
    let picture = directory.path().join("report.svg");
    let output = run(&format!(
        "get session {target} --echo --connections 2 --depth 4 --keys 20 --duration 0.2 --warmup 0 \
         --rounds 1 --format json --output {} --plot {}",
        file.display(),
        picture.display()
    ));
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", text(&row["workload"]), text(&row["target"])))
        .collect();
    assert_eq!(names, ["get h", "get echo", "session h", "session echo"]);
    for row in rows {
        assert_eq!(row["rounds"][0]["errors"], 0, "{row}");
        assert!(row["rounds"][0]["ops"].as_u64() > Some(0), "{row}");
    }
    assert_eq!(std::fs::read(&file).expect("the file"), output.stdout);
    assert!(std::fs::read_to_string(&picture).expect("the picture").contains("</svg>"));
}

#[test]
fn servers_need_no_name_and_every_alias_of_the_flag_works() {
    let (_directory, mut process, target) = server();
    let address = target.rsplit('=').next().expect("an address");
    for flag in ["--servers", "--server", "--target"] {
        let output = run(&format!(
            "get {flag} {address} --connections 1 --keys 5 --duration 0.05 --warmup 0 --rounds 1"
        ));
        assert!(output.status.success(), "{flag}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(address), "{output:?}");
    }
    process.child.kill().expect("it runs");
}

#[test]
fn ctrl_c_prints_the_results_so_far_and_deletes_the_znodes() {
    let (_directory, _process, target) = server();
    let mut child =
        bench(&format!("get {target} --keys 20 --duration 0.1 --warmup 0 --rounds 99999"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let measured = lines.by_ref().map_while(Result::ok).any(|line| line.contains("round 1/"));
    assert!(measured, "the first round is reported");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let mut table = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut table).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(table.contains("get"), "{table}");
    let port = target.rsplit(':').next().expect("a port");
    let left = Command::new(env!("CARGO_BIN_EXE_herdsman"))
        .args(["shell", "--servers", &format!("127.0.0.1:{port}"), "ls", "/"])
        .output()
        .expect("the binary runs");
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "[zookeeper]");
}

#[test]
fn mistakes_are_reported_in_one_line_with_exit_code_2() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    for (words, expected) in [
        ("get --target a=h:x", "the port must be a number"),
        ("juggle", "invalid value 'juggle'"),
        ("get --keys 0", "--keys"),
        ("get --root bench", "not a valid znode path"),
        ("get --root /zookeeper/x", "belongs to the servers"),
        ("get --output /no/such/directory/x.json", "its directory must exist"),
        (&format!("get --target a=127.0.0.1:{port}"), "target a: cannot connect to"),
        (&format!("fill --target a=127.0.0.1:{port}"), "target a: cannot connect to"),
    ] {
        let output = run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(expected), "{words}: {text}");
        assert!(output.stdout.is_empty(), "{words}");
    }
}
