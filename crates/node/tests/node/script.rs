//! One node alone: scenarios as text.
//!
//! Commands: `settings KEY=MS …`, `open CONN [timeout=MS] [old] [seen=ZXID]`, `reopen CONN SESSION
//! [wrong]`, `CONN REQUEST` (in the notation of `words`, and `sync PATH`, `closeSession`,
//! `malformed OP`), `identify CONN SCHEME:ID`, `touch CONN`, `gone CONN`, `flush [ZXID]`, `storage
//! STATE`, `wait MS` (time passes), `tick` (the node gets a tick), `orphan PATH`, `restart`, `status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use herdsman_node::{ClientRequest, ConnId, Input, NodeSettings, Output, StorageState};
use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{
    ConnectRequest, Id, OpCode, ReadRequest, SessionId, Txn, TxnHeader, Xid, Zxid,
};
use herdsman_tree::Tree;

use crate::driver::{Driver, address, options, settings};
use crate::golden::{self, check_folder};
use crate::transcript::Transcript;
use crate::words;

#[test]
fn scripts() {
    check_folder("scripts", 20, Play::run);
}

struct Play {
    driver: Driver,
    transcript: Transcript,
    /// What each connection has proven to be, and the number of its last request.
    conns: BTreeMap<ConnId, (Arc<[Id]>, i32)>,
}

impl Play {
    fn run(commands: &str) -> String {
        let lines = || golden::commands(commands);
        let settings = lines().find_map(|line| line.strip_prefix("settings ")).map(parse_settings);
        let settings = settings.unwrap_or_else(crate::driver::settings);
        let mut play = Play {
            driver: Driver::new(settings, Tree::new(options())),
            transcript: Transcript::default(),
            conns: BTreeMap::new(),
        };
        for line in lines().filter(|line| !line.starts_with("settings ")) {
            play.transcript.line(&format!("> {line}"));
            play.command(line);
        }
        play.transcript.text
    }

    fn step(&mut self, input: Input<'_>) {
        let Play { driver, transcript, .. } = self;
        driver.step(input, &mut |output, bytes| see(transcript, output, bytes));
    }

