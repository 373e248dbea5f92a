//! A program in another language that uses its own library's recipes on command.
//!
//! In: commands. Out: their answers, in any order; a tag identifies the command. The protocol is described
//! in this directory's README. The process is killed on drop.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

/// Words of an answer.
type Answer = Result<Vec<String>, String>;

/// A running contender.
pub struct Contender {
    name: &'static str,
    commands: mpsc::Sender<String>,
    waiting: Waiting,
    last_tag: AtomicU64,
    child: Child,
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Answer>>>>;

/// Commands that wait to be written; more than any check has in flight.
const COMMANDS_MAX: usize = 64;

/// A command in flight.
pub struct PendingCommand {
    command: String,
    answer: oneshot::Receiver<Answer>,
}

impl Contender {
    /// Starts it, and waits until it is connected.
    pub async fn start(name: &'static str, command: &[String]) -> Result<Contender> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {name} ({program})"))?;
        let stdin = child.stdin.take().context("a pipe to the contender")?;
        let stdout = child.stdout.take().context("a pipe from the contender")?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = lines.next_line().await?.unwrap_or_default();
        ensure!(ready.starts_with("ready "), "{name} said {ready:?} instead of ready");
        let waiting = Waiting::default();
        let (commands, queued) = mpsc::channel(COMMANDS_MAX);
        tokio::spawn(write_commands(stdin, queued));
        tokio::spawn(read_answers(lines, waiting.clone()));
        Ok(Contender { name, commands, waiting, last_tag: AtomicU64::new(0), child })
    }

    /// Sends a command without waiting for its answer.
    pub async fn begin(&self, command: &str) -> Result<PendingCommand> {
        let tag = format!("t{}", self.last_tag.fetch_add(1, Ordering::Relaxed));
        let (send, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(tag.clone(), send);
        self.commands
            .send(format!("{tag} {command}\n"))
            .await
            .context("the contender has ended")?;
        Ok(PendingCommand { command: format!("{}: {command}", self.name), answer })
    }

    /// Sends a command and waits for its answer.
    pub async fn ask(&self, command: &str) -> Result<Vec<String>> {
        self.begin(command).await?.finish().await
    }

    /// Sends a command whose answer is one word.
    pub async fn word(&self, command: &str) -> Result<String> {
        let mut words = self.ask(command).await?;
        ensure!(words.len() == 1, "{}: {command} answered {words:?}", self.name);
        words.pop().context("one word")
    }

    /// Lets it close its session and exit.
    pub async fn end(self) -> Result<()> {
        let Contender { name, commands, mut child, .. } = self;
        drop(commands);
        let status = child.wait().await?;
        ensure!(status.success(), "{name} ended with {status}");
        Ok(())
    }
}

impl PendingCommand {
    /// Waits for the answer.
    pub async fn finish(self) -> Result<Vec<String>> {
        match self.answer.await {
            Ok(Ok(words)) => Ok(words),
            Ok(Err(text)) => bail!("{} failed: {text}", self.command),
            Err(_) => bail!("{}: the contender ended without an answer", self.command),
        }
    }

    /// Whether there is no answer yet.
    pub fn is_waiting(&mut self) -> bool {
        matches!(self.answer.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

async fn write_commands(mut stdin: ChildStdin, mut commands: mpsc::Receiver<String>) {
    while let Some(command) = commands.recv().await {
        if stdin.write_all(command.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_answers(mut lines: Lines<BufReader<ChildStdout>>, waiting: Waiting) {
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.split(' ').map(decode_word);
        let (tag, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let answer = match status.as_str() {
            "ok" => Ok(words.collect()),
            _ => Err(words.collect::<Vec<_>>().join(" ")),
        };
        let waiter = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&tag);
        if let Some(waiter) = waiter {
            // The receiver was dropped: the check has failed already.
            let _ = waiter.send(answer);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// `%XX` is a byte, a single `%` the empty word.
fn decode_word(word: &str) -> String {
    if word == "%" {
        return String::new();
    }
    let mut bytes = Vec::new();
    let mut rest = word;
    while let Some((plain, coded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        match coded.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => bytes.push(byte),
            None => return word.to_owned(),
        }
        rest = &coded[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}
