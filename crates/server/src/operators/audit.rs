//! The audit log: a line for each change that somebody asked for, and what became of it.
//! Apache: `ZKAuditProvider`, `AuditHelper`, `DataTree.deleteNodes`.
//!
//! In: requests of this server's clients with their replies, sessions that end, and the server's own start
//! and stop. Out: lines of `key=value` with tabs between, in Apache's order and words, either in the
//! server's log under the target `audit`, or in a file of their own. Deliberately not here: reads, and
//! what clients of other servers do; only the ends of sessions are told by every server, as in Apache.
//!
//! No line is lost without a word. A request whose reply never came to this server (it lost its leader, or
//! the server stopped) is told with `result=invoked`. When the file cannot be written, lines wait in
//! memory, see [`file`]; when there is no more room, what is missing is counted in the file itself, in the
//! server's log and in a metric. Clients never wait for the audit log: a full disk for logs must not
//! take a coordination service down.

pub mod file;
mod line;
mod operations;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{Id, OpCode, SessionId, Txn};
use herdsman_tree::Tree;
use herdsman_tree::auth::Schemes;
use tracing::{error, info};

use crate::operators::stats::Counter;
use crate::operators::words::process;
use file::AuditFile;
use line::{Fields, Outcome};

pub(crate) use operations::Answer;

/// The target of lines in the server's log.
pub const TARGET: &str = "audit";

/// Writes the lines.
#[derive(Debug)]
pub struct Audit {
    /// Who runs the server: what it does by itself is done in this name.
    server_user: String,
    file: Option<AuditFile>,
    lines: Counter,
}

/// Whose request it is.
pub(crate) struct Client<'a> {
    pub session: SessionId,
    pub ids: &'a [Id],
    pub address: std::net::IpAddr,
    pub schemes: &'a Schemes,
}

/// A request as it came in.
pub(crate) struct AuditedRequest<'a> {
    pub op: OpCode,
    /// With its header.
    pub payload: &'a Bytes,
    /// The longest field that a request may have.
    pub field_bytes_max: usize,
}

/// A session that is about to end, with the paths of its ephemerals and whether they are there.
#[derive(Debug)]
pub(crate) struct SessionEnd {
    session: SessionId,
    ephemerals: Vec<(Box<str>, Outcome)>,
}

impl Audit {
    /// Lines go to this file, or to the server's log without one.
    ///
    /// # Errors
    /// The file cannot be opened or made.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let (server_user, _) = process::user();
        let file = path.map(AuditFile::open).transpose()?;
        Ok(Audit { server_user, file, lines: Counter::default() })
    }

    /// The server serves.
    pub fn server_started(&self) {
        self.of_server("serverStart", Outcome::Success);
    }

    /// It does not.
    pub fn server_failed_to_start(&self) {
        self.of_server("serverStart", Outcome::Failure);
    }

    /// It is about to stop.
    pub fn server_stops(&self) {
        self.of_server("serverStop", Outcome::Invoked);
    }

    /// How many lines there were.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// How many of them are lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.file.as_ref().map_or(0, AuditFile::lost)
    }

    /// Writes what waits, and ends. What comes later goes to the server's log.
    pub fn close(&self) {
        if let Some(file) = &self.file {
            file.close();
        }
    }

    fn of_server(&self, operation: &'static str, outcome: Outcome) {
        let fields = Fields { user: Some(&self.server_user), ..Fields::of(operation) };
        self.write(&fields.line(outcome), outcome);
    }

    /// A request was answered, or never will be.
    pub(crate) fn answered(
        &self,
        client: &Client<'_>,
        asked: &AuditedRequest<'_>,
        answer: &Answer<'_>,
    ) {
        let user = users(client);
        let ip = herdsman_tree::auth::ip_id(client.address).id;
        for done in operations::done(asked, answer) {
            let fields = Fields {
                session: Some(client.session),
                user: user.as_deref(),
                ip: Some(&ip),
                operation: done.operation,
                znode: done.znode.as_deref(),
                znode_type: done.znode_type,
                acl: done.acl.as_deref(),
            };
            self.write(&fields.line(done.outcome), done.outcome);
        }
    }

    /// A session has ended.
    pub(crate) fn session_ended(&self, end: &SessionEnd) {
        for (path, outcome) in &end.ephemerals {
            let fields = Fields {
                session: Some(end.session),
                user: Some(&self.server_user),
                znode: Some(path),
                ..Fields::of("ephemeralZNodeDeletionOnSessionCloseOrExpire")
            };
            self.write(&fields.line(*outcome), *outcome);
        }
    }

    fn write(&self, line: &str, outcome: Outcome) {
        self.lines.add(1);
        let taken = self.file.as_ref().is_some_and(|file| file.write(line, outcome));
        if taken {
            return;
        }
        match outcome {
            Outcome::Failure => error!(target: TARGET, "{line}"),
            Outcome::Success | Outcome::Invoked => info!(target: TARGET, "{line}"),
        }
    }
}

/// What a txn that is about to be applied will delete, if it ends a session that has ephemerals.
pub(crate) fn session_end(entry: &Entry, tree: &Tree) -> Option<SessionEnd> {
    let Txn::CloseSession { ephemerals: listed } = &entry.txn else { return None };
    let session = entry.header.session;
    let owned: BTreeSet<&str> = tree.ephemerals(session).map(|path| &**path).collect();
    let listed = listed.iter().flatten().map(|path| &**path);
    let gone = listed.filter(|path| !owned.contains(path)).map(|path| (path, Outcome::Failure));
    let there = owned.iter().map(|path| (*path, Outcome::Success));
    let ephemerals: Vec<_> =
        there.chain(gone).map(|(path, outcome)| (path.into(), outcome)).collect();
    (!ephemerals.is_empty()).then_some(SessionEnd { session, ephemerals })
}

/// Everybody that a client has proven to be, by their names. Apache: `AuthUtil.getUsers`.
fn users(client: &Client<'_>) -> Option<String> {
    let names = client.ids.iter().map(|id| client.schemes.user_name(id));
    let names: Vec<_> = names.filter(|name| !name.trim().is_empty()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// The audit log that a configuration asks for.
pub(crate) fn from_config(
    config: &herdsman_config::Config,
) -> Result<Option<Arc<Audit>>, crate::StartError> {
    let logging = &config.logging;
    if !logging.audit {
        return Ok(None);
    }
    let path = logging.audit_file.as_deref();
    let opened = Audit::open(path).map_err(|source| crate::StartError::AuditFile {
        path: path.map(Path::to_owned).unwrap_or_default(),
        source,
    })?;
    Ok(Some(Arc::new(opened)))
}
