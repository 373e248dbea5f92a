//! `herdsman shell`, fed the commands that Apache's zkCli is fed, and judged by what zkCli prints.
//!
//! Each program has an empty server of the same kind to itself. A marker behind every command cuts
//! the output into answers, which must be alike line by line; where ours are worded otherwise on
//! purpose, a table says how.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use super::zkcli;
use crate::paths;
use crate::run;
use crate::server::{self, Program, Spec};

const MARKER: &str = "=====MARKER=====";

/// Commands whose answer is about the program itself.
const LEFT_OUT: &[&str] = &["version", "nonsense", "close"];

/// Where ours uses its own words: the command, a part of what zkCli says, and a part of what ours says
/// then; nothing at all if that is empty.
const OWN_WORDS: &[(&str, &str, &str)] = &[
    ("create -c -e /never", "-c cannot be combined", "'-c' cannot be used with '-e'"),
    ("create -t 0 /never", "ttl must be positive", "not in 1..=1099511627775"),
    ("create /acl2 data nonsense", "scheme:id:perm", "does not have the form scheme:id:perm"),
    ("listquota /q", "quota for /q does not exist.", "quota for /q does not exist."),
    ("create bad", "must start with /", "must start with /"),
    ("create /bad/ x", "must not end with /", "components must not be empty"),
    ("create /a//b x", "empty node name", "components must not be empty"),
    ("delete /zookeeper", "not valid", "refused"),
    ("removewatches /w -a", "PersistentWatchRemoved", ""),
    ("removewatches /w -a", "No such watcher", "No such watcher"),
    ("removewatches /r -a", "PersistentWatchRemoved", ""),
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
    ensure!(
        expected.len() == commands.len() && actual.len() == commands.len(),
        "{} commands, but zkCli gave {} answers and the shell {}",
        commands.len(),
        expected.len(),
        actual.len()
    );
    let differing: Vec<_> = commands
        .iter()
        .zip(expected.iter().zip(&actual))
        .filter_map(|(command, (expected, actual))| difference(command, expected, actual))
        .collect();
    ensure!(differing.is_empty(), "the shell answers otherwise:\n{}", differing.join("\n"));
    println!("{} commands answered as by zkCli", commands.len());
    Ok(())
}

/// What a program printed to each command.
fn answers(
    program: Program,
    role: &str,
    mut command: Command,
    input: &str,
) -> Result<Vec<Vec<String>>> {
    let work = paths::fresh_dir(&format!("shell-{}-{role}", program.name()))?;
    let server = Spec::new(program, &work.join("data")).start()?;
    let text = run::all_output(command.arg(&server.address), input)?.printed;
    server.stop()?;
    fs::write(work.join("printed.txt"), &text)?;
    let mut answers: Vec<_> = text.split(&format!("{MARKER}\n")).map(comparable).collect();
    ensure!(answers.len() > 2, "{role} did not get through its commands:\n{text}");
    // Before the first marker the programs introduce themselves, behind the last they say goodbye.
    answers.pop();
    answers.remove(0);
    Ok(answers)
}

/// Events come from a thread of their own and may stand anywhere in an answer. zkCli makes a request
/// now and then that nobody needs (and that fails), so zxids are not compared.
fn comparable(text: &str) -> Vec<String> {
    let zkcli::Printed { lines, mut events } = zkcli::normalize(text, &[]);
    events.sort_unstable();
    lines.into_iter().chain(events).map(|line| without_zxid(&line)).collect()
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
        let says_ours =
            if our_words.is_empty() { ours.is_empty() } else { ours.contains(our_words) };
        *known == command && theirs.contains(their_words) && says_ours
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
    fn only_known_differences_are_excused() {
        let lines = |text: &str| vec![text.to_owned()];
        assert_eq!(difference("get /a", &lines("one"), &lines("one")), None);
        assert!(difference("get /a", &lines("one"), &lines("two")).is_some());
        let refusal = lines("Path must start with / character");
        assert_eq!(difference("create bad", &refusal, &lines("it must start with /")), None);
        assert!(difference("create bad", &refusal, &lines("Created bad")).is_some());
        assert!(
            difference("create bad", &lines("Created bad"), &lines("must start with /")).is_some()
        );
        let removed = lines("WatchedEvent type:PersistentWatchRemoved");
        assert_eq!(difference("removewatches /r -a", &removed, &[]), None);
        assert!(difference("removewatches /r -a", &removed, &lines("oh")).is_some());
    }
}
