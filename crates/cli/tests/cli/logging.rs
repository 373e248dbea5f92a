//! What `herdsman server` writes to its log: text or JSON, audit lines, slow requests.

use serde_json::Value;

use crate::client::Client;
use crate::process::{Process, config, herdsman, word};

/// Stops a server cleanly and returns every line of its log.
fn log_of(process: Process) -> Vec<String> {
    process.signal(rustix::process::Signal::TERM);
    let (status, lines) = process.end();
    assert!(status.success(), "{lines:?}");
    lines
}

fn create(process: &mut Process, path: &str) {
    let port = process.port();
    let mut client = Client::connect(&format!("127.0.0.1:{port}")).expect("it serves");
    client.create(path, "x");
}

#[test]
fn json_lines_have_a_time_a_level_a_target_and_fields() {
    // Every write waits for company, so it is slow.
    let directory =
        config("flushDelay=30\nherdsman.slowRequestMs=10\naudit.enable=true\nnosuch=1\n");
    let mut process =
        Process::start(herdsman(directory.path(), &["--log-format", "json", "zoo.cfg"]));
    create(&mut process, "/a");
    let lines: Vec<Value> = log_of(process)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        for key in ["timestamp", "level", "target"] {
            assert!(line[key].is_string(), "{line}");
        }
        assert!(line["fields"]["message"].is_string(), "{line}");
    }
    let of_target = |target: &str| -> Vec<_> {
        lines.iter().filter(|line| line["target"] == target).map(|line| &line["fields"]).collect()
    };
    let slow = of_target("herdsman_server::operators::slow_requests");
    assert_eq!(slow[0]["op"], "create");
    assert_eq!(slow[0]["path"], "/a");
    assert!(slow[0]["took_ms"].as_u64().expect("a number") >= 10);
    assert!(slow[0]["stages"].as_str().expect("a text").contains("committed"));
    let audit: Vec<_> =
        of_target("audit").iter().filter_map(|fields| fields["message"].as_str()).collect();
    let created = "operation=create\tznode=/a\tznode_type=persistent\tresult=success";
    assert!(audit[0].ends_with("operation=serverStart\tresult=success"), "{audit:?}");
    assert!(audit.iter().any(|line| line.ends_with(created)), "{audit:?}");
    assert!(audit.iter().any(|line| line.contains("operation=serverStop")), "{audit:?}");
}

#[test]
fn audit_lines_pass_a_level_that_hides_the_rest() {
    let directory = config("audit.enable=true\n");
    let mut command = herdsman(directory.path(), &["zoo.cfg"]);
    command.env("HERDSMAN_LOG", "off");
    let mut process = Process::start(command);
    let line = process.line_with("serverStart").expect("it starts");
    assert!(line.contains(" audit: user="), "{line}");
    let lines = log_of(process);
    assert!(lines.iter().all(|line| line.contains(" audit: ")), "{lines:?}");
}

/// While standard error is not read the server continues, and afterwards it reports how many lines were dropped.
#[test]
fn a_log_that_is_not_read_does_not_block_the_server() {
    let directory = config("audit.enable=true\nforceSync=no\n4lw.commands.whitelist=ruok\n");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let port = process.port();
    let mut client = Client::connect(&format!("127.0.0.1:{port}")).expect("it serves");
    // More than a pipe and the queue hold.
    let name = "n".repeat(1000);
    for i in 0..2000 {
        client.create(&format!("/{name}{i}"), "x");
    }
    assert_eq!(word(port, "ruok"), "imok");
    let line = process.line_with("log lines before this one").expect("it is logged");
    assert!(line.contains("WARN"), "{line}");
    client.create("/last", "x");
    let lines = log_of(process);
    assert!(lines.iter().any(|line| line.contains("znode=/last")), "{lines:?}");
    assert!(lines.last().expect("lines").contains("stopped"), "{lines:?}");
}

/// A server that is stopped does not wait forever for a reader of its log.
#[test]
fn a_log_that_is_not_read_does_not_keep_the_process_from_exiting() {
    let directory = config("audit.enable=true\nforceSync=no\n");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let port = process.port();
    let mut client = Client::connect(&format!("127.0.0.1:{port}")).expect("it serves");
    let name = "n".repeat(1000);
    for i in 0..200 {
        client.create(&format!("/{name}{i}"), "x");
    }
    process.signal(rustix::process::Signal::TERM);
    assert!(process.child.wait().expect("it ends").success());
}

#[test]
fn an_invalid_level_is_reported_and_the_default_used() {
    let directory = config("");
    let mut command = herdsman(directory.path(), &["zoo.cfg"]);
    command.env("HERDSMAN_LOG", "loud");
    let mut process = Process::start(command);
    process.port();
    let warned = |line: &String| line.contains("HERDSMAN_LOG") && line.contains("\"loud\"");
    assert!(process.lines.iter().any(warned), "{:?}", process.lines);
}

#[test]
fn a_hangup_does_not_end_a_server_without_a_terminal() {
    let directory = config("");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    process.port();
    process.signal(rustix::process::Signal::HUP);
    process.line_with("SIGHUP").expect("the signal is logged");
    log_of(process);
}

#[test]
fn a_format_that_does_not_exist_is_refused() {
    let directory = config("");
    let process = Process::start(herdsman(directory.path(), &["--log-format", "xml", "zoo.cfg"]));
    let (status, lines) = process.end();
    assert_eq!(status.code(), Some(2));
    assert!(lines.iter().any(|line| line.contains("text, json")), "{lines:?}");
}
