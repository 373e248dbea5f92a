//! A server as a process, and four-letter words sent to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use tempfile::TempDir;

/// A server process; killed when dropped.
pub struct Process {
    pub child: Child,
    log: BufReader<ChildStderr>,
    pub lines: Vec<String>,
}

pub fn herdsman(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.arg("server").args(arguments).current_dir(directory).stderr(Stdio::piped());
    for variable in ["SERVER_JVMFLAGS", "JVMFLAGS", "HERDSMAN_LOG", "HERDSMAN_LOG_FORMAT"] {
        command.env_remove(variable);
    }
    command
}

impl Process {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        Process { child, log, lines: Vec::new() }
    }

    /// Reads the log up to a line with `text`; `None` if the log ends first.
    pub fn line_with(&mut self, text: &str) -> Option<String> {
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

    /// Waits until it serves clients, and returns its port.
    pub fn port(&mut self) -> u16 {
        let line =
            self.line_with("serving clients on ").unwrap_or_else(|| panic!("{:?}", self.lines));
        let address =
            line.split("serving clients on ").nth(1).and_then(|rest| rest.split(',').next());
        address
            .and_then(|address| address.rsplit(':').next())
            .and_then(|port| port.parse().ok())
            .expect("a port")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    pub fn end(mut self) -> (ExitStatus, Vec<String>) {
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

pub fn config(text: &str) -> TempDir {
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    let text = format!(
        "clientPort=0\ndataDir={}/data\n{text}admin.serverPort=0\n",
        directory.path().display()
    );
    std::fs::write(directory.path().join("zoo.cfg"), text).expect("written");
    directory
}

pub fn word(port: u16, word: &str) -> String {
    try_word(port, word).expect("it listens, answers text and closes")
}

/// Fails if the server does not accept the connection.
pub fn try_word(port: u16, word: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
