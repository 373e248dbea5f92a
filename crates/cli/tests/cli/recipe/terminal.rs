//! A terminal with a server: starts recipes as processes, reads their output, and reads the server's nodes. Every wait
//! has a timeout, so that a failing test does not hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use herdsman_client::{Client, SessionId};
use herdsman_testing::TestServer;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any correct step takes.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Terminal {
    pub server: TestServer,
}

/// How a process has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    /// The printed lines that the test has not read yet.
    pub out: Vec<String>,
    pub err: Vec<String>,
}

impl Terminal {
    pub fn open() -> Self {
        Terminal { server: TestServer::start() }
    }

    /// `herdsman recipe` with these arguments, for this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        recipe(&self.server.connect_string(), arguments)
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Starts it in its own process group, not in the foreground of a terminal that the tests may have. In the
    /// foreground it would wait for its command, which gets the same Ctrl-C.
    pub fn start_apart(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.process_group(0);
        Running::start(command)
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Runs a command that must succeed, and returns the lines that it printed.
    pub fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// Calls `work` with a client of the server.
    pub fn ask<T>(&self, work: impl AsyncFnOnce(&Client) -> herdsman_client::Result<T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = async {
            let client = Client::connect(&self.server.connect_string()).await?;
            let answer = work(&client).await?;
            client.close().await?;
            Ok::<_, herdsman_client::Error>(answer)
        };
        let runtime = runtime.expect("a runtime");
        let in_time = runtime.block_on(async { tokio::time::timeout(TIMEOUT, asked).await });
        in_time.expect("no timeout").expect("the server answers")
    }

    /// Waits until a node has this many children.
    pub fn wait_for_children(&self, path: &str, count: usize) {
        self.ask(async |client| wait_for_children(client, path, count).await);
    }

    /// Waits until a node exists.
    pub fn wait_for(&self, path: &str) {
        self.ask(async |client| {
            loop {
                let (stat, watch) = client.exists(path).watch().await?;
                if stat.is_some() {
                    return Ok(());
                }
                watch.await?;
            }
        });
    }

    pub fn children(&self, path: &str) -> Vec<String> {
        self.ask(async |client| Ok(client.children(path).await?.names))
    }

    /// The session that an ephemeral belongs to.
    pub fn owner(&self, path: &str) -> SessionId {
        self.ask(async |client| Ok(SessionId(client.get(path).await?.stat.ephemeral_owner)))
    }
}

/// Waits until a node has this many children.
pub async fn wait_for_children(
    client: &Client,
    path: &str,
    count: usize,
) -> herdsman_client::Result<()> {
    loop {
        let (children, watch) = client.children(path).watch().await?;
        if children.names.len() == count {
            return Ok(());
        }
        watch.await?;
    }
}

/// `herdsman recipe` with these arguments.
pub fn recipe(servers: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(["recipe", "--servers", servers]).args(arguments).env_remove("HERDSMAN_SERVERS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running process. Dropping it stops the process, cleanly if possible, so that its command is stopped as well.
pub struct Running {
    pid: Pid,
    out: Receiver<String>,
    err: Receiver<String>,
    status: Receiver<ExitStatus>,
    ended: bool,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        Self::follow(command.spawn().expect("the binary runs"))
    }

    /// Starts it and writes all of its standard input.
    pub fn start_with_input(mut command: Command, input: &[u8]) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input).expect("it reads");
        drop(stdin);
        Self::follow(child)
    }

    /// Follows a process. Output that the test has taken out of `child` is not read.
    pub fn follow(mut child: Child) -> Self {
        let out = child.stdout.take().map_or_else(|| channel().1, lines_of);
        let err = lines_of(child.stderr.take().expect("piped"));
        let pid = Pid::from_child(&child);
        let (ended, status) = channel();
        thread::spawn(move || ended.send(child.wait().expect("it can be waited for")));
        Running { pid, out, err, status, ended: false }
    }

    /// The next line that it prints.
    pub fn line(&self) -> String {
        let line = self.out.recv_timeout(TIMEOUT);
        line.unwrap_or_else(|_| {
            panic!("no line; on stderr: {:?}", self.err.try_iter().collect::<Vec<_>>())
        })
    }

    /// The next line on standard error.
    pub fn error_line(&self) -> String {
        self.err.recv_timeout(TIMEOUT).expect("a line on standard error")
    }

    /// Sends the signal of Ctrl-C to this process alone.
    pub fn interrupt(&self) {
        kill_process(self.pid, Signal::INT).expect("the process is there");
    }

    /// Waits until it has ended by itself.
    pub fn end(mut self) -> Ended {
        let status = self.status.recv_timeout(TIMEOUT).expect("it ends in time");
        self.ended = true;
        let rest = |lines: &Receiver<String>| {
            std::iter::from_fn(|| lines.recv_timeout(TIMEOUT).ok()).collect()
        };
        Ended { code: status.code(), out: rest(&self.out), err: rest(&self.err) }
    }

    /// Interrupts the process and waits until it has ended.
    pub fn interrupted(self) -> Ended {
        self.interrupt();
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended || self.status.try_recv().is_ok() {
            return;
        }
        _ = kill_process(self.pid, Signal::TERM);
        if self.status.recv_timeout(TIMEOUT).is_err() {
            _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line.expect("the output is text")).is_err() {
                return;
            }
        }
    });
    lines
}

impl Ended {
    #[track_caller]
    pub fn check(&self, code: i32, out: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, out, "{self:?}");
    }

    /// Checks that one line of standard error contains all of these pieces.
    #[track_caller]
    pub fn check_error(&self, code: i32, pieces: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let said = self.err.iter().any(|line| pieces.iter().all(|piece| line.contains(piece)));
        assert!(said, "{pieces:?} is not in {self:?}");
    }
}
