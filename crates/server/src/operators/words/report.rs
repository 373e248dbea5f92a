//! The data of four-letter words and of the admin server's commands.
//!
//! In: a running server. Out: values that [`super`] formats as Apache's lines and `herdsman-admin` as
//! Apache's JSON, so that the two never disagree. The data for an answer is collected under the locks of
//! the node and the tree; nothing is formatted here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use herdsman_node::{Node, ServesAs};
use herdsman_proto::{LearnerKind, Membership, ServerId, SessionId, TxnDigest, Zxid};
use herdsman_store::SnapshotName;
use herdsman_tree::watches::WatchSummary;
use herdsman_zab::Zab;

use super::{
    connections, dump, environment, java, monitor, role, role_name, status, version, watches,
};
use crate::clients::io_threads::ServerContext;
use crate::handle::ServerHandle;
use crate::operators::metrics::{self, Number};
use crate::operators::stats::{ConnStats, Series};
use herdsman_config::Mode;
use herdsman_quorum::LinkReport;

pub use dump::Ends;

/// The reports of a server.
#[derive(Clone, Copy)]
pub struct ServerReports<'a>(&'a ServerContext);

impl ServerHandle {
    /// Returns the reports of this server.
    #[must_use]
    pub fn reports(&self) -> ServerReports<'_> {
        ServerReports(&self.shared)
    }
}

/// The numbers of `srvr`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerNumbers {
    /// Time to answer a request, ms.
    pub latency: Series,
    /// Frames from clients.
    pub packets_received: u64,
    /// Frames to clients.
    pub packets_sent: u64,
    /// Open connections.
    pub connections: usize,
    /// Requests that wait for the log.
    pub outstanding: u64,
    /// The last txn.
    pub zxid: Zxid,
    /// Apache's word for the role.
    pub role: &'static str,
    /// Znodes as Apache counts them, the root twice.
    pub node_count: usize,
    /// Bytes of proposals: last, smallest, largest; a leader's.
    pub proposal_sizes: Option<[i64; 3]>,
}

/// The numbers of `server_stats` beyond [`ServerNumbers`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoreNumbers {
    /// Log syncs that took too long.
    pub fsync_slow: u64,
    /// Bytes of replies: last, smallest, largest; -1 before the first.
    pub response_sizes: [i64; 3],
    /// Time since the start.
    pub uptime_ms: u64,
    /// Rejected credentials.
    pub auth_failed: u64,
}

/// A connection, as `cons` shows it.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// The remote address, as Java writes it, without its slash.
    pub peer: String,
    /// The events that Apache's selector would wait for: 1 to read, 0 for nothing.
    pub interest_ops: i32,
    /// When it was accepted, in milliseconds since 1970.
    pub established_ms: i64,
    /// Apache's short name of the last request.
    pub last_operation: &'static str,
    /// Its counters.
    pub stats: ConnStats,
}

/// The data of `configuration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationReport {
    /// The port of plain clients, -1 without one.
    pub client_port: i32,
    /// The directory of snapshots.
    pub data_dir: PathBuf,
    /// The directory of logs.
    pub log_dir: PathBuf,
    /// The id of the server in its ensemble, 0 on a standalone server.
    pub server_id: i64,
}

/// A member's state in its ensemble at one moment.
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// Its id.
    pub me: ServerId,
    /// The leader, if it knows one.
    pub leader: Option<ServerId>,
    /// All members.
    pub membership: Arc<Membership>,
    /// The client address of this server, which the membership need not contain.
    pub client_address: String,
    /// The phase of the protocol, by Apache's word.
    pub phase: &'static str,
}

/// The newest snapshot in the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The txn in its name.
    pub zxid: Zxid,
    /// When it was written, seconds since 1970.
    pub written_s: i64,
}

