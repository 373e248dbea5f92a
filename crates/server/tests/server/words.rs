//! Four-letter words over real sockets, as operators' tools send them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use herdsman_proto::SessionId;
use herdsman_testing::TestServer;

use crate::client::{Client, connect_request, open};

/// Long enough for the slowest machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);
const EPHEMERAL: i32 = 1;

/// Sends these bytes and returns everything up to the end of the connection.
pub fn ask_bytes(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = open(address);
    stream.write_all(bytes).expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the answer is whole and ends in order");
    text
}

fn ask(server: &TestServer, word: &str) -> String {
    ask_bytes(server.address(), word.as_bytes())
}

/// Replaces values that differ in each run: `0x…` by `H`, other numbers by `N`, clock times by `T`.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let number = |text: &str, hex: bool| {
            text.find(|c: char| if hex { !c.is_ascii_hexdigit() } else { !c.is_ascii_digit() })
                .unwrap_or(text.len())
        };
        if let Some(date) = rest.strip_prefix(" expire at ") {
            shape.push_str(" expire at T");
            rest = &date["Sun Nov 15 20:10:25 UTC 2026".len()..];
        } else if let Some(hex) = rest.strip_prefix("0x") {
            shape.push('H');
            rest = &hex[number(hex, true)..];
        } else if first.is_ascii_digit() {
            shape.push('N');
            rest = &rest[number(rest, false)..];
        } else {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shape
}

fn metrics(server: &TestServer) -> BTreeMap<String, String> {
    let text = ask(server, "mntr");
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once('\t').expect("a name, a tab, a value");
        let name = name.strip_prefix("zk_").expect("every name begins with zk_");
        assert!(all.insert(name.to_owned(), value.to_owned()).is_none(), "{name} comes twice");
    }
    all
}

pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connections of earlier words may not be closed yet.
fn wait_for_connections(server: &TestServer, count: usize) {
    let wanted = format!("\nConnections: {count}\n");
    wait_for("connections to end", || ask(server, "srvr").contains(&wanted));
}

#[test]
fn srvr_of_a_fresh_server() {
    let server = TestServer::start();
    let text = ask(&server, "srvr");
    let (version, rest) = text.split_once('\n').expect("more than one line");
    assert!(version.starts_with("Zookeeper version: 3.9.5-herdsman-"), "{version}");
    assert!(version.contains(", built on ") && version.ends_with(" UTC"), "{version}");
    let expected = "Latency min/avg/max: 0/0.0/0\nReceived: 1\nSent: 0\nConnections: 1\n\
                    Outstanding: 0\nZxid: 0x0\nMode: standalone\nNode count: 5\n";
    assert_eq!(rest, expected);
}

#[test]
fn stat_lists_the_clients() {
    let server = TestServer::start();
    let mut stream = open(server.address());
    let own = stream.local_addr().unwrap();
    stream.write_all(b"stat").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (_, rest) = text.split_once('\n').expect("more than one line");
    let expected = format!(
        "Clients:\n /{own}[0](queued=0,recved=1,sent=0)\n\nLatency min/avg/max: 0/0.0/0\n\
         Received: 1\nSent: 0\nConnections: 1\nOutstanding: 0\nZxid: 0x0\nMode: standalone\n\
         Node count: 5\n"
    );
    assert_eq!(rest, expected);
}

