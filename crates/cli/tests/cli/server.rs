//! `herdsman server` as a process: start, log lines, exit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit};

use crate::client::Client;
use crate::process::{Process, config, herdsman, try_word, word};

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

/// Returns the address after `text` in the log.
fn address_after(process: &mut Process, text: &str) -> String {
    let line = process.line_with(text).unwrap_or_else(|| panic!("{:?}", process.lines));
    let rest = line.split(text).nth(1).expect("the text is there");
    rest.chars().take_while(|c| !c.is_whitespace() && *c != '/').collect()
}

fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn metrics_have_their_port_when_the_admin_server_is_off_or_its_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    for (admin, complaint) in [
        ("admin.enableServer=false".to_owned(), None),
        (format!("admin.serverPort={port}"), Some("the admin server cannot listen on")),
    ] {
        let directory = config("metricsProvider.httpPort=0\nmetricsProvider.httpHost=127.0.0.1\n");
        let zoo_cfg = directory.path().join("zoo.cfg");
        let text = std::fs::read_to_string(&zoo_cfg).expect("written");
        std::fs::write(&zoo_cfg, text + &admin).expect("written");
        let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
        let address = address_after(&mut process, "metrics on http://");
        assert!(http_get(&address, "/metrics").starts_with("HTTP/1.1 200"));
        if let Some(complaint) = complaint {
            assert!(
                process.lines.iter().any(|line| line.contains(complaint)),
                "{:?}",
                process.lines
            );
        }
    }
}

#[test]
fn a_metrics_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let directory = config(&format!(
        "metricsProvider.httpPort={}\nmetricsProvider.httpHost=127.0.0.1\n",
        address.port()
    ));
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    process.port();
    let named = |line: &String| {
        line.contains(&format!("cannot serve metrics on {address}"))
            && line.contains("metricsProvider.httpPort")
    };
    assert!(process.lines.iter().any(named), "{:?}", process.lines);
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

/// The same server with limits on its file descriptors: a soft limit, which it may raise, and a hard limit.
fn with_descriptors((soft, hard): (u32, u32), server: &Command) -> Command {
    let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits]).arg(server.get_program()).args(server.get_args());
    if let Some(directory) = server.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stderr(Stdio::piped());
    command
}

/// Even if clients use all file descriptors they can get, enough are left for the log, snapshots and operators.
#[test]
fn clients_cannot_take_the_last_file_descriptors() {
    // Every second txn asks for a new log file and a snapshot.
    let directory = config("maxClientCnxns=0\nsnapCount=2\n4lw.commands.whitelist=mntr\n");
    let server = herdsman(directory.path(), &["zoo.cfg"]);
    let mut process = Process::start(with_descriptors((60, 160), &server));
    let port = process.port();
    let address = format!("127.0.0.1:{port}");
    let mut writer = Client::connect(&address).expect("it serves");
    let mut idle = Vec::new();
    while let Ok(client) = Client::connect(&address) {
        idle.push(client);
    }
    assert!(idle.len() > 60, "the soft limit was not raised: {}", idle.len());
    let line = process.line_with("of 160 file descriptors are in use").expect("it says why");
    assert!(line.contains("connection from 127.0.0.1:") && line.contains("ulimit -n"), "{line}");
    for i in 0..20 {
        writer.create(&format!("/with-idle-{i}"), "x");
    }
    drop(idle);
    // The server has to see that they have gone.
    let mut next = loop {
        if let Ok(client) = Client::connect(&address) {
            break client;
        }
    };
    next.create("/after", "x");
    assert_eq!(next.get("/with-idle-19"), "x");
    // There may still be room for one client only.
    let rejected = loop {
        if let Ok(text) = try_word(port, "mntr") {
            break text;
        }
    };
    let rejected = rejected.lines().find_map(|line| line.strip_prefix("zk_connection_rejected\t"));
    assert!(rejected.expect("it is counted").parse::<u64>().expect("a number") > 0);
    process.signal(rustix::process::Signal::TERM);
    let (status, log) = process.end();
    assert!(status.success(), "{log:?}");
}

/// Without a free file descriptor the next log file cannot be opened, and writes fail until there is one.
#[test]
fn writes_are_accepted_again_when_there_are_file_descriptors() {
    let directory = config("snapCount=2\n");
    let mut process = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let address = format!("127.0.0.1:{}", process.port());
    let mut writer = Client::connect(&address).expect("it serves");
    let mut reader = Client::connect(&address).expect("it serves");
    writer.create("/before", "x");
    let pid = rustix::process::Pid::from_child(&process.child);
    let usual = rustix::process::getrlimit(Resource::Nofile);
    let limit = |current| {
        let limit = Rlimit { current, maximum: usual.maximum };
        rustix::process::prlimit(Some(pid), Resource::Nofile, limit).expect("it is ours");
    };
    // It keeps what it has.
    limit(Some(0));
    let refused = (0..100).find_map(|i| writer.try_create(&format!("/{i}"), "x").err());
    assert!(refused.is_some(), "no new log file was needed");
    let line = process.line_with("writes are refused until").expect("it says why");
    assert!(line.contains("cannot open") && line.contains("ulimit -n"), "{line}");
    assert_eq!(reader.get("/before"), "x");
    limit(usual.maximum);
    process.line_with("the log can be written again").expect("it continues");
    reader.create("/after", "x");
    assert_eq!(reader.get("/after"), "x");
}
