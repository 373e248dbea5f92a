//! Gauges of one server at one moment. Apache: `ZooKeeperServer.registerMetrics`.

use std::sync::atomic::Ordering;

use crate::clients::io_threads::ServerContext;
use crate::clients::wire::handshake::TlsAcceptor;
use crate::operators::stats::Series;
use crate::operators::words::{process, status};

/// All gauges at one moment.
pub(crate) struct ServerGauges {
    pub latency: Series,
    pub packets_received: u64,
    pub packets_sent: u64,
    pub connections: usize,
    pub outstanding: u64,
    pub uptime_ms: u64,
    pub znodes: usize,
    pub watches: usize,
    pub ephemerals: usize,
    pub data_bytes: u64,
    pub sessions: usize,
    pub local_sessions: usize,
    pub open_files: i64,
    pub open_files_max: i64,
    pub drop_probability: f64,
    pub response_size: Series,
    pub last_response_bytes: u64,
    pub auth_failed: u64,
    pub tls_handshakes: usize,
    pub scrub_last_pass_ms: u64,
    pub scrub_damaged_files: u64,
    pub scrub_needed_files: u64,
}

impl ServerGauges {
    pub fn of(shared: &ServerContext) -> Self {
        let core = &shared.core;
        let stats = &core.stats;
        let local_sessions = core.with_node(|node| node.sessions().local_len());
        let (sessions, znodes, ephemerals, data_bytes, watches) = {
            let tree = core.tree();
            let (sessions, watches) = (tree.sessions().count(), tree.watches().count());
            (sessions, tree.node_count(), tree.ephemeral_count(), tree.data_size(), watches)
        };
        ServerGauges {
            latency: stats.latency.get(),
            packets_received: stats.packets_received.get(),
            packets_sent: stats.packets_sent.get(),
            connections: core.clients.len(),
            outstanding: stats.outstanding.load(Ordering::Relaxed),
            uptime_ms: core.clock.monotonic_ms(),
            znodes: status::apache_node_count(znodes),
            watches,
            ephemerals,
            data_bytes: data_bytes + status::ROOT_SECOND_NAME.len() as u64,
            sessions,
            local_sessions,
            open_files: process::open_files(),
            open_files_max: process::open_files_max(),
            drop_probability: shared.connection_throttle.drop_probability(),
            response_size: stats.response_size.get(),
            last_response_bytes: stats.last_response_bytes.load(Ordering::Relaxed),
            auth_failed: stats.auth_failed.get(),
            tls_handshakes: shared.tls.as_ref().map_or(0, TlsAcceptor::under_way),
            scrub_last_pass_ms: stats.scrub.last_pass_ms.load(Ordering::Relaxed),
            scrub_damaged_files: stats.scrub.damaged_files.load(Ordering::Acquire),
            scrub_needed_files: stats.scrub.needed_files.load(Ordering::Relaxed),
        }
    }

    /// Apache reports -1 before the first reply.
    pub fn of_responses(&self, bytes: u64) -> i64 {
        if self.response_size.count == 0 { -1 } else { bytes.cast_signed() }
    }
}