impl ServerReports<'_> {
    /// The version, in Apache's form.
    #[must_use]
    pub fn version(&self) -> String {
        version::full_version()
    }

    /// Apache's word for the role.
    #[must_use]
    pub fn role_name(&self) -> &'static str {
        role_name(self.0)
    }

    /// The current role.
    #[must_use]
    pub fn role(&self) -> Option<ServesAs> {
        role(self.0)
    }

    /// The numbers of `srvr`.
    #[must_use]
    pub fn numbers(&self) -> ServerNumbers {
        numbers(self.0)
    }

    /// More numbers, for `server_stats`.
    #[must_use]
    pub fn more_numbers(&self) -> MoreNumbers {
        let stats = &self.0.core.stats;
        let Series { count, min, max, .. } = stats.response_size.get();
        let last = stats.last_response_bytes.load(Ordering::Relaxed);
        let response_sizes =
            if count == 0 { [-1; 3] } else { [last, min, max].map(u64::cast_signed) };
        MoreNumbers {
            fsync_slow: stats.fsync_slow.get(),
            response_sizes,
            uptime_ms: self.0.core.clock.monotonic_ms(),
            auth_failed: stats.auth_failed.get(),
        }
    }

    /// Bytes in the directories of snapshots and of logs. Reads the metadata of all files.
    #[must_use]
    pub fn directory_sizes(&self) -> (u64, u64) {
        status::directory_sizes(self.0)
    }

    /// Every connection, oldest first.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionReport> {
        connections::reports(&self.0.core.clients)
    }

    /// The data of `configuration`.
    #[must_use]
    pub fn configuration(&self) -> ConfigurationReport {
        let config = &self.0.config;
        let working_dir = std::env::current_dir().unwrap_or_default();
        let directory = |path: &Path| working_dir.join(path).join("version-2");
        ConfigurationReport {
            client_port: config.listen.client.as_ref().map_or(-1, |client| client.port.into()),
            data_dir: directory(&config.storage.data_dir),
            log_dir: directory(&config.storage.log_dir),
            server_id: match config.mode {
                Mode::Standalone => 0,
                Mode::Ensemble { my_id, .. } => my_id.0,
            },
        }
    }

    /// When sessions expire, by the wall clock. A learner knows only local ones.
    #[must_use]
    pub fn session_ends(&self) -> Ends<SessionId> {
        dump::all_session_ends(self.0)
    }

    /// Ephemerals by owner.
    #[must_use]
    pub fn ephemerals(&self) -> Vec<(SessionId, Vec<Arc<str>>)> {
        dump::ephemerals(self.0)
    }

    /// Version, machine and user, under Apache's names.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        environment::entries()
    }

    /// Recent digests of the tree, of version [`TxnDigest::VERSION`].
    #[must_use]
    pub fn digests(&self) -> Vec<(Zxid, i64)> {
        self.0.core.tree().digest_log().iter().collect()
    }

    /// The version of those digests.
    #[must_use]
    pub fn digest_version(&self) -> i32 {
        TxnDigest::VERSION
    }

    /// The trace mask, a number that has no effect.
    #[must_use]
    pub fn trace_mask(&self) -> i64 {
        self.0.trace_mask.load(Ordering::Relaxed).cast_signed()
    }

    /// Sets the trace mask.
    pub fn set_trace_mask(&self, mask: i64) {
        self.0.trace_mask.store(mask.cast_unsigned(), Ordering::Relaxed);
    }

    /// Sets the counters of all connections to 0.
    pub fn reset_connections(&self) {
        status::reset_connections(self.0);
    }

    /// Sets counters and summaries of the server to 0.
    pub fn reset_server(&self) {
        self.0.core.stats.reset();
    }

    /// The numbers of connections with data watches and of watched paths.
    #[must_use]
    pub fn watch_summary(&self) -> WatchSummary {
        watches::summary(self.0)
    }

    /// Data watches by session; the answer can be long.
    #[must_use]
    pub fn watches_by_session(&self) -> Vec<(SessionId, Vec<Arc<str>>)> {
        watches::by_session(self.0)
    }

    /// Data watches by path; the answer can be long.
    #[must_use]
    pub fn watches_by_path(&self) -> Vec<(Arc<str>, Vec<SessionId>)> {
        watches::by_path(self.0).into_iter().collect()
    }

    /// The texts of `mntr` before its numbers, with names without `zk_`.
    #[must_use]
    pub fn monitor_texts(&self) -> Vec<(&'static str, String)> {
        monitor::texts(self.0)
    }

    /// The numbers of `mntr`, names without `zk_`.
    #[must_use]
    pub fn monitor_numbers(&self) -> Vec<(String, Number)> {
        metrics::flat(&metrics::apache_families(self.0))
    }

    /// The server's state in its ensemble; `None` if it is standalone.
    #[must_use]
    pub fn member(&self) -> Option<MemberReport> {
        let Mode::Ensemble { my_id: me, .. } = self.0.config.mode else { return None };
        let client_address = self.0.config.listen.client.as_ref().map(ToString::to_string);
        let client_address = client_address.unwrap_or_default();
        self.0.core.with_node(|node| {
            let zab = node.zab()?;
            Some(MemberReport {
                me,
                leader: zab.leader(),
                membership: Arc::clone(zab.membership()),
                client_address,
                phase: phase(node),
            })
        })
    }

    /// Synchronized observers of this server, and the traffic of their links.
    #[must_use]
    pub fn observers(&self) -> Vec<(ServerId, LinkReport)> {
        let Some(peers) = self.0.core.peers() else { return Vec::new() };
        let observers: Vec<_> = self.0.core.with_node(|node| {
            let learners = node.zab().into_iter().flat_map(Zab::learners);
            let observers = learners.filter(|&(_, _, kind)| kind == LearnerKind::Observer);
            observers.map(|(link, server, _)| (link, server)).collect()
        });
        let report = |(link, server)| Some((server, peers.network.link_report(link)?));
        observers.into_iter().filter_map(report).collect()
    }

    /// Sets the counters of connections between servers to 0.
    pub fn reset_links(&self) {
        if let Some(peers) = self.0.core.peers() {
            peers.network.reset_link_counters();
        }
    }

    /// The newest snapshot in the data directory.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<SnapshotReport> {
        let listing = std::fs::read_dir(self.0.config.storage.data_dir.join("version-2")).ok()?;
        let found = listing.flatten().filter_map(|entry| {
            let name = SnapshotName::parse(entry.file_name().to_str()?)?;
            let written = entry.metadata().ok()?.modified().ok()?;
            let written_s = written.duration_since(UNIX_EPOCH).ok()?.as_secs().cast_signed();
            Some(SnapshotReport { zxid: name.zxid, written_s })
        });
        found.max_by_key(|snapshot| snapshot.zxid)
    }
}