#[test]
fn cons_tells_what_a_client_did_and_crst_forgets_it() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let line = |text: String| text.lines().find(|l| l.contains(",sid=")).map(str::to_owned);
    let fresh = line(ask(&server, "cons")).expect("the client is listed");
    assert!(fresh.contains("[1](queued=0,recved=1,sent=1,"), "{fresh}");
    assert!(fresh.contains(&format!(",sid={},lop=SESS,", client.session)), "{fresh}");
    assert!(fresh.contains(",to=10000,lcxid=0x0,lzxid=0x1,lresp="), "{fresh}");
    client.create("/a", b"", 0).ok();
    client.get("/a", false).unwrap();
    let used = line(ask(&server, "cons")).expect("the client is listed");
    assert!(used.contains("[1](queued=0,recved=3,sent=3,"), "{used}");
    assert!(used.contains(",lop=GETD,") && used.contains(",lcxid=0x2,lzxid=0x2,"), "{used}");
    let expected = " /N.N.N.N:N[N](queued=N,recved=N,sent=N,sid=H,lop=GETD,est=N,to=N,lcxid=H,\
                    lzxid=H,lresp=N,llat=N,minlat=N,avglat=N,maxlat=N)";
    assert_eq!(shape(&used), expected);
    assert_ne!(client.create("/a", b"", 0).error, 0);
    let failed = line(ask(&server, "cons")).expect("the client is listed");
    assert!(failed.contains(",lop=NA,"), "a failed write has no name: {failed}");

    assert_eq!(ask(&server, "crst"), "Connection stats reset.\n");
    let reset = line(ask(&server, "cons")).expect("the client is listed");
    let rest = "lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)";
    assert!(reset.contains("(queued=0,recved=0,sent=0,sid="), "{reset}");
    assert!(reset.contains(",lop=NA,"), "{reset}");
    assert!(reset.ends_with(&format!(",to=10000,lzxid=0xffffffffffffffff,{rest}")), "{reset}");
}

#[test]
fn srst_forgets_what_the_server_did() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/a", b"", 0).ok();
    assert_eq!(metrics(&server)["cnt_updatelatency"], "2");
    assert_eq!(ask(&server, "srst"), "Server stats reset.\n");
    let after = metrics(&server);
    for name in ["cnt_updatelatency", "cnt_fsynctime", "connection_request_count"] {
        assert_eq!(after[name], "0", "{name}");
    }
    assert_eq!((&*after["packets_received"], &*after["packets_sent"]), ("1", "1"));
    assert_eq!(after["last_client_response_size"], "-1");
    assert_eq!(after["znode_count"], "6", "what is true at the moment stays");
}

#[test]
fn conf_and_dirs_tell_paths_ports_and_sizes() {
    let server = TestServer::start();
    let size = |directory: std::path::PathBuf| -> u64 {
        let files = std::fs::read_dir(directory).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let bytes = size(server.version_dir());
    assert!(bytes > 0, "a fresh server has a snapshot");
    assert_eq!(ask(&server, "dirs"), format!("datadir_size: {bytes}\nlogdir_size: {bytes}\n"));
    let (port, directory) = (server.address().port(), server.version_dir());
    let directory = directory.display();
    let expected = format!(
        "clientPort={port}\nsecureClientPort=-1\ndataDir={directory}\ndataDirSize={bytes}\n\
         dataLogDir={directory}\ndataLogSize={bytes}\ntickTime=N\nmaxClientCnxns=N\n\
         minSessionTimeout=N\nmaxSessionTimeout=N\nclientPortListenBacklog=-1\nserverId=0\n"
    );
    let text = ask(&server, "conf");
    assert_eq!(shape(&text), shape(&expected));
    assert!(text.starts_with(expected.split_once("tickTime").unwrap().0), "{text}");
}

#[test]
fn envi_has_the_version_and_no_java() {
    let server = TestServer::start();
    let text = ask(&server, "envi");
    let (title, rest) = text.split_once('\n').expect("more than one line");
    assert_eq!(title, "Environment:");
    let keys: Vec<_> = rest.lines().map(|l| l.split_once('=').expect("key=value").0).collect();
    let expected = [
        "zookeeper.version",
        "host.name",
        "os.name",
        "os.arch",
        "os.version",
        "user.name",
        "user.home",
        "user.dir",
        "os.memory.free",
        "os.memory.max",
        "os.memory.total",
    ];
    assert_eq!(keys, expected);
    let version = text.lines().find_map(|line| line.strip_prefix("zookeeper.version="));
    let srvr = ask(&server, "srvr");
    assert_eq!(srvr.lines().next().and_then(|l| l.strip_prefix("Zookeeper version: ")), version);
}

#[test]
fn dump_shows_who_ends_when_and_what_goes_with_them() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    for path in ["/e2", "/e1"] {
        client.create(path, b"", EPHEMERAL).ok();
    }
    wait_for_connections(&server, 2);
    let mut text = String::new();
    // The connection of the previous word may still be there.
    wait_for("a dump of two connections", || {
        text = ask(&server, "dump");
        text.matches("\tip: ").count() == 2
    });
    let session = client.session;
    let expected = "SessionTracker dump:\nSession Sets (N)/(N):\nN expire at T:\n\tH\n\
                    ephemeral nodes dump:\nSessions with Ephemerals (N):\nH:\n\t/eN\n\t/eN\n\
                    Connections dump:\nConnections Sets (N)/(N):\n";
    assert!(shape(&text).starts_with(expected), "{text}");
    let owned = format!("Sessions with Ephemerals (1):\n{session}:\n\t/e1\n\t/e2\nConnections");
    assert!(text.contains(&owned), "{text}");
    assert!(text.contains("Session Sets (1)/(1):\n1 expire at "), "{text}");
    assert!(text.contains(&format!(":\n\t{session}\nephemeral")), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("\tip: /127.0.0.1:")).collect();
    assert!(lines.iter().any(|line| line.ends_with(" sessionId: 0x0")), "{text}");
    assert!(lines.iter().any(|line| line.ends_with(&format!(" sessionId: {session}"))), "{text}");
}

