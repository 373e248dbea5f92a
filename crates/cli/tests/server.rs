//! `herdsman server` as a process: how it starts, what it says, how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use tempfile::TempDir;

/// A server process; killed when dropped.
struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    lines: Vec<String>,
}

fn herdsman(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.arg("server").args(arguments).current_dir(directory).stderr(Stdio::piped());
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS", "HERDSMAN_LOG"] {
        command.env_remove(variable);
    }
    command
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        Process { child, log, lines: Vec::new() }
    }

    /// Reads the log up to a line with `text`; `None` if the log ends first.
    fn line_with(&mut self, text: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.log.read_line(&mut line).expect("the log is text") == 0 {
                return None;
            }
            self.lines.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
    }

    /// Waits until it serves, and gives its port.
    fn port(&mut self) -> u16 {
        let line =
            self.line_with("serving clients on ").unwrap_or_else(|| panic!("{:?}", self.lines));
        let address =
            line.split("serving clients on ").nth(1).and_then(|rest| rest.split(',').next());
        address
            .and_then(|address| address.rsplit(':').next())
            .and_then(|port| port.parse().ok())
            .expect("a port")
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    fn end(mut self) -> (ExitStatus, Vec<String>) {
        while self.line_with("\u{0}").is_some() {}
        let status = self.child.wait().expect("the process ends");
        (status, std::mem::take(&mut self.lines))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn config(text: &str) -> TempDir {
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    let text = format!("clientPort=0\ndataDir={}/data\n{text}", directory.path().display());
    std::fs::write(directory.path().join("zoo.cfg"), text).expect("written");
    directory
}

fn word(port: u16, word: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(word.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers text and closes");
    answer
}

#[test]
fn a_zoo_cfg_is_served_and_sigterm_ends_it_cleanly() {
    let directory = config("4lw.commands.whitelist=ruok,conf\ninitLimit=5\n");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let port = process.port();
    assert_eq!(word(port, "ruok"), "imok");
    assert!(word(port, "srvr").contains("Mode: standalone"));
    assert!(word(port, "mntr").contains("not in the whitelist"));
    process.signal(rustix::process::Signal::TERM);
    let (status, log) = process.end();
    assert!(status.success(), "{log:?}");
    assert!(directory.path().join("data/version-2/snapshot.0").exists());
}

#[test]
fn system_properties_come_from_flags_and_environment() {
    let directory = config("");
    let mut command =
        herdsman(directory.path(), &["-Dzookeeper.4lw.commands.whitelist=*", "zoo.cfg"]);
    command.env("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.maxCnxns=77 '-Dzookeeper.nosuch=a b'");
    let mut process = Process::start(command);
    let port = process.port();
    assert_eq!(word(port, "ruok"), "imok");
}

#[test]
fn unknown_settings_are_named_with_their_line() {
    let directory = config("tickTme=2000\n");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    process.port();
    let warned =
        process.lines.iter().any(|line| line.contains("zoo.cfg:3") && line.contains("tickTime"));
    assert!(warned, "{:?}", process.lines);
}

#[test]
fn a_bad_setting_ends_the_start_with_code_2_and_says_where() {
    let directory = config("tickTime=fast\n");
    let (status, log) = Process::start(herdsman(directory.path(), &["zoo.cfg"])).end();
    assert_eq!(status.code(), Some(2));
    assert!(
        log.iter().any(|line| line.contains("zoo.cfg:3") && line.contains("tickTime")),
        "{log:?}"
    );
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let directory = config("");
    let mut first = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    first.port();
    let (status, log) = Process::start(herdsman(directory.path(), &["zoo.cfg"])).end();
    assert_eq!(status.code(), Some(3));
    let pid = first.child.id().to_string();
    assert!(log.iter().any(|line| line.contains(&pid)), "{log:?}");
}

#[test]
fn unreadable_identity_files_stop_the_start() {
    for (name, content) in [("myid", "one"), ("version-2/currentEpoch", "x")] {
        let directory = config("");
        let path = directory.path().join("data").join(name);
        std::fs::create_dir_all(path.parent().expect("below data")).expect("made");
        std::fs::write(&path, content).expect("written");
        let (status, log) = Process::start(herdsman(directory.path(), &["zoo.cfg"])).end();
        assert!(!status.success());
        let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(log.iter().any(|line| line.contains(file)), "{log:?}");
    }
}

#[test]
fn help_says_what_can_be_given() {
    let output = Command::new(env!("CARGO_BIN_EXE_herdsman"))
        .args(["server", "--help"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("zoo.cfg") && text.contains("-D") && text.contains("JVMFLAGS"), "{text}");
}
