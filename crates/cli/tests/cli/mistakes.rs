//! A member of an ensemble that must not start: what it says, and the code that it ends with.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;

use crate::process::{Process, config, herdsman};
use herdsman_testing::Authority;

/// A directory for server `my_id` of three, none of which runs. Gives the text of its zoo.cfg, too.
fn member(my_id: &str) -> (TempDir, String) {
    let held: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let port = |index: usize| held[index].local_addr().expect("bound").port();
    let mut text = "tickTime=500\ninitLimit=10\nsyncLimit=5\nclientPort=0\ndataDir=data\n\
                    electionPortBindRetry=1\n"
        .to_owned();
    for id in 1..=3 {
        let (quorum, election) = (port(2 * id - 2), port(2 * id - 1));
        text.push_str(&format!("server.{id}=127.0.0.1:{quorum}:{election}\n"));
    }
    (directory(my_id, &text), text)
}

fn directory(my_id: &str, zoo_cfg: &str) -> TempDir {
    let directory = TempDir::with_prefix("herdsman-cli-").expect("a temporary directory");
    fs::create_dir_all(directory.path().join("data/version-2")).expect("made");
    fs::write(directory.path().join("zoo.cfg"), zoo_cfg).expect("written");
    if !my_id.is_empty() {
        fs::write(directory.path().join("data/myid"), my_id).expect("written");
    }
    directory
}

fn check_refused(directory: &Path, code: i32, expected: &[&str]) {
    let (status, log) = Process::start(herdsman(directory, &["zoo.cfg"])).end();
    assert_eq!(status.code(), Some(code), "{log:?}");
    let last = log.last().expect("it says something");
    for piece in expected {
        assert!(last.contains(piece), "{piece:?} is not in {log:?}");
    }
}

#[test]
fn a_member_without_myid_is_refused_with_advice() {
    let (directory, _) = member("");
    check_refused(directory.path(), 2, &["data/myid", "is missing", "1, 2, 3", "echo 1 >"]);
}

#[test]
fn a_number_that_is_not_in_the_list_is_named() {
    let (directory, _) = member("9");
    check_refused(directory.path(), 1, &["data/myid:1", "9 is not in the list", "1, 2, 3"]);
}

#[test]
fn exit_codes_are_those_of_apache() {
    let refuse = |lines: &str| {
        let directory = config(lines);
        let (status, log) = Process::start(herdsman(directory.path(), &["zoo.cfg"])).end();
        (status.code(), log.concat())
    };
    let (code, log) = refuse("clientPortAddress=no.such.host.invalid\n");
    assert!(
        code == Some(2) && log.contains("clientPortAddress=no.such.host.invalid"),
        "{code:?} {log}"
    );
    let (code, log) = refuse("dataLogDir=\n");
    assert!(code == Some(1) && log.contains("dataLogDir="), "{code:?} {log}");
    let (code, log) = refuse("serverCnxnFactory=com.example.Own\n");
    assert!(code == Some(1) && log.contains("com.example.Own"), "{code:?} {log}");
    let directory = config("");
    fs::write(directory.path().join("data"), "").expect("written");
    check_refused(directory.path(), 3, &["data"]);
}

#[test]
fn a_number_of_minus_one_does_not_matter_to_a_standalone_server() {
    let directory = config("");
    fs::create_dir_all(directory.path().join("data")).expect("made");
    fs::write(directory.path().join("data/myid"), "-1\n").expect("written");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    process.port();
}