pub(super) fn numbers(shared: &ServerContext) -> ServerNumbers {
    let core = &shared.core;
    let (zxid, znodes) = {
        let tree = core.tree();
        (tree.last_zxid(), tree.node_count())
    };
    // A leader that has not created a txn yet shows the first zxid of its epoch, as Apache's does.
    let zxid = zxid.max(core.with_node(epoch_start).unwrap_or(zxid));
    let role = role_name(shared);
    ServerNumbers {
        latency: core.stats.latency.get(),
        packets_received: core.stats.packets_received.get(),
        packets_sent: core.stats.packets_sent.get(),
        connections: core.clients.len(),
        outstanding: core.stats.outstanding.load(Ordering::Relaxed),
        zxid,
        role,
        node_count: status::apache_node_count(znodes),
        proposal_sizes: (role == "leader").then(|| core.stats.ensemble.proposal_sizes()),
    }
}

/// The first zxid of the epoch that this server leads; `None` if it does not lead.
fn epoch_start(node: &Node) -> Option<Zxid> {
    let epoch = node.zab().filter(|_| node.serves_as() == Some(ServesAs::Leader))?.epochs().current;
    Some(Zxid::start_of(epoch))
}

/// Apache: `ZabState`. Between an election and service there are two short phases that are one here.
fn phase(node: &Node) -> &'static str {
    match node.zab().map(Zab::state) {
        None | Some(herdsman_proto::ServerState::Looking) => "election",
        Some(_) if node.serves_as().is_none() => "discovery",
        Some(_) => "broadcast",
    }
}

/// Formats an address like Jackson does: without a slash.
pub(super) fn plain_address(address: std::net::SocketAddr) -> String {
    java::address(address).trim_start_matches('/').to_owned()
}
