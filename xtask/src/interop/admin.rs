//! Compares the admin server with Apache's AdminServer, and restores the snapshots of each in the other.
//!
//! Two servers get the same requests: znodes of every kind, an ephemeral, watches, some hundred txns. Then
//! both get every command. The following must agree: status, content type, the keys of the JSON and the
//! types of their values; the values, where they follow from those requests; the text byte for byte, where
//! nothing depends on time or machine. Then each server's snapshot is restored in the other, which must
//! show the same znodes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::configurations;
use crate::listing;
use crate::paths;
use crate::ports;
use crate::server::{Jvm, Launch, Program, SUPER_DIGEST, Server};
use crate::wire::{NO_NODE, Op, Session};

const START_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Enough for two txns whose zxid is a multiple of 128, which `hash` shows.
const BULK: usize = 300;
const SUPER: &str = "digest super:test";

/// Commands whose whole text must be the same.
const SAME_TEXT: &[&str] = &[
    "ruok",
    "get_trace_mask",
    "gtmk",
    "is_read_only",
    "isro",
    "leader",
    "lead",
    "voting_view",
    "observers",
    "obsr",
    "zabstate",
    "watch_summary",
    "wchs",
    "observer_connection_stat_reset",
    "set_trace_mask",
    "set_trace_mask?traceMask=x",
    "set_trace_mask?traceMask=306",
    "stmk?traceMask=306",
    "nosuch",
    "ruok/x",
    "snapshot",
    "restore",
];

/// Commands whose keys and types must be the same.
const SAME_SHAPE: &[&str] = &[
    "configuration",
    "conf",
    "config",
    "connections",
    "cons",
    "dirs",
    "dump",
    "hash",
    "initial_configuration",
    "icfg",
    "last_snapshot",
    "lsnp",
    "server_stats",
    "srvr",
    "stats",
    "stat",
    "watches",
    "wchc",
    "watches_by_path",
    "wchp",
];

/// Values that follow from the requests that both got: the command, and where in its response.
const SAME_VALUE: &[(&str, &str)] = &[
    ("configuration", "/tick_time"),
    ("configuration", "/max_client_cnxns"),
    ("configuration", "/min_session_timeout"),
    ("configuration", "/max_session_timeout"),
    ("configuration", "/server_id"),
    ("configuration", "/client_port_listen_backlog"),
    ("server_stats", "/node_count"),
    ("server_stats", "/server_stats/last_processed_zxid"),
    ("server_stats", "/server_stats/server_state"),
    ("server_stats", "/server_stats/num_alive_client_connections"),
    ("server_stats", "/client_response"),
    ("connections", "/connections/0/packets_received"),
    ("connections", "/connections/0/packets_sent"),
    ("connections", "/connections/0/last_operation"),
    ("connections", "/connections/0/last_cxid"),
    ("connections", "/connections/0/last_zxid"),
    ("connections", "/connections/0/session_timeout"),
    ("connections", "/connections/0/interest_ops"),
    ("monitor", "/znode_count"),
    ("monitor", "/watch_count"),
    ("monitor", "/ephemerals_count"),
    ("monitor", "/approximate_data_size"),
    ("monitor", "/global_sessions"),
    ("hash", "/digests/0/zxid"),
    ("hash", "/digests/1/zxid"),
    ("hash", "/digests/1/digest_version"),
];

/// Prefixes of metrics about Apache's threads, which do not exist here.
const NOT_MEASURED: &[&str] = &[
    "close_session_prep_time",
    "outstanding_changes",
    "prep_process",
    "proposal_process_time",
    "request_throttle",
    "stale_re",
    "sync_process",
    // Counted by Apache once a client has used a namespace.
    "_per_namespace",
];

/// Runs the whole suite.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("admin-{}", program.name()))?;
    let apache = Pair::start(Program::Apache, &work.join("apache"))?;
    let other = Pair::start(program, &work.join("other"))?;
    let _open = (live(&apache.server)?, live(&other.server)?);
    compare_responses(&apache, &other)?;
    println!("ok      every command responds as Apache's does");
    access_alike(&apache, &other)?;
    println!("ok      snapshots need the same authorization");
    restore_in_other(&apache, &other, &work.join("first.snapshot"))?;
    restore_in_other(&other, &apache, &work.join("second.snapshot"))?;
    println!("ok      snapshots of each are restored in the other, with all znodes");
    apache.server.stop()?;
    other.server.stop()?;
    configurations::run(program, &work)
}