#[test]
fn watches_are_counted_by_session_and_by_path() {
    let server = TestServer::start();
    assert_eq!(ask(&server, "wchs"), "0 connections watching 0 paths\nTotal watches:0\n");
    assert_eq!(ask(&server, "wchc"), "\n");
    assert_eq!(ask(&server, "wchp"), "\n");
    let mut one = Client::connect(server.address());
    let mut two = Client::connect(server.address());
    one.create("/a", b"", 0).ok();
    one.create("/b", b"", 0).ok();
    for (client, path) in [(&mut one, "/b"), (&mut two, "/a")] {
        client.get(path, true).unwrap();
    }
    one.get("/a", true).unwrap();
    assert_eq!(ask(&server, "wchs"), "2 connections watching 2 paths\nTotal watches:3\n");
    let (first, second) = (one.session, two.session);
    assert_eq!(ask(&server, "wchc"), format!("{first}\n\t/a\n\t/b\n{second}\n\t/a\n\n"));
    assert_eq!(ask(&server, "wchp"), format!("/a\n\t{first}\n\t{second}\n/b\n\t{first}\n\n"));
}

#[test]
fn mntr_counts_what_happens() {
    let server = TestServer::start();
    let fresh = metrics(&server);
    let check = |all: &BTreeMap<String, String>, name: &str, value: &str| {
        assert_eq!(all[name], value, "{name}");
    };
    assert!(fresh["version"].starts_with("3.9.5-herdsman-"));
    for (name, value) in [
        ("server_state", "standalone"),
        ("avg_latency", "0.0"),
        ("znode_count", "5"),
        ("global_sessions", "0"),
        ("approximate_data_size", "44"),
        ("connection_drop_probability", "0.0"),
        ("last_client_response_size", "-1"),
        ("outstanding_requests", "0"),
        ("cnt_startup_snap_load_time", "1"),
        ("p999_readlatency", "0"),
    ] {
        check(&fresh, name, value);
    }
    assert!(fresh["open_file_descriptor_count"].parse::<i64>().unwrap() > 3);
    assert!(fresh["max_file_descriptor_count"].parse::<i64>().unwrap() > 3);

    let mut client = Client::connect(server.address());
    client.create("/a", b"12345", 0).ok();
    client.create("/a/e", b"", EPHEMERAL).ok();
    client.get("/a", true).unwrap();
    client.get("/a/e", true).unwrap();
    client.set("/a", b"123").ok();
    let used = metrics(&server);
    for (name, value) in [
        ("znode_count", "7"),
        ("ephemerals_count", "1"),
        ("watch_count", "1"),
        ("global_sessions", "1"),
        ("approximate_data_size", "53"),
        ("connection_request_count", "1"),
        ("cnt_connection_token_deficit", "1"),
        ("cnt_updatelatency", "4"),
        ("cnt_readlatency", "2"),
        ("sum_node_changed_watch_count", "1"),
        ("watch_bytes", "30"),
        ("outstanding_requests", "0"),
    ] {
        check(&used, name, value);
    }
    assert!(used["uptime"].parse::<u64>().unwrap() >= fresh["uptime"].parse().unwrap());
    let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&fresh), names(&used));
}

