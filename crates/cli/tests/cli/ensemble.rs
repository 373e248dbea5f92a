//! `herdsman server --ensemble N` as a process.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::{Process, herdsman, word};

/// Ensembles use the standard ports if they are free, and nothing reserves a port before its server opens it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Ensemble {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    addresses: Vec<String>,
    root: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Ensemble {
    fn start(arguments: &[&str]) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = herdsman(Path::new("/"), arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let input = process.child.stdin.take().expect("piped");
        let output = BufReader::new(process.child.stdout.take().expect("piped"));
        let (addresses, root) = (Vec::new(), PathBuf::new());
        let mut ensemble = Ensemble { process, input, output, addresses, root, _turn: turn };
        let directory = ensemble.printed("data directory: ");
        ensemble.root = directory.split(" (temporary").next().expect("a path").into();
        let addresses = ensemble.printed("connect string: ");
        ensemble.addresses = addresses.split(',').map(str::to_owned).collect();
        ensemble
    }

    /// What follows `text` in the next line with it on standard output.
    fn printed(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line).expect("it is text");
            assert!(bytes > 0, "no {text:?}; {:?}", self.process.lines);
            if let Some((_, rest)) = line.trim_end().split_once(text) {
                return rest.to_owned();
            }
        }
    }

    fn command(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    /// Waits until there are a leader and this many followers, and returns the leader's number. A leader logs that it
    /// leads before it notifies its followers that they are up to date.
    fn wait_for_leader(&mut self, followers: usize) -> usize {
        let line = self.wait_for(": leading epoch ");
        for _ in 0..followers {
            self.wait_for(": following server ");
        }
        let id = line.split("server{id=").nth(1).and_then(|rest| rest.split('}').next());
        id.and_then(|id| id.parse().ok()).expect("the line names its server")
    }

    fn wait_for(&mut self, text: &str) -> String {
        let found = self.process.line_with(text);
        found.unwrap_or_else(|| panic!("no {text:?} in {:?}", self.process.lines))
    }

    fn client(&self, id: usize) -> Client {
        Client::connect(&self.addresses[id - 1]).expect("the server serves")
    }

    fn word(&self, id: usize, text: &str) -> String {
        let port = self.addresses[id - 1].rsplit(':').next().and_then(|port| port.parse().ok());
        word(port.expect("a port"), text)
    }

    fn end(self, signal: Signal) -> Vec<String> {
        self.process.signal(signal);
        let (status, log) = self.process.end();
        assert!(status.success(), "{log:?}");
        log
    }
}

#[test]
fn a_write_on_one_server_is_read_on_the_others() {
    let mut ensemble = Ensemble::start(&["--ensemble", "3"]);
    let leader = ensemble.wait_for_leader(2);
    assert!(ensemble.word(leader, "srvr").contains("Mode: leader"));
    ensemble.client(1).create("/greeting", "hello");
    for id in [2, 3] {
        let mut client = ensemble.client(id);
        client.sync();
        assert_eq!(client.get("/greeting"), "hello", "on server {id}");
    }
    assert!(ensemble.word(1, "mntr").contains("zk_quorum_size\t3\n"));
    let root = ensemble.root.clone();
    assert!(root.join("3/zoo.cfg").exists(), "{root:?}");
    let log = ensemble.end(Signal::INT);
    assert!(!root.exists(), "{root:?} is left");
    for id in 1..=3 {
        let stopped = format!("server{{id={id}}}: stopped");
        assert!(log.iter().any(|line| line.contains(&stopped)), "{log:?}");
    }
}

#[test]
fn a_leader_can_be_killed_and_started_again() {
    let mut ensemble = Ensemble::start(&["--ensemble", "3"]);
    let first = ensemble.wait_for_leader(2);
    ensemble.client(first).create("/before", "1");
    ensemble.command(&format!("kill {first}"));
    let second = ensemble.wait_for_leader(1);
    assert_ne!(first, second);
    ensemble.client(second).create("/after", "2");
    ensemble.command("status");
    let shown = ensemble.printed(&format!("server {first}  "));
    assert!(shown.ends_with("stopped"), "{shown}");
    ensemble.command(&format!("start {first}"));
    ensemble.wait_for(&format!("server{{id={first}}}: following server {second} "));
    let mut client = ensemble.client(first);
    client.sync();
    assert_eq!((client.get("/before"), client.get("/after")), ("1".to_owned(), "2".to_owned()));
    ensemble.command("walk 3");
    assert!(ensemble.printed("\"walk 3\" is not a command").contains("stop N"));
    ensemble.command("quit");
    let (status, log) = ensemble.process.end();
    assert!(status.success(), "{log:?}");
}

#[test]
fn a_named_directory_keeps_data_and_ports() {
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    let path = directory.path().join("playground");
    let arguments = ["--ensemble", "1", "--dir", path.to_str().expect("it is text")];
    let mut ensemble = Ensemble::start(&arguments);
    ensemble.wait_for("leading epoch 1");
    let addresses = ensemble.addresses.clone();
    ensemble.client(1).create("/kept", "yes");
    ensemble.end(Signal::TERM);
    let mut ensemble = Ensemble::start(&arguments);
    ensemble.wait_for("leading epoch 2");
    assert_eq!(ensemble.addresses, addresses);
    assert_eq!(ensemble.client(1).get("/kept"), "yes");
    ensemble.end(Signal::TERM);
    assert!(path.join("1/data/version-2").is_dir());
}

#[test]
fn bad_arguments_are_refused_with_code_2() {
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    std::fs::write(directory.path().join("zoo.cfg"), "").expect("written");
    for (arguments, expected) in [
        (&["--ensemble", "0"][..], "1..=9"),
        (&["--ensemble", "three"], "invalid"),
        (&["--dir", "x"], "--ensemble"),
        (&["--ensemble", "3", "zoo.cfg"], "cannot be used with"),
        (&["--ensemble", "3", "--dir", "."], "does not contain an ensemble"),
    ] {
        let (status, log) = Process::start(herdsman(directory.path(), arguments)).end();
        assert_eq!(status.code(), Some(2), "{arguments:?}: {log:?}");
        assert!(log.iter().any(|line| line.contains(expected)), "{arguments:?}: {log:?}");
    }
}