#[test]
fn a_check_says_what_the_first_purge_would_delete() {
    let directory = config("");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    process.port();
    process.signal(rustix::process::Signal::TERM);
    process.end();
    let files = directory.path().join("data/version-2");
    for zxid in 1..6 {
        fs::copy(files.join("snapshot.0"), files.join(format!("snapshot.{zxid}"))).expect("copied");
    }
    let check = || {
        let (status, log) =
            Process::start(herdsman(directory.path(), &["--check", "zoo.cfg"])).end();
        assert!(status.success(), "{log:?}");
        log.concat()
    };
    let log = check();
    assert!(
        log.contains("WARN the first purge, 1 h after the start") && log.contains("1 warnings"),
        "{log}"
    );
    assert!(log.contains("will delete 3 of 6 snapshots and 0 of 0 logs"), "{log}");
    let zoo_cfg = directory.path().join("zoo.cfg");
    let text = fs::read_to_string(&zoo_cfg).expect("written");
    fs::write(&zoo_cfg, text + "autopurge.purgeInterval=0\n").expect("written");
    let log = check();
    assert!(!log.contains("purge,") && log.contains("0 warnings"), "{log}");
    assert!(files.join("snapshot.0").exists(), "a check changes nothing");
}

/// It is not new, whatever its files say, so it waits for a leader.
#[test]
fn a_member_that_has_only_its_epochs_left_says_that_it_does_not_vote() {
    let (directory, _) = member("1");
    let epochs = directory.path().join("data/version-2");
    fs::write(epochs.join("acceptedEpoch"), "3").expect("written");
    fs::write(epochs.join("currentEpoch"), "5").expect("written");
    let mut running = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = running.line_with("does not vote until").expect("it warns");
    assert!(line.contains("this server has been in epoch 5"), "{line}");
}

#[test]
fn a_second_server_with_the_same_number_ends_with_code_14() {
    let (first, zoo_cfg) = member("2");
    let mut running = Process::start(herdsman(first.path(), &["zoo.cfg"]));
    running.line_with("the quorum port is").expect("the first one has its ports");
    let second = directory("2", &zoo_cfg);
    let (status, log) = Process::start(herdsman(second.path(), &["zoo.cfg"])).end();
    assert_eq!(status.code(), Some(14), "{log:?}");
    assert!(log.iter().any(|line| line.contains("the same number in its file myid")), "{log:?}");
}

#[test]
fn a_check_opens_keys_and_logins() {
    let directory =
        config("secureClientPort=0\nssl.clientAuth=none\nssl.keyStore.location=key.pem\n");
    let check = || {
        let (status, log) =
            Process::start(herdsman(directory.path(), &["--check", "zoo.cfg"])).end();
        (status.code(), log.concat())
    };
    let (code, log) = check();
    assert!(code == Some(2) && log.contains("cannot read key.pem"), "{code:?} {log}");
    let authority = Authority::new();
    fs::copy(authority.sign("server"), directory.path().join("key.pem")).expect("copied");
    let (code, log) = check();
    assert!(code == Some(0) && log.contains("is valid"), "{code:?} {log}");
    let zoo_cfg = directory.path().join("zoo.cfg");
    let text = fs::read_to_string(&zoo_cfg).expect("written");
    let text = format!("{text}java.security.auth.login.config=jaas.conf\nadmin.forceHttps=true\n");
    fs::write(&zoo_cfg, text).expect("written");
    fs::write(directory.path().join("jaas.conf"), "Server { what.is.This required; };")
        .expect("written");
    let (code, log) = check();
    assert!(code != Some(0) && log.contains("what.is.This"), "{code:?} {log}");
    fs::write(directory.path().join("jaas.conf"), "").expect("written");
    let (code, log) = check();
    assert!(code == Some(0) && log.contains("the admin server cannot use TLS"), "{code:?} {log}");
    assert!(!directory.path().join("data").exists(), "a check changes nothing");
}

#[test]
fn security_between_servers_without_its_files_stops_the_start() {
    for (lines, key, missing) in [
        ("sslQuorum=true\n", "sslQuorum", "ssl.quorum.keyStore.location"),
        (
            "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n",
            "quorum.auth.enableSasl",
            "java.security.auth.login.config",
        ),
    ] {
        let (directory, zoo_cfg) = member("1");
        fs::write(directory.path().join("zoo.cfg"), zoo_cfg + lines).expect("written");
        check_refused(directory.path(), 2, &[key, missing]);
    }
}