#[test]
fn mntr_sums_quotas_by_namespace() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/q", b"abc", 0).ok();
    client.create("/zookeeper/quota/q", b"", 0).ok();
    client.create("/zookeeper/quota/q/zookeeper_limits", b"count=5,bytes=100", 0).ok();
    client.create("/zookeeper/quota/q/zookeeper_stats", b"count=1,bytes=3", 0).ok();
    client.create("/q/x", b"12345", 0).ok();
    let all = metrics(&server);
    for (name, value) in [
        ("q_quota_count_limit_per_namespace", "5"),
        ("q_quota_bytes_limit_per_namespace", "100"),
        ("q_quota_count_usage_per_namespace", "2"),
        ("q_quota_bytes_usage_per_namespace", "8"),
    ] {
        assert_eq!(all[name], value, "{name}");
    }
}

#[test]
fn sessions_that_end_by_themselves_are_counted() {
    let server = TestServer::start_with(|config| {
        config.sessions.tick_ms = 20;
        config.sessions.timeout_min_ms = 40;
    });
    let mut request = connect_request(SessionId::NONE, &[0; 16]);
    request.timeout_ms = 40;
    drop(Client::connect_as(server.address(), &request).unwrap());
    // It is counted when its time is up, and removed when that is in the log.
    wait_for("the session to end", || {
        let all = metrics(&server);
        all["stale_sessions_expired"] == "1" && all["global_sessions"] == "0"
    });
}

#[test]
fn hash_lists_a_digest_every_128_txns() {
    let server = TestServer::start();
    assert_eq!(ask(&server, "hash"), "");
    let mut client = Client::connect(server.address());
    for i in 0..260 {
        client.create(&format!("/{i}"), b"", 0).ok();
    }
    let text = ask(&server, "hash");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, zxid) in lines.iter().zip(["80: ", "100: "]) {
        let digest = line.strip_prefix(zxid).expect("the zxid comes first");
        digest.parse::<i64>().expect("the digest is a decimal number");
    }
}

#[test]
fn short_answers_have_no_newline() {
    let server = TestServer::start();
    assert_eq!(ask(&server, "ruok"), "imok");
    assert_eq!(ask(&server, "isro"), "rw");
    assert_eq!(ask(&server, "gtmk"), "306");
    let mut set = b"stmk".to_vec();
    set.extend_from_slice(&(-5i64).to_be_bytes());
    assert_eq!(ask_bytes(server.address(), &set), "-5");
    assert_eq!(ask(&server, "gtmk"), "-5");
    assert_eq!(ask_bytes(server.address(), &[0xff, 0xf4, 0xff, 0xfd]), "");
}

#[test]
fn words_that_are_not_listed_are_refused() {
    let server = TestServer::start_with(|config| {
        config.four_letter_words.all = false;
        config.four_letter_words.listed = ["srvr", "ruok"].map(str::to_owned).into();
    });
    assert_eq!(ask(&server, "ruok"), "imok");
    assert!(ask(&server, "srvr").contains("\nMode: standalone\n"));
    for word in ["stat", "mntr", "stmk", "wchp", "isro"] {
        let refusal = format!("{word} is not executed because it is not in the whitelist.\n");
        assert_eq!(ask(&server, word), refusal);
    }
    let refusal = "telnet close is not executed because it is not in the whitelist.\n";
    assert_eq!(ask_bytes(server.address(), &[0xff, 0xf4, 0xff, 0xfd]), refusal);
}

#[test]
fn words_arrive_in_many_ways() {
    let server = TestServer::start();
    for with_newline in ["ruok\n", "ruok\r\n", "ruok and more"] {
        assert_eq!(ask(&server, with_newline), "imok");
    }
    let slowly = |bytes: &[u8]| {
        let mut stream = open(server.address());
        for byte in bytes {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(slowly(b"ruok"), "imok");
    assert_eq!(slowly(b"stmk\0\0\0\0\0\0\0\x07"), "7");
    // `echo mntr | nc` closes its side before it reads.
    let mut stream = open(server.address());
    stream.write_all(b"mntr").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() > 300, "{text}");
    assert_eq!(ask(&server, "nope"), "", "an unknown word is not a frame either");
}
