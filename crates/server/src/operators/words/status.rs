//! The state of the server: `srvr`, `stat`, `conf`, `dirs`, and the resets.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::connections::{self, Detail};
use super::{java, report, version};
use crate::clients::io_threads::ServerContext;
use herdsman_config::{ConfNumbers, conf_text};

/// The depth to which directories are searched.
const DEPTH_MAX: usize = 8;

pub(super) fn srvr(shared: &ServerContext) -> String {
    format!("Zookeeper version: {}\n{}", version::full_version(), numbers(shared))
}

pub(super) fn stat(shared: &ServerContext) -> String {
    let clients = connections::lines(&shared.core.clients, Detail::Brief);
    let version = version::full_version();
    format!("Zookeeper version: {version}\nClients:\n{clients}\n{}", numbers(shared))
}

pub(super) fn cons(shared: &ServerContext) -> String {
    connections::lines(&shared.core.clients, Detail::Full) + "\n"
}

fn numbers(shared: &ServerContext) -> String {
    let numbers = report::numbers(shared);
    let latency = numbers.latency;
    let (min, average, max) = (latency.min, java::double(latency.mean()), latency.max);
    let mut text = format!("Latency min/avg/max: {min}/{average}/{max}\n");
    let _ = writeln!(text, "Received: {}", numbers.packets_received);
    let _ = writeln!(text, "Sent: {}", numbers.packets_sent);
    let _ = writeln!(text, "Connections: {}", numbers.connections);
    let _ = writeln!(text, "Outstanding: {}", numbers.outstanding);
    let _ = writeln!(text, "Zxid: {}\nMode: {}", numbers.zxid, numbers.role);
    let _ = writeln!(text, "Node count: {}", numbers.node_count);
    if let Some([last, min, max]) = numbers.proposal_sizes {
        let _ = writeln!(text, "Proposal sizes last/min/max: {last}/{min}/{max}");
    }
    text
}

/// Apache counts the root twice, because its table has it under two names, the empty one and this.
pub(crate) const ROOT_SECOND_NAME: &str = "/";

pub(crate) fn apache_node_count(znodes: usize) -> usize {
    znodes + 1
}

pub(super) fn conf(shared: &ServerContext) -> String {
    let listen = &shared.config.listen;
    let (data_dir_bytes, log_dir_bytes) = directory_sizes(shared);
    let working_dir = std::env::current_dir().unwrap_or_default();
    let membership =
        shared.core.with_node(|node| node.zab().map(|zab| Arc::clone(zab.membership())));
    let numbers = ConfNumbers {
        client_port: listen.client.as_ref().map(|endpoint| endpoint.port),
        secure_client_port: listen.secure_client.as_ref().map(|endpoint| endpoint.port),
        data_dir_bytes,
        log_dir_bytes,
        working_dir: &working_dir,
        membership: membership.as_deref(),
    };
    conf_text(&shared.config, &numbers)
}

pub(super) fn dirs(shared: &ServerContext) -> String {
    let (data_dir_bytes, log_dir_bytes) = directory_sizes(shared);
    format!("datadir_size: {data_dir_bytes}\nlogdir_size: {log_dir_bytes}\n")
}

pub(crate) fn directory_sizes(shared: &ServerContext) -> (u64, u64) {
    let storage = &shared.config.storage;
    let size = |path: &Path| directory_size(&path.join("version-2"), DEPTH_MAX);
    (size(&storage.data_dir), size(&storage.log_dir))
}

/// Bytes of all files. Files that vanish meanwhile do not count.
fn directory_size(path: &Path, depth: usize) -> u64 {
    let Ok(listing) = std::fs::read_dir(path) else { return 0 };
    let sizes = listing.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() && depth > 0 => directory_size(&entry.path(), depth - 1),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    });
    sizes.sum()
}

pub(super) fn crst(shared: &ServerContext) -> String {
    reset_connections(shared);
    "Connection stats reset.\n".to_owned()
}

pub(super) fn reset_connections(shared: &ServerContext) {
    for client in shared.core.clients.all() {
        client.stats.lock().reset();
    }
}

pub(super) fn srst(shared: &ServerContext) -> String {
    shared.core.stats.reset();
    "Server stats reset.\n".to_owned()
}

pub(super) fn hash(shared: &ServerContext) -> String {
    let digests: Vec<_> = shared.core.tree().digest_log().iter().collect();
    let mut text = String::new();
    for (zxid, digest) in digests {
        let _ = writeln!(text, "{:x}: {digest}", zxid.0);
    }
    text
}
