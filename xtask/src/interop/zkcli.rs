//! Sends the same commands with Apache's zkCli to Apache's server and to the server under test.
//!
//! Both servers start empty and get the same requests, so even the zxids that zkCli prints must be equal.
//! Only what differs between any two runs is normalized first: dates, session ids, log lines; watch events,
//! which zkCli prints from a separate thread, are compared as a separate list.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::paths;
use crate::run;
use crate::server::{self, Program, Spec};

/// The commands cause more watch events than this; fewer would mean that something failed unnoticed.
const EVENTS_MIN: usize = 10;

/// What zkCli printed, ready to compare.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) lines: Vec<String>,
    pub(super) events: Vec<String>,
}

/// Runs the commands against both and compares.
pub fn run(program: Program) -> Result<()> {
    let commands = commands()?;
    let expected = printed_by(Program::Apache, "expected", &commands)?;
    let actual = printed_by(program, "actual", &commands)?;
    let lost = expected.lines.iter().filter(|line| *line == "Not connected").count();
    ensure!(
        lost == 1 && expected.events.len() >= EVENTS_MIN,
        "zkCli did not execute all commands against Apache itself:\n{}",
        expected.lines.join("\n")
    );
    compare("output", &expected.lines, &actual.lines)?;
    compare("watch events", &expected.events, &actual.events)?;
    println!(
        "{} commands, {} lines and {} watch events are equal",
        commands.lines().count(),
        expected.lines.len(),
        expected.events.len()
    );
    Ok(())
}

pub(super) fn commands() -> Result<String> {
    let path = paths::root().join("interop/zkcli/commands.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let is_command = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Ok(text.lines().filter(is_command).map(|line| format!("{line}\n")).collect())
}

fn printed_by(program: Program, role: &str, commands: &str) -> Result<Printed> {
    let work = paths::fresh_dir(&format!("zkcli-{}-{role}", program.name()))?;
    let server = Spec::new(program, &work.join("data")).start()?;
    let mut java = server::java(Program::Apache);
    java.args(["-Duser.timezone=UTC", "org.apache.zookeeper.ZooKeeperMain"]);
    java.args(["-waitforconnection", "-timeout", "20000", "-server", &server.address]);
    let text = run::all_output(&mut java, commands)?.printed;
    server.stop()?;
    fs::write(work.join("printed.txt"), &text)?;
    Ok(normalize(&text, &server_address_words(&text)))
}

/// The address differs between the two servers.
fn server_address_words(text: &str) -> Vec<String> {
    let address = text.lines().find_map(|line| line.strip_prefix("Connecting to "));
    address.into_iter().map(str::to_string).collect()
}

pub(super) fn normalize(text: &str, addresses: &[String]) -> Printed {
    let mut printed = Printed { lines: Vec::new(), events: Vec::new() };
    for line in text.lines() {
        if line.is_empty() || line == "WATCHER::" || is_log_line(line) {
            continue;
        }
        let mut line = line.to_string();
        for address in addresses {
            line = line.replace(address, "ADDRESS");
        }
        let line = sorted_list(&without_date(&without_session(&line)));
        if line.starts_with("WatchedEvent") {
            printed.events.push(line);
        } else {
            printed.lines.push(line);
        }
    }
    sort_identities(&mut printed.lines);
    printed
}

/// `whoami` lists ids in the order of a hash table.
fn sort_identities(lines: &mut [String]) {
    let schemes = ["digest: ", "ip: ", "super: "];
    let is_identity = |line: &String| schemes.iter().any(|scheme| line.starts_with(scheme));
    for run in lines.chunk_by_mut(|a, b| is_identity(a) && is_identity(b)) {
        if run.len() > 1 {
            run.sort_unstable();
        }
    }
}

/// `19:45:57.309 ERROR …`
fn is_log_line(line: &str) -> bool {
    let Some((time, _)) = line.split_once(' ') else {
        return false;
    };
    time.len() == 12 && time.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '.')
}

fn without_date(line: &str) -> String {
    match line.split_once(" = ") {
        Some((field @ ("ctime" | "mtime"), _)) => format!("{field} = DATE"),
        _ => line.to_string(),
    }
}

/// Session ids are the only numbers with this many digits.
fn without_session(line: &str) -> String {
    let is_session = |word: &&str| word.strip_prefix("0x").is_some_and(|hex| hex.len() >= 14);
    let words = line.split(' ').map(|word| if is_session(&word) { "SESSION" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// `[b, a]` as `[a, b]`: some lists are in the order of a hash table.
fn sorted_list(line: &str) -> String {
    match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        None => line.to_string(),
        Some(inside) => {
            let mut items: Vec<_> = inside.split(", ").collect();
            items.sort_unstable();
            format!("[{}]", items.join(", "))
        }
    }
}

fn compare(what: &str, expected: &[String], actual: &[String]) -> Result<()> {
    let first =
        (0..expected.len().max(actual.len())).find(|&at| expected.get(at) != actual.get(at));
    let Some(at) = first else { return Ok(()) };
    let context = expected[at.saturating_sub(8).min(expected.len())..at].join("\n  ");
    let shown =
        |lines: &[String]| lines.iter().skip(at).take(5).cloned().collect::<Vec<_>>().join("\n  ");
    bail!(
        "zkCli's {what} differs at line {at}, after\n  {context}\nexpected\n  {}\ngot\n  {}",
        shown(expected),
        shown(actual)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_runs_are_normalized() {
        let text = "Connecting to 127.0.0.1:1\n19:45:57.309 ERROR x\nctime = Sun Nov 15\n\nWATCHER::\n\n\
                    WatchedEvent state:SyncConnected\nephemeralOwner = 0x100000f1e190000\ncZxid = 0x2\n[b, a]\n";
        let printed = normalize(text, &server_address_words(text));
        assert_eq!(
            printed.lines,
            [
                "Connecting to ADDRESS",
                "ctime = DATE",
                "ephemeralOwner = SESSION",
                "cZxid = 0x2",
                "[a, b]",
            ]
        );
        assert_eq!(printed.events, ["WatchedEvent state:SyncConnected"]);
    }

    #[test]
    fn a_difference_is_found() {
        let lines = |text: &[&str]| text.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(compare("output", &lines(&["a", "b"]), &lines(&["a", "b"])).is_ok());
        assert!(compare("output", &lines(&["a", "b"]), &lines(&["a", "c"])).is_err());
        assert!(compare("output", &lines(&["a"]), &lines(&["a", "b"])).is_err());
        assert!(compare("output", &lines(&["a", "b"]), &lines(&["a"])).is_err());
    }
}
