//! A server that archives, and the restore of a point from its archive, as typed on a command line.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::client::Client;
use crate::process::{Process, config, herdsman};

/// How long a slow machine may take to archive.
const LOOKS_MAX: u32 = 600;
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(arguments).current_dir(directory).output().expect("the binary runs")
}

#[test]
fn a_point_is_restored_from_the_archive_of_a_server() {
    let directory = config("herdsman.archiveDir=./archive\nherdsman.archiveEverySeconds=1\n");
    let directory = directory.path();
    let mut process = Process::start(herdsman(directory, &["zoo.cfg"]));
    let port = process.port();
    let client = Client::connect(&format!("127.0.0.1:{port}")).expect("a session");
    let list = ["restore", "--list", "--from", "archive"];
    let listed = || String::from_utf8(run(directory, &list).stdout).expect("text");
    let is_archived = (0..LOOKS_MAX).any(|_| {
        std::thread::sleep(LOOK_EVERY);
        listed().contains("points   from txn 0x0, before txn 0x1 of ")
    });
    assert!(is_archived, "{}", listed());
    drop(client);
    process.signal(rustix::process::Signal::TERM);
    assert!(process.end().0.success());
    let restored = ["restore", "--at", "0x1", "--from", "archive", "--data-dir", "restored"];
    let output = run(directory, &restored);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("as of txn 0x1"), "{output:?}");
    assert!(directory.join("restored/version-2/snapshot.1").exists());
    let output = run(directory, &["restore", "--at", "0x1", "--from", "archive"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let help = String::from_utf8(run(directory, &["restore", "--help"]).stdout).expect("text");
    for flag in ["--at <POINT>", "--from <DIR>", "--base <FILE>", "--list"] {
        assert!(help.contains(flag), "{help}");
    }
}