    fn command(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "open" => self.connect(conn(words[1]), SessionId::NONE, &words[2..]),
            "reopen" => {
                let session = self.transcript.session(words[2]);
                self.connect(conn(words[1]), session, &words[3..]);
            }
            "identify" => self.identify(conn(words[1]), words[2]),
            "touch" => self.step(Input::Touch { conn: conn(words[1]) }),
            "gone" => self.step(Input::Disconnected { conn: conn(words[1]) }),
            "flush" => {
                let zxid = words.get(1).map(|zxid| Zxid(zxid.parse().expect("a zxid")));
                let zxid = zxid.unwrap_or(self.driver.last_appended());
                self.step(Input::Flushed { zxid });
            }
            "storage" => self.step(Input::Storage(storage(words[1]))),
            "wait" => self.driver.now_ms += words[1].parse::<u64>().expect("milliseconds"),
            "stood-still" => self.step(Input::ProcessPaused),
            "tick" => self.step(Input::Tick),
            "orphan" => self.orphan(words[1]),
            "restart" => {
                let Play { driver, transcript, .. } = self;
                driver.restart(&mut |output, bytes| see(transcript, output, bytes));
            }
            "status" => self.status(),
            number => self.request(conn(number), &line[number.len() + 1..]),
        }
    }

    fn connect(&mut self, conn: ConnId, session: SessionId, words: &[&str]) {
        let number = |key: &str, default: i64| {
            let value = words.iter().find_map(|word| word.strip_prefix(key));
            value.map_or(default, |value| value.parse().expect("a number"))
        };
        let mut password = session.apache_password();
        password[0] ^= u8::from(words.contains(&"wrong"));
        self.conns.insert(conn, (address(), 0));
        self.step(Input::Connect {
            conn,
            request: ConnectRequest {
                last_zxid_seen: Zxid(number("seen=", 0)),
                timeout_ms: number("timeout=", 4000) as i32,
                session,
                password: &password,
                read_only: (!words.contains(&"old")).then_some(false),
            },
            ids: address(),
        });
    }

    fn identify(&mut self, conn: ConnId, id: &str) {
        let (scheme, id) = id.split_once(':').expect("a scheme and an id");
        let (ids, _) = self.conns.get_mut(&conn).expect("an open connection");
        *ids = ids.iter().cloned().chain([Id::new(scheme, id)]).collect();
        let ids = Arc::clone(ids);
        self.step(Input::Identified { conn, ids });
    }

    fn request(&mut self, conn: ConnId, line: &str) {
        if let Some(read) = words::read(line) {
            return self.read(conn, &read);
        }
        let (_, last_xid) = self.conns.get_mut(&conn).expect("an open connection");
        *last_xid += 1;
        let xid = Xid(*last_xid);
        let request = match line.split_once(' ').unwrap_or((line, "")) {
            ("sync", path) => ClientRequest::Sync { path: path.into() },
            ("closeSession", _) => ClientRequest::CloseSession,
            ("malformed", op) => {
                let known = OpCode::ALL.iter().find(|known| known.name() == op);
                ClientRequest::Malformed(*known.expect("a known op"))
            }
            _ => ClientRequest::Write(words::write(line)),
        };
        self.step(Input::Request { conn, xid, request, body: &[] });
    }

    /// Reads do not pass through the node; only their watches matter here.
    fn read(&mut self, conn: ConnId, request: &ReadRequest<'_>) {
        let ids = Arc::clone(&self.conns[&conn].0);
        let reader = herdsman_tree::read::ReadCaller {
            session: SessionId(0),
            watcher: conn.watcher(),
            ids: &ids,
        };
        let mut out = Vec::new();
        let answer = match self.driver.tree.read(reader, request, &mut out) {
            Ok(()) => words::body(request, &out),
            Err(code) => format!("{code:?}"),
        };
        self.transcript.line(&format!("  {} <- {answer}", conn.0));
    }

    /// An ephemeral whose session is not open, as a torn log may leave it.
    fn orphan(&mut self, path: &str) {
        let session = SessionId(0x99);
        self.transcript.sessions.push(session);
        let zxid = self.driver.tree.last_zxid().next();
        let kind = CreateKind::Plain { ephemeral: true, with_stat: false };
        let acl = words::acl("world:anyone:rwcda");
        let create = CreateTxn { kind, path: path.into(), data: None, acl, parent_cversion: 1 };
        let header = TxnHeader { session, cxid: 1, zxid, time_ms: 0 };
        self.driver.tree.replay(&Entry { header, txn: Txn::Create(create), digest: None });
        self.driver.flushed = zxid;
    }

    fn status(&mut self) {
        let Driver { node, tree, now_ms, .. } = &self.driver;
        let sessions = tree.sessions().map(|(session, _)| self.transcript.name(session));
        let line = format!(
            "  at={now_ms} zxid={} in_flight={} deadline={:?} sessions={:?} znodes={} watches={}",
            tree.last_zxid().0,
            node.in_flight(),
            node.next_deadline(),
            sessions.collect::<Vec<_>>(),
            tree.node_count(),
            tree.watches().count(),
        );
        self.transcript.line(&line);
    }
}

fn see(transcript: &mut Transcript, output: &Output, bytes: &[u8]) {
    let line = transcript.output(output, bytes);
    transcript.line(&format!("  {line}"));
}

fn conn(text: &str) -> ConnId {
    ConnId(text.parse().unwrap_or_else(|_| panic!("{text} is no command")))
}

fn storage(text: &str) -> StorageState {
    match text {
        "writable" => StorageState::Writable,
        "full" => StorageState::Full,
        "failed" => StorageState::Failed,
        _ => panic!("{text} is no state"),
    }
}

fn parse_settings(line: &str) -> NodeSettings {
    let mut settings = settings();
    for (key, value) in line.split(' ').filter_map(|pair| pair.split_once('=')) {
        let value: u64 = value.parse().expect("a number");
        match key {
            "touch_step" => settings.touch_step_ms = value,
            "sweep_interval" => settings.sweep.interval_ms = value,
            "sweep_per_minute" => settings.sweep.per_minute_max = value,
            "never_used" => settings.sweep.never_used_ms_max = Some(value as i64),
            _ => panic!("{key} is no setting"),
        }
    }
    settings
}