/// A server and its admin port.
struct Pair {
    program: Program,
    server: Server,
    admin: String,
}

impl Pair {
    fn start(program: Program, data_dir: &Path) -> Result<Pair> {
        let port = ports::free_ports(2)?;
        fs::create_dir_all(data_dir)?;
        let config = data_dir.with_extension("cfg");
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\nmaxClientCnxns=0\n\
             4lw.commands.whitelist=*\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n\
             admin.rateLimiterIntervalInMS=0\npreAllocSize=64\nextendedTypesEnabled=true\n",
            data_dir.display(),
            port + 1
        );
        fs::write(&config, text)?;
        let launch = Launch {
            program,
            properties: &[(SUPER_DIGEST.0.to_owned(), SUPER_DIGEST.1.to_owned())],
            config: &config,
            log: &data_dir.with_extension("log"),
            address: format!("127.0.0.1:{port}"),
            jvm: Jvm::Quick,
            within: &[],
        };
        let mut pair = Pair {
            program,
            server: launch.start()?,
            admin: format!("http://127.0.0.1:{}", port + 1),
        };
        pair.await_serving()?;
        Ok(pair)
    }

    fn await_serving(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            let serves = self.server.four_letters("srvr").is_ok_and(|text| text.contains("Mode: "));
            if serves && self.get("ruok", None).is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            self.server.ensure_alive()?;
            ensure!(
                Instant::now() < deadline,
                "{:?} or its admin port does not serve:\n{}",
                self.program,
                self.server.log_tail()
            );
            std::thread::sleep(POLL);
        }
    }

    fn get(&self, command: &str, authorization: Option<&str>) -> Result<Answer> {
        let mut request = agent().get(format!("{}/commands/{command}", self.admin));
        if let Some(authorization) = authorization {
            request = request.header("Authorization", authorization);
        }
        Answer::of(request.call()?)
    }

    fn post(&self, command: &str, body: &[u8]) -> Result<Answer> {
        let request = agent().post(format!("{}/commands/{command}", self.admin));
        let request = request.header("Authorization", SUPER);
        Answer::of(request.header("Content-Type", "application/octet-stream").send(body)?)
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    ureq::Agent::new_with_config(config.timeout_global(Some(START_MAX)).build())
}

struct Answer {
    status: u16,
    content_type: String,
    last_zxid: Option<String>,
    snapshot_bytes: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer> {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let (content_type, last_zxid) =
            (header("content-type").unwrap_or_default(), header("last_zxid"));
        let snapshot_bytes = header("snapshot_size");
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(1 << 30).read_to_vec()?;
        Ok(Answer { status, content_type, last_zxid, snapshot_bytes, body })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }
}

/// Sends the same requests to a server, in the same order, on one connection.
fn live(server: &Server) -> Result<Session> {
    let mut session = Session::connect(&server.address, 30_000)?;
    session.ok(&Op::create("/app", Some(b"data"), 0))?;
    session.ok(&Op::create("/app/secret", Some(b"x"), 0)
        .with_acl(&[(1, "world", "anyone"), (31, "digest", "u:h")]))?;
    session.ok(&Op::create("/app/container", None, 4))?;
    session.ok(&Op::create("/app/queue-", None, 2))?;
    session.ok(&Op::create("/app/member", Some(b"me"), 1))?;
    for i in 0..BULK {
        session.ok(&Op::set_data("/app", Some(format!("{i:04}").as_bytes()), -1))?;
    }
    session.ok(&Op::get_data("/app").watched())?;
    session.ok(&Op::get_children("/app").watched())?;
    session.expect(NO_NODE, &Op::exists("/nothing").watched())?;
    Ok(session)
}

