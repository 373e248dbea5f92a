//! A program that runs the peer's side of a login.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A running peer. Its errors go to our standard error.
pub struct Peer {
    /// Its name, for messages.
    pub name: &'static str,
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a peer does after a token.
#[derive(Debug, PartialEq, Eq)]
pub enum TheirStep {
    /// Sends this and waits for more.
    Continue(Vec<u8>),
    /// Has finished, with a last token if it is the server, and the accepted name.
    Done(Vec<u8>, String),
    /// Rejects the login.
    Refused,
}

impl Peer {
    /// Starts a command; its words are separated by spaces.
    pub fn start(name: &'static str, command: &str) -> Result<Self> {
        let mut words = command.split_whitespace();
        let program = words.next().context("an empty command")?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command}"))?;
        let commands = child.stdin.take().context("the peer's standard input")?;
        let answers = child.stdout.take().context("the peer's standard output")?;
        Ok(Peer { name, child, commands, answers: BufReader::new(answers) })
    }

    /// Sends a command and waits for the answer.
    pub fn ask(&mut self, command: &str, arguments: &[&[u8]]) -> Result<String> {
        let mut line = command.to_string();
        for argument in arguments {
            line.push(' ');
            line.push_str(&to_word(argument));
        }
        writeln!(self.commands, "{line}")?;
        let mut answer = String::new();
        ensure!(self.answers.read_line(&mut answer)? > 0, "{} has ended", self.name);
        Ok(answer.trim_end().to_string())
    }

    /// Passes it a token.
    pub fn step(&mut self, token: &[u8]) -> Result<TheirStep> {
        let answer = self.ask("step", &[token])?;
        match answer.split(' ').collect::<Vec<_>>()[..] {
            ["continue", token] => Ok(TheirStep::Continue(from_word(token)?)),
            ["done", token, id] => {
                Ok(TheirStep::Done(from_word(token)?, String::from_utf8(from_word(id)?)?))
            }
            ["refused"] => Ok(TheirStep::Refused),
            _ => bail!("{} says {answer}", self.name),
        }
    }

    /// Closes its input and waits for it.
    pub fn stop(self) -> Result<()> {
        let Peer { name, mut child, commands, .. } = self;
        drop(commands);
        let status = child.wait()?;
        ensure!(status.success(), "{name} ends with {status}");
        Ok(())
    }
}

/// Encodes bytes as a word of a line.
pub fn to_word(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_string() } else { hex::encode(bytes) }
}

fn from_word(word: &str) -> Result<Vec<u8>> {
    Ok(if word == "-" { Vec::new() } else { hex::decode(word)? })
}
