//! A tree with its overlay and a few users, driven by lines of text: `u1: create /a`.

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, Id, ReadRequest, SessionId, TxnHeader, Zxid};
use herdsman_tree::auth::{DIGEST, IP, SUPER};
use herdsman_tree::read::ReadCaller;
use herdsman_tree::{Caller, Events, Outcome, Overlay, Tree, TreeOptions, Watcher};

use crate::words;

/// A user: a session, a connection and its ids.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub name: &'static str,
    /// Also the number of its connection.
    pub session: SessionId,
    refused: Option<ErrorCode>,
}

const fn user(name: &'static str, session: i64, refused: Option<ErrorCode>) -> User {
    User { name, session: SessionId(session), refused }
}

/// `anon` has no credentials; `expired` and `moved` have a session that may not write.
pub const USERS: &[User] = &[
    user("anon", 0x11, None),
    user("u1", 0x12, None),
    user("u2", 0x13, None),
    user("super", 0x14, None),
    user("expired", 0x15, Some(ErrorCode::SessionExpired)),
    user("moved", 0x16, Some(ErrorCode::SessionMoved)),
];

impl User {
    /// The ids of the connection. The hash in a digest id may be any text.
    pub fn ids(&self) -> Vec<Id> {
        let mut ids = vec![Id::new(IP, "127.0.0.1")];
        match self.name {
            "super" => ids.push(Id::new(SUPER, "")),
            name @ ("u1" | "u2") => ids.push(Id::new(DIGEST, &format!("{name}:h"))),
            _ => {}
        }
        ids
    }
}

/// The state under test.
pub struct World {
    pub tree: Tree,
    overlay: Overlay,
    last_zxid: i64,
}

impl World {
    /// Creates an empty tree and executes the lines, none of which may fail.
    pub fn new(options: TreeOptions, setup: &[&str]) -> Self {
        let mut world = World {
            overlay: Overlay::new(options.hash_seed),
            tree: Tree::new(options),
            last_zxid: 0,
        };
        for line in setup {
            let result = world.run(line);
            let failed = ErrorCode::ALL.iter().any(|code| result == format!("{code:?}"));
            assert!(!failed, "{line}: {result}");
        }
        world
    }

    /// Executes a line. Returns the reply.
    pub fn run(&mut self, line: &str) -> String {
        self.run_watched(line).0
    }

    /// Executes a line. Returns the reply and the events.
    pub fn run_watched(&mut self, line: &str) -> (String, Vec<String>) {
        let (user, line) = self.user_of_line(line);
        if let Some(request) = words::read(line) {
            return self.read(user, &request);
        }
        let mut events = Events::new();
        let (_, outcome) = self.write(user, line, &mut events);
        (self::outcome(&outcome), events.iter().flat_map(event_lines).collect())
    }

    fn user_of_line<'a>(&self, line: &'a str) -> (User, &'a str) {
        let (name, line) = line.split_once(": ").unwrap_or(("anon", line));
        let user = USERS.iter().find(|user| user.name == name);
        (*user.expect("a known user"), line)
    }

    /// Prepares and applies a write. Returns its txn and outcome. Besides the requests of clients there
    /// are `close` and `sweep PATH`.
    pub fn write(&mut self, user: User, line: &str, events: &mut Events) -> (Entry, Outcome) {
        self.last_zxid += 1;
        let header = TxnHeader {
            session: user.session,
            cxid: 1,
            zxid: Zxid(self.last_zxid),
            time_ms: 1000 * self.last_zxid,
        };
        let ids = user.ids();
        let caller = Caller { ids: &ids, refused: user.refused, ephemerals_refused: None };
        let entry = match line.split_once(' ') {
            Some(("sweep", path)) => self.overlay.prepare_sweep(&self.tree, header, path, None),
            None if line == "close" => self.overlay.prepare_close_session(&self.tree, header),
            _ => {
                let request = words::write(line);
                self.overlay.prepare(&self.tree, header, caller, &request)
            }
        };
        let outcome = self.tree.apply(&entry, events);
        self.overlay.applied(header.zxid);
        if let Some(digest) = entry.digest {
            assert_eq!(digest.tree_digest, self.tree.digest(), "after {line}");
        }
        (entry, outcome)
    }

    fn read(&self, user: User, request: &ReadRequest<'_>) -> (String, Vec<String>) {
        let ids = user.ids();
        let reader = ReadCaller {
            session: user.session,
            watcher: Watcher(user.session.0 as u64),
            ids: &ids,
        };
        let mut out = Vec::new();
        if let ReadRequest::SetWatches(watches) = request {
            let answer = match self.tree.set_watches(reader, watches, &mut out) {
                Ok(()) => "ok".to_owned(),
                Err(code) => format!("{code:?}"),
            };
            return (answer, words::late_events(&out));
        }
        let answer = match self.tree.read(reader, request, &mut out) {
            Ok(()) => words::body(request, &out),
            Err(code) => format!("{code:?}"),
        };
        (answer, Vec::new())
    }

    /// The user of a watcher's connection.
    fn watcher_name(watcher: Watcher) -> &'static str {
        let user = USERS.iter().find(|user| user.session.0 as u64 == watcher.0);
        user.expect("a known user").name
    }
}

fn event_lines(event: &herdsman_tree::Event) -> Vec<String> {
    assert!(!event.acl.entries().is_empty(), "an event always has an ACL to check");
    let line = |&watcher| {
        let name = World::watcher_name(watcher);
        format!("{name} {:?} {} @{}", event.kind, event.path, event.zxid.0)
    };
    event.watchers.iter().map(line).collect()
}

/// Describes the outcome of a txn.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Created { path, stat: None } => path.to_string(),
        Outcome::Created { path, stat: Some(created) } => {
            format!("{path} {}", words::stat(created))
        }
        Outcome::Deleted => "deleted".to_owned(),
        Outcome::DataSet(set) | Outcome::AclSet(set) => words::stat(set),
        Outcome::Reconfigured { stat, .. } => format!("reconfigured {}", words::stat(stat)),
        Outcome::Checked => "checked".to_owned(),
        Outcome::Session => "session".to_owned(),
        Outcome::Failed(None) => "undone".to_owned(),
        Outcome::Failed(Some(code)) => format!("{code:?}"),
        Outcome::Multi(results) => {
            let results: Vec<_> = results.iter().map(self::outcome).collect();
            format!("[{}]", results.join(", "))
        }
    }
}