fn compare_responses(apache: &Pair, other: &Pair) -> Result<()> {
    for command in SAME_TEXT {
        let (one, two) = both(apache, other, command)?;
        ensure!(one.text() == two.text(), "{command}:\n{}\nand\n{}", one.text(), two.text());
    }
    for command in SAME_SHAPE {
        let (one, two) = both(apache, other, command)?;
        same_shape(&one.json()?, &two.json()?).with_context(|| (*command).to_owned())?;
    }
    let mut differences = Vec::new();
    for (command, place) in SAME_VALUE {
        let (one, two) = both(apache, other, command)?;
        let (one, two) = (one.json()?, two.json()?);
        let (one, two) = (one.pointer(place), two.pointer(place));
        if one.is_none() || one != two {
            differences.push(format!("{command} {place}: {one:?} and {two:?}"));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    for (command, map) in
        [("dump", "session_id_to_ephemeral_paths"), ("watches", "session_id_to_watched_paths")]
    {
        // Session ids are masked without authorization; the values are in the order of their sessions.
        let (one, two) = both_as(apache, other, command, Some(SUPER))?;
        let values = |answer: Answer| -> Result<Vec<Value>> {
            let json = answer.json()?;
            Ok(json[map].as_object().context("a map")?.values().cloned().collect())
        };
        let (one, two) = (values(one)?, values(two)?);
        ensure!(one == two && !one.is_empty(), "{command}: {one:?} and {two:?}");
    }
    monitor_alike(apache, other)?;
    let (one, two) = both_as(apache, other, "environment", None)?;
    missing_keys(&one.json()?, &two.json()?, |key| key.starts_with("java."))?;
    let links = |pair: &Pair| -> Result<String> {
        Ok(Answer::of(agent().get(format!("{}/commands", pair.admin)).call()?)?.text())
    };
    ensure!(links(apache)? == links(other)?, "the pages of links differ");
    Ok(())
}

/// All metrics of Apache exist, with the same names and types, except those about its own implementation.
fn monitor_alike(apache: &Pair, other: &Pair) -> Result<()> {
    let (one, two) = both(apache, other, "monitor")?;
    let (one, two) = (one.json()?, two.json()?);
    missing_keys(&one, &two, |key| NOT_MEASURED.iter().any(|part| key.contains(part)))?;
    for (key, value) in one.as_object().context("an object")? {
        let same = two.get(key).is_none_or(|other| kind(value) == kind(other));
        ensure!(same, "monitor {key}: {value} and {}", two[key]);
    }
    Ok(())
}

fn missing_keys(one: &Value, two: &Value, is_free: impl Fn(&str) -> bool) -> Result<()> {
    let (one, two) = (one.as_object().context("an object")?, two.as_object().context("an object")?);
    let missing: Vec<_> =
        one.keys().filter(|key| !is_free(key) && !two.contains_key(*key)).collect();
    ensure!(missing.is_empty(), "missing: {missing:?}");
    Ok(())
}

fn both(apache: &Pair, other: &Pair, command: &str) -> Result<(Answer, Answer)> {
    both_as(apache, other, command, None)
}

/// Returns both responses; their heads must be equal.
fn both_as(
    apache: &Pair,
    other: &Pair,
    command: &str,
    authorization: Option<&str>,
) -> Result<(Answer, Answer)> {
    let (one, two) = (apache.get(command, authorization)?, other.get(command, authorization)?);
    ensure!(one.status == two.status, "{command}: status {} and {}", one.status, two.status);
    ensure!(
        one.content_type == two.content_type,
        "{command}: {} and {}",
        one.content_type,
        two.content_type
    );
    Ok((one, two))
}

/// Whether both have the same keys with the same types. Keys that are numbers or paths name things, not
/// fields.
fn same_shape(one: &Value, two: &Value) -> Result<()> {
    match (one, two) {
        (Value::Object(one), Value::Object(two)) => {
            let names = |map: &serde_json::Map<String, Value>| {
                let mut names: Vec<_> = map.keys().filter(|key| is_field(key)).cloned().collect();
                names.sort_unstable();
                names
            };
            let (mine, theirs) = (names(one), names(two));
            ensure!(mine == theirs, "keys {mine:?} and {theirs:?}");
            for key in mine {
                same_shape(&one[&key], &two[&key]).context(key)?;
            }
            let things = |map: &serde_json::Map<String, Value>| {
                map.iter()
                    .filter(|(key, _)| !is_field(key))
                    .map(|(_, value)| value.clone())
                    .collect()
            };
            same_shape(&Value::Array(things(one)), &Value::Array(things(two)))
        }
        (Value::Array(one), Value::Array(two)) => match (one.first(), two.first()) {
            (Some(one), Some(two)) => same_shape(one, two),
            _ => Ok(()),
        },
        (one, two) => {
            ensure!(kind(one) == kind(two), "{one} and {two}");
            Ok(())
        }
    }
}

fn is_field(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "fraction",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn access_alike(apache: &Pair, other: &Pair) -> Result<()> {
    let ask = |authorization: &str| -> Result<u16> {
        let (one, two) = both_as(apache, other, "snapshot?streaming=false", Some(authorization))?;
        ensure!(one.text() == two.text(), "{authorization}: {} and {}", one.text(), two.text());
        ensure!(
            one.last_zxid.is_some() == two.last_zxid.is_some(),
            "{authorization}: headers differ"
        );
        Ok(one.status)
    };
    let expect = |authorization: &str, status: u16| -> Result<()> {
        let found = ask(authorization)?;
        ensure!(found == status, "{authorization}: {found}, not {status}");
        Ok(())
    };
    for (authorization, status) in
        [("foo bar", 401), ("digest a b c", 401), ("digest x:y", 200), ("ip", 200), (SUPER, 200)]
    {
        expect(authorization, status)?;
    }
    // One permission is not enough.
    for acl in [&[(1, "world", "anyone")][..], &[(31, "ip", "192.0.2.1"), (30, "world", "anyone")]]
    {
        for pair in [apache, other] {
            let mut session = Session::connect(&pair.server.address, 30_000)?;
            session.add_auth("digest", "super:test")?;
            session.ok(&Op::set_acl("/", acl, -1))?;
            session.close()?;
        }
        for (authorization, status) in [("digest x:y", 403), ("ip", 403), (SUPER, 200)] {
            expect(authorization, status)?;
        }
    }
    Ok(())
}

/// Replaces the state of `to` by a snapshot of `from`, which is kept in `file` for inspection.
fn restore_in_other(from: &Pair, to: &Pair, file: &Path) -> Result<()> {
    let what = format!("{:?}'s snapshot, restored by {:?}", from.program, to.program);
    let mut session = Session::connect(&from.server.address, 30_000)?;
    session.add_auth("digest", "super:test")?;
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    session.ok(&Op::create(&format!("/only-{name}"), Some(b"here"), 0))?;
    session.close()?;
    let snapshot = from.get("snapshot", Some(SUPER))?;
    ensure!(snapshot.status == 200, "{what}: {}", snapshot.text());
    ensure!(
        snapshot.content_type == "application/octet-stream",
        "{what}: {}",
        snapshot.content_type
    );
    let bytes = snapshot.body.len().to_string();
    ensure!(snapshot.snapshot_bytes == Some(bytes), "{what}: {:?}", snapshot.snapshot_bytes);
    fs::write(file, &snapshot.body)?;
    let expected = listing::read_all(&from.server.address)?;
    let restored = to.post("restore", &snapshot.body)?;
    ensure!(restored.status == 200, "{what}: {}", restored.text());
    let zxid = restored.json()?["last_zxid"].as_i64().context("a number")?;
    ensure!(
        snapshot.last_zxid == Some(format!("{zxid:#x}")),
        "{what}: {:?} and {zxid:#x}",
        snapshot.last_zxid
    );
    listing::ensure_equal(&what, &expected, &listing::read_all(&to.server.address)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shapes_are_compared_by_keys_and_types() {
        let same = |one: Value, two: Value| same_shape(&one, &two).is_ok();
        assert!(same(json!({ "a": 1, "17": ["x"] }), json!({ "a": 2, "99": ["y"] })));
        assert!(!same(json!({ "a": 1 }), json!({ "b": 1 })));
        assert!(!same(json!({ "a": 1 }), json!({ "a": 1.5 })));
        assert!(!same(json!({ "17": ["x"] }), json!({ "99": [1] })));
        assert!(!same(json!([{ "a": null }]), json!([{ "a": "" }])));
    }
}
