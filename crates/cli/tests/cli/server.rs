//! `herdsman server` as a process: how it starts, what it says, how it ends.

use std::process::Command;

use crate::process::{Process, config, herdsman, word};

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
