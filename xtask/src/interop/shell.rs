//! Sends the same commands to `herdsman shell` and to Apache's zkCli, and compares their output.
//!
//! Each program has its own empty server of the same kind. A marker after every command splits the output
//! into answers, which must be equal line by line; a table lists intentional differences in wording. Events
//! come from another thread, and zkCli may print them after the next command, so they are compared
//! separately.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use super::zkcli;
use crate::paths;
use crate::run;
use crate::server::{self, Program, Spec};

const MARKER: &str = "=====MARKER=====";
/// The commands cause more events than this.
const EVENTS_MIN: usize = 10;

/// Commands whose answer is about the program itself.
const LEFT_OUT: &[&str] = &["version", "nonsense", "close"];

/// Events that only zkCli prints: that there is a connection, and that a watch was removed by the command
/// itself.
const EVENTS_LEFT_OUT: &[&str] = &["type:None", "WatchRemoved"];

/// Intentional differences: the command, a part of zkCli's answer, and a part of ours.
const OWN_WORDS: &[(&str, &str, &str)] = &[
    ("create -c -e /never", "-c cannot be combined", "'-c' cannot be used with '-e'"),
    ("create -t 0 /never", "ttl must be positive", "not in 1..=1099511627775"),
    ("create /acl2 data nonsense", "scheme:id:perm", "does not have the form scheme:id:perm"),
    ("listquota /q", "quota for /q does not exist.", "quota for /q does not exist."),
    ("create bad", "must start with /", "must start with /"),
    ("create /bad/ x", "must not end with /", "components must not be empty"),
    ("create /a//b x", "empty node name", "components must not be empty"),
    ("delete /zookeeper", "not valid", "refused"),
    ("removewatches /w -a", "No such watcher", "No such watcher"),
    ("removewatches /a -d", "No such watcher", "No such watcher"),
    ("reconfig -remove 1", "Reconfig is disabled", "Reconfig is disabled"),
    ("ls", "ls [-s] [-w] [-R] path", "usage: ls [-s] [-w] [-R] path"),
];

/// Runs both against one kind of server and compares.
pub fn run(program: Program) -> Result<()> {
    let commands: Vec<_> = zkcli::commands()?
        .lines()
        .filter(|command| !LEFT_OUT.contains(command))
        .map(str::to_owned)
        .collect();
    let mut input = format!("create /marker {MARKER}\nget /marker\n");
    input.extend(commands.iter().map(|command| format!("{command}\nget /marker\n")));
    let mut zkcli = server::java(Program::Apache);
    zkcli.args(["-Duser.timezone=UTC", "org.apache.zookeeper.ZooKeeperMain"]);
    zkcli.args(["-waitforconnection", "-timeout", "20000", "-server"]);
    let expected = answers(program, "zkcli", zkcli, &input)?;
    let mut shell = Command::new(paths::herdsman());
    shell.args(["shell", "--keep-going", "--color", "never", "--servers"]);
    let actual = answers(program, "shell", shell, &input)?;
    let count = commands.len();
    let counts = (expected.answers.len(), actual.answers.len());
    ensure!(
        counts == (count, count),
        "{count} commands, but answers of zkCli and shell: {counts:?}"
    );
    let differing: Vec<_> = commands
        .iter()
        .zip(expected.answers.iter().zip(&actual.answers))
        .filter_map(|(command, (expected, actual))| difference(command, expected, actual))
        .collect();
    ensure!(differing.is_empty(), "the shell's answers differ:\n{}", differing.join("\n"));
    let (theirs, ours) = (&expected.events, &actual.events);
    ensure!(theirs == ours, "other events:\n  zkCli: {theirs:#?}\n  shell: {ours:#?}");
    ensure!(ours.len() >= EVENTS_MIN, "hardly any events: {ours:?}");
    println!("{count} commands answered as by zkCli, and {} events", ours.len());
    Ok(())
}

/// What a program printed.
struct Output {
    /// The answers to the commands.
    answers: Vec<Vec<String>>,
    events: Vec<String>,
}

fn answers(program: Program, role: &str, mut command: Command, input: &str) -> Result<Output> {
    let work = paths::fresh_dir(&format!("shell-{}-{role}", program.name()))?;
    let server = Spec::new(program, &work.join("data")).start()?;
    let text = run::all_output(command.arg(&server.address), input)?.printed;
    server.stop()?;
    fs::write(work.join("printed.txt"), &text)?;
    let mut events = comparable(&zkcli::normalize(&text, &[]).events);
    events.retain(|event| !EVENTS_LEFT_OUT.iter().any(|part| event.contains(part)));
    // Those of one change may be in any order.
    events.sort_unstable();
    let lines = |text: &str| comparable(&zkcli::normalize(text, &[]).lines);
    let mut answers: Vec<_> = text.split(&format!("{MARKER}\n")).map(lines).collect();
    ensure!(answers.len() > 2, "{role} did not execute all commands:\n{text}");
    // Before the first marker there is a banner, after the last one the exit message.
    answers.pop();
    answers.remove(0);
    Ok(Output { answers, events })
}

/// zkCli sometimes sends an unnecessary request (which fails), so zxids are not compared.
fn comparable(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| without_zxid(line)).collect()
}

fn without_zxid(line: &str) -> String {
    for before in ["Zxid = 0x", " zxid: "] {
        if let Some((start, _)) = line.split_once(before) {
            return format!("{start}{before}…");
        }
    }
    line.to_owned()
}

fn difference(command: &str, expected: &[String], actual: &[String]) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (theirs, ours) = (expected.join("\n"), actual.join("\n"));
    let is_meant = |(known, their_words, our_words): &(&str, &str, &str)| {
        *known == command && theirs.contains(their_words) && ours.contains(our_words)
    };
    if OWN_WORDS.iter().any(is_meant) {
        return None;
    }
    Some(format!("{command}\n  zkCli: {expected:?}\n  shell: {actual:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_differences_are_allowed() {
        let lines = |text: &str| vec![text.to_owned()];
        assert_eq!(difference("get /a", &lines("one"), &lines("one")), None);
        assert!(difference("get /a", &lines("one"), &lines("two")).is_some());
        let refusal = lines("Path must start with / character");
        assert_eq!(difference("create bad", &refusal, &lines("it must start with /")), None);
        assert!(difference("create bad", &refusal, &lines("Created bad")).is_some());
        assert!(
            difference("create bad", &lines("Created bad"), &lines("must start with /")).is_some()
        );
    }
}
