//! Configuration files that Apache's server and the server under test must treat the same: which of them
//! starts, the exit code if one does not, and what `conf` and `srvr` show. The table lists intentional
//! differences.
//!
//! A JVM starts in about a second; the servers run one after the other.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ports;
use crate::server::{Jvm, Launch, Program};

const START_MAX: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(20);
/// Lines of `conf` that differ for reasons of their own: paths and sizes of files.
const OWN_LINES: [&str; 4] = ["dataDir=", "dataDirSize=", "dataLogDir=", "dataLogSize="];

/// A member of an ensemble of one.
const MEMBER: &str =
    "standaloneEnabled=false\ninitLimit=5\nsyncLimit=5\nserver.1=127.0.0.1:@QUORUM:@ELECTION\n";

/// What is in place of the data directory.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Nothing.
    Missing,
    /// A directory with a `myid` of this content.
    MyId(&'static str),
    /// A file.
    File,
}

/// The expected behaviour of the server under test.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// As Apache.
    Same,
    /// It starts although Apache does not, or shows another number in `conf`; see docs/compatibility.md.
    StartsToo,
}

struct Case {
    name: &'static str,
    lines: String,
    data: Data,
    expect: Expect,
}

fn case(name: &'static str, lines: &str, data: Data) -> Case {
    Case { name, lines: lines.to_owned(), data, expect: Expect::Same }
}

fn differs(name: &'static str, lines: &str, data: Data) -> Case {
    Case { expect: Expect::StartsToo, ..case(name, lines, data) }
}

fn cases() -> Vec<Case> {
    use Data::{File, Missing, MyId};
    let member = |lines: &str| format!("{MEMBER}{lines}");
    vec![
        case("defaults", "", Missing),
        case("numbers below zero", "maxClientCnxns=-1\nminSessionTimeout=-5\n", Missing),
        case("a backlog below zero", "clientPortListenBacklog=-7\n", Missing),
        case("myid -1, standalone", "", MyId("-1\n")),
        case("myid that is not a number", "", MyId("one\n")),
        case("an unknown metrics provider", "metricsProvider.className=com.example.Own\n", Missing),
        case("an unknown connection factory", "serverCnxnFactory=com.example.Own\n", Missing),
        case("limits below zero, standalone", "initLimit=-1\nsyncLimit=-1\n", Missing),
        case("TLS between servers, standalone", "sslQuorum=true\n", Missing),
        case("an empty dataLogDir", "dataLogDir=\n", Missing),
        case("dataDir is a file", "", File),
        case("an address without a host", "clientPortAddress=no.such.host.invalid\n", Missing),
        case("a member without others", MEMBER, MyId("1\n")),
        case("the same with TLS and no key", &member("sslQuorum=true\n"), MyId("1\n")),
        case("an unknown myid", MEMBER, MyId("9\n")),
        case("myid -1 in an ensemble", MEMBER, MyId("-1\n")),
        case("no initLimit", &MEMBER.replace("initLimit=5\n", ""), MyId("1\n")),
        differs("blanks in myid", MEMBER, MyId(" 1\n")),
        differs(
            "blanks behind a server line",
            &MEMBER.replace("@ELECTION", "@ELECTION "),
            MyId("1\n"),
        ),
        differs("limits below zero", &MEMBER.replace("=5", "=-1"), MyId("1\n")),
        differs("a byte order mark", "\u{feff}", Missing),
    ]
}

/// Starts both servers with every file.
pub fn run(program: Program, work: &Path) -> Result<()> {
    for (index, case) in cases().iter().enumerate() {
        let work = work.join(format!("configuration-{index}"));
        let apache = outcome(Program::Apache, case, &work.join("apache"))?;
        let other = outcome(program, case, &work.join("other"))?;
        let agree = match case.expect {
            Expect::Same => apache == other,
            Expect::StartsToo => {
                program == Program::Apache || matches!(other, Outcome::Serves { .. })
            }
        };
        ensure!(agree, "{}: {apache:?} and {other:?}; see {}", case.name, work.display());
    }
    println!("ok      {} configurations are handled as by Apache", cases().len());
    Ok(())
}

/// The outcome of a start.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It serves; the text is what it reports, without lines that differ anyway.
    Serves { conf: Vec<String>, zxid: Option<String> },
    /// It has exited with this code.
    Ended(Option<i32>),
}

fn outcome(program: Program, case: &Case, work: &Path) -> Result<Outcome> {
    fs::create_dir_all(work)?;
    let data_dir = work.join("data");
    match case.data {
        Data::Missing => {}
        Data::MyId(text) => {
            fs::create_dir_all(&data_dir)?;
            fs::write(data_dir.join("myid"), text)?;
        }
        Data::File => fs::write(&data_dir, "")?,
    }
    let port = ports::free_ports(3)?;
    let config = work.join("zoo.cfg");
    fs::write(&config, config_text(case, &data_dir, port))?;
    let launch = Launch {
        program,
        properties: &[],
        config: &config,
        log: &work.join("log"),
        address: format!("127.0.0.1:{port}"),
        jvm: Jvm::Quick,
        within: &[],
    };
    let mut server = launch.start()?;
    let deadline = Instant::now() + START_MAX;
    loop {
        if let Some(status) = server.ended()? {
            return Ok(Outcome::Ended(status.code()));
        }
        if let Ok(text) = server.four_letters("srvr")
            && text.contains("Mode: ")
        {
            let zxid = text.lines().find(|line| line.starts_with("Zxid: ")).map(str::to_owned);
            let conf = shown_conf(&server.four_letters("conf")?, port);
            server.stop()?;
            return Ok(Outcome::Serves { conf, zxid });
        }
        ensure!(
            Instant::now() < deadline,
            "{}: neither serves nor ends:\n{}",
            case.name,
            server.log_tail()
        );
        std::thread::sleep(POLL);
    }
}

fn config_text(case: &Case, data_dir: &Path, port: u16) -> String {
    // A byte order mark belongs before everything else, where it hides the name of the first setting.
    let (mark, lines) = match case.lines.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", case.lines.as_str()),
    };
    let lines = lines
        .replace("@QUORUM", &(port + 1).to_string())
        .replace("@ELECTION", &(port + 2).to_string());
    let mut text = format!("{mark}dataDir={}\nclientPort={port}\n", data_dir.display());
    if !lines.contains("clientPortAddress") {
        text.push_str("clientPortAddress=127.0.0.1\n");
    }
    text.push_str("admin.enableServer=false\n4lw.commands.whitelist=*\n");
    text + &lines
}

/// The response to `conf` without the lines that differ anyway, and with ports as offsets from the first
/// one.
fn shown_conf(text: &str, port: u16) -> Vec<String> {
    let lines = text.lines().filter(|line| !OWN_LINES.iter().any(|own| line.starts_with(own)));
    let lines = lines.map(|line| {
        (0..3).fold(line.to_owned(), |line, offset| {
            line.replace(&(port + offset).to_string(), &format!("PORT+{offset}"))
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_differences_are_ignored() {
        let text = "clientPort=20010\ndataDir=/x\nserverId=1\nserver.1=a:20011:20012:participant";
        let expected = ["clientPort=PORT+0", "serverId=1", "server.1=a:PORT+1:PORT+2:participant"];
        assert_eq!(shown_conf(text, 20010), expected);
    }
}
