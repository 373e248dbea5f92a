//! The audit log: one line for each requested change and its outcome.
//! Apache: `ZKAuditProvider`, `AuditHelper`, `DataTree.deleteNodes`.
//!
//! In: requests of this server's clients with their replies, session ends, and the server's own start
//! and stop. Out: lines of `key=value`, separated by tabs, in Apache's order and words, either in the
//! server's log under the target `audit`, or in a separate file. Deliberately not here: reads, and
//! requests of other servers' clients; only session ends are logged by every server, as in Apache.
//!
//! Lost lines are always reported. A request whose reply never reached this server (it lost its leader, or
//! the server stopped) is logged with `result=invoked`. When the file cannot be written, lines wait in
//! memory, see [`file`]; when the queue is full, lost lines are counted in the file itself, in the
//! server's log and in a metric. Clients never wait for the audit log: a full disk for logs must not
//! make a coordination service unavailable.

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

/// The target of the lines in the server's log.
pub const TARGET: &str = "audit";

/// The audit log.
#[derive(Debug)]
pub struct Audit {
    /// The OS user of the process, logged as the user of the server's own actions.
    server_user: String,
    file: Option<AuditFile>,
    lines: Counter,
}

/// The client that sent a request.
pub(crate) struct Client<'a> {
    pub session: SessionId,
    pub ids: &'a [Id],
    pub address: std::net::IpAddr,
    pub schemes: &'a Schemes,
}

/// A request as it was received.
pub(crate) struct AuditedRequest<'a> {
    pub op: OpCode,
    /// The payload with its header.
    pub payload: &'a Bytes,
    /// The limit for fields of a request.
    pub field_bytes_max: usize,
}

/// A session that is about to end, with the paths of its ephemerals and whether they exist.
#[derive(Debug)]
pub(crate) struct SessionEnd {
    session: SessionId,
    ephemerals: Vec<(Box<str>, Outcome)>,
}

impl Audit {
    /// Opens the log: lines are written to this file, or to the server's log without one.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let (server_user, _) = process::user();
        let file = path.map(AuditFile::open).transpose()?;
        Ok(Audit { server_user, file, lines: Counter::default() })
    }

    /// Logs a successful start.
    pub fn server_started(&self) {
        self.of_server("serverStart", Outcome::Success);
    }

    /// Logs a failed start.
    pub fn server_failed_to_start(&self) {
        self.of_server("serverStart", Outcome::Failure);
    }

    /// Logs a stop.
    pub fn server_stops(&self) {
        self.of_server("serverStop", Outcome::Invoked);
    }

    /// The number of lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// The number of lost lines.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.file.as_ref().map_or(0, AuditFile::lost)
    }

    /// Writes the queued lines, and closes the file. Later lines are written to the server's log.
    pub fn close(&self) {
        if let Some(file) = &self.file {
            file.close();
        }
    }

    fn of_server(&self, operation: &'static str, outcome: Outcome) {
        let fields = Fields { user: Some(&self.server_user), ..Fields::of(operation) };
        self.write(&fields.line(outcome), outcome);
    }

    /// Logs a request that was answered, or never will be.
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

    /// Logs the end of a session.
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

/// The znodes that a txn will delete, if it ends a session that has ephemerals, or is one of several txns that do so.
pub(crate) fn session_end(entry: &Entry, tree: &Tree) -> Option<SessionEnd> {
    let session = entry.header.session;
    let listed = match &entry.txn {
        Txn::CloseSession { ephemerals } => ephemerals,
        Txn::Multi(deletions) if session == SessionId::NONE => {
            return step_of_session_end(deletions, tree);
        }
        _ => return None,
    };
    let owned: BTreeSet<&str> = tree.ephemerals(session).map(|path| &**path).collect();
    let listed = listed.iter().flatten().map(|path| &**path);
    let gone = listed.filter(|path| !owned.contains(path)).map(|path| (path, Outcome::Failure));
    let there = owned.iter().map(|path| (*path, Outcome::Success));
    let ephemerals: Vec<_> =
        there.chain(gone).map(|(path, outcome)| (path.into(), outcome)).collect();
    (!ephemerals.is_empty()).then_some(SessionEnd { session, ephemerals })
}

/// What a multi of a server deletes: ephemerals of a session that is ending.
fn step_of_session_end(deletions: &[Txn], tree: &Tree) -> Option<SessionEnd> {
    let paths = deletions.iter().filter_map(|deletion| match deletion {
        Txn::Delete { path, .. } => Some(path),
        _ => None,
    });
    let session = paths.clone().find_map(|path| tree.ephemeral_owner(path))?;
    let outcome = |path| match tree.ephemeral_owner(path) {
        Some(_) => Outcome::Success,
        None => Outcome::Failure,
    };
    let ephemerals = paths.map(|path| (path.clone(), outcome(path))).collect();
    Some(SessionEnd { session, ephemerals })
}

/// The names of all authenticated ids of a client. Apache: `AuthUtil.getUsers`.
fn users(client: &Client<'_>) -> Option<String> {
    let names = client.ids.iter().map(|id| client.schemes.user_name(id));
    let names: Vec<_> = names.filter(|name| !name.trim().is_empty()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Opens the audit log of a configuration.
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
