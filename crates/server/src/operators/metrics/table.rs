//! The table of metrics. A metric is added only here.

use super::Source::{Counter, Detailed, Gauge, OfLeader, OfMember, Ratio, Summary};
use super::{AlwaysZero, Metric, Source};

const fn metric(name: &'static str, about: &'static str, source: Source) -> Metric {
    Metric { name, about, source }
}

/// The metrics of this server.
pub(crate) const TABLE: &[Metric] = &[
    metric("avg_latency", "Average time to answer a request, ms.", Ratio(|now| now.latency.mean())),
    metric("max_latency", "Longest time, ms.", Gauge(|now| now.latency.max.cast_signed())),
    metric("min_latency", "Shortest time, ms.", Gauge(|now| now.latency.min.cast_signed())),
    metric("packets_received", "Frames from clients.", Gauge(|now| now.packets_received as i64)),
    metric("packets_sent", "Frames to clients.", Gauge(|now| now.packets_sent as i64)),
    metric("num_alive_connections", "Open connections.", Gauge(|now| now.connections as i64)),
    metric(
        "outstanding_requests",
        "Requests that wait for the log.",
        Gauge(|now| now.outstanding as i64),
    ),
    metric("uptime", "Time since the start, ms.", Gauge(|now| now.uptime_ms as i64)),
    metric("znode_count", "Znodes, with the root counted twice.", Gauge(|now| now.znodes as i64)),
    metric("watch_count", "Watches.", Gauge(|now| now.watches as i64)),
    metric("ephemerals_count", "Ephemeral znodes.", Gauge(|now| now.ephemerals as i64)),
    metric(
        "approximate_data_size",
        "Bytes of paths and data of all znodes.",
        Gauge(|now| now.data_bytes as i64),
    ),
    metric(
        "global_sessions",
        "Sessions known to the whole ensemble.",
        Gauge(|now| now.sessions as i64),
    ),
    metric(
        "local_sessions",
        "Sessions known to this server only.",
        Gauge(|now| now.local_sessions as i64),
    ),
    metric("open_file_descriptor_count", "Open files.", Gauge(|now| now.open_files)),
    metric("max_file_descriptor_count", "Files that may be open.", Gauge(|now| now.open_files_max)),
    metric(
        "connection_drop_probability",
        "Probability that a new session is rejected.",
        Ratio(|now| now.drop_probability),
    ),
    metric(
        "last_client_response_size",
        "Bytes of the last reply or event; -1 before the first.",
        Gauge(|now| now.of_responses(now.last_response_bytes)),
    ),
    metric(
        "max_client_response_size",
        "Bytes of the largest one.",
        Gauge(|now| now.of_responses(now.response_size.max)),
    ),
    metric(
        "min_client_response_size",
        "Bytes of the smallest one.",
        Gauge(|now| now.of_responses(now.response_size.min)),
    ),
    metric(
        "outstanding_tls_handshake",
        "TLS handshakes in progress.",
        Gauge(|now| now.tls_handshakes as i64),
    ),
    metric(
        "tls_handshake_exceeded",
        "TLS connections rejected because too many handshakes were in progress.",
        Counter(|stats| &stats.tls_handshakes_refused),
    ),
    metric(
        "unsuccessful_handshake",
        "TLS handshakes that failed.",
        Counter(|stats| &stats.tls_handshakes_failed),
    ),
    metric("auth_failed_count", "Credentials rejected.", Gauge(|now| now.auth_failed as i64)),
    metric(
        "ensemble_auth_success",
        "Clients of the ensemble scheme that named this ensemble.",
        Counter(|stats| &stats.ensemble_auth_fitted),
    ),
    metric(
        "ensemble_auth_fail",
        "Clients of the ensemble scheme that named another ensemble.",
        Counter(|stats| &stats.ensemble_auth_failed),
    ),
    metric(
        "ensemble_auth_skip",
        "Clients of the ensemble scheme without a name to compare.",
        Counter(|stats| &stats.ensemble_auth_skipped),
    ),
    metric("non_mtls_remote_conn_count", "Always 0.", Gauge(|_| 0)),
    metric("non_mtls_local_conn_count", "Always 0.", Gauge(|_| 0)),
    metric("quorum_size", "Servers with a vote.", OfMember(|member| member.voters as i64)),
    metric(
        "linearizable_syncs",
        "1 if the leader confirms with a quorum that it still leads before it answers a sync; \
         0 if it does not, if there is no leader, or if this observer learns from a follower.",
        OfMember(|member| i64::from(member.has_linearizable_syncs)),
    ),
    metric(
        "learners",
        "Servers connected to this leader, synchronized or not.",
        OfLeader(|leader| leader.learners as i64),
    ),
    metric(
        "synced_followers",
        "Synchronized followers of this leader.",
        OfLeader(|leader| leader.followers as i64),
    ),
    metric(
        "synced_non_voting_followers",
        "Synchronized followers that have no vote in the membership.",
        OfLeader(|leader| leader.followers_without_vote as i64),
    ),
    metric(
        "synced_observers",
        "Synchronized observers.",
        OfLeader(|leader| leader.observers as i64),
    ),
    metric(
        "pending_syncs",
        "Syncs that wait for changes in flight, or for a quorum to confirm the leader.",
        OfLeader(|leader| leader.syncs_waiting as i64),
    ),
    metric(
        "leader_uptime",
        "Time since this server became the leader, ms.",
        OfLeader(|leader| leader.led_ms as i64),
    ),
    metric(
        "last_proposal_size",
        "Bytes of the last proposal of this term; -1 before the first.",
        OfLeader(|leader| leader.proposal_sizes[0]),
    ),
    metric(
        "max_proposal_size",
        "Bytes of the largest one.",
        OfLeader(|leader| leader.proposal_sizes[2]),
    ),
    metric(
        "min_proposal_size",
        "Bytes of the smallest one.",
        OfLeader(|leader| leader.proposal_sizes[1]),
    ),
    metric("bytes_received_count", "Bytes from clients.", Counter(|stats| &stats.bytes_received)),
    metric("response_bytes", "Bytes of replies.", Counter(|stats| &stats.response_bytes)),
    metric("watch_bytes", "Bytes of watch events.", Counter(|stats| &stats.watch_bytes)),
    metric(
        "connection_request_count",
        "Connections that requested a session.",
        Counter(|stats| &stats.connection_requests),
    ),
    metric(
        "connection_revalidate_count",
        "Of these, connections that resumed a session.",
        Counter(|stats| &stats.connection_revalidations),
    ),
    metric(
        "connection_rejected",
        "Connections rejected by a limit.",
        Counter(|stats| &stats.connections_rejected),
    ),
    metric(
        "connection_drop_count",
        "Connections closed by the client or broken.",
        Counter(|stats| &stats.connections_dropped),
    ),
    metric(
        "connection_token_deficit",
        "Tokens missing when a session was requested.",
        Summary(|stats| &stats.connection_token_deficit),
    ),
    metric(
        "sessionless_connections_expired",
        "Connections that did not request a session in time.",
        Counter(|stats| &stats.sessionless_expired),
    ),
    metric(
        "stale_sessions_expired",
        "Sessions expired because nothing was received from their client.",
        Counter(|stats| &stats.sessions_expired),
    ),
    metric(
        "large_requests_rejected",
        "Requests rejected by `largeRequestMaxBytes`.",
        Counter(|stats| &stats.large_requests_rejected),
    ),
    metric(
        "throttled_ops",
        "Requests rejected by `throttled_op_wait_time`.",
        Counter(|stats| &stats.throttled_ops),
    ),
    metric(
        "snapshot_error_count",
        "Snapshots that failed.",
        Counter(|stats| &stats.snapshot_errors),
    ),
    metric(
        "snapshot_rate_limited_count",
        "Snapshots requested from the admin port too soon after another.",
        Counter(|stats| &stats.snapshots_too_soon),
    ),
    metric(
        "scrub_bytes_read",
        "Bytes of logs and snapshots read in the background to find damage.",
        Counter(|stats| &stats.scrub.bytes),
    ),
    metric(
        "scrub_passes",
        "How often all logs and snapshots were read.",
        Counter(|stats| &stats.scrub.passes),
    ),
    metric(
        "scrub_last_pass_time",
        "When all of them were last read completely, in ms since 1970; 0 before the first time.",
        Gauge(|now| now.scrub_last_pass_ms as i64),
    ),
    metric(
        "scrub_damaged_files",
        "Damaged logs and snapshots.",
        Gauge(|now| now.scrub_damaged_files as i64),
    ),
    metric(
        "scrub_damaged_files_needed",
        "Of these, those that a start needs, or the newest snapshot; they are repaired.",
        Gauge(|now| now.scrub_needed_files as i64),
    ),
    metric(
        "restore_error_count",
        "Restores through the admin port that failed.",
        Counter(|stats| &stats.restore_errors),
    ),
    metric(
        "restore_rate_limited_count",
        "Restores requested from the admin port too soon after another.",
        Counter(|stats| &stats.restores_too_soon),
    ),
    metric(
        "digest_mismatches_count",
        "Digests that differ from the leader's.",
        Counter(|stats| &stats.digest_mismatches),
    ),
    metric(
        "unrecoverable_error_count",
        "Failures of the log that only a restart repairs.",
        Counter(|stats| &stats.unrecoverable_errors),
    ),
    metric("readlatency", "Time to answer a read, ms.", Detailed(|stats| &stats.read_latency)),
    metric("updatelatency", "Time to answer a write, ms.", Detailed(|stats| &stats.update_latency)),
    metric("fsynctime", "Time to make a batch durable, ms.", Summary(|stats| &stats.fsync)),
    metric("sync_processor_queue_flush_time_ms", "The same.", Detailed(|stats| &stats.fsync)),
    metric("sync_processor_batch_size", "Txns in a batch.", Summary(|stats| &stats.batch_size)),
    metric("snapshottime", "Time to write a snapshot, ms.", Summary(|stats| &stats.snapshot)),
    metric(
        "restore_time",
        "Time of a restore through the admin port, ms.",
        Summary(|stats| &stats.restore),
    ),
    metric("dbinittime", "Time to load the tree, ms.", Summary(|stats| &stats.startup_load)),
    metric(
        "startup_snap_load_time",
        "Time to load the snapshot, ms.",
        Summary(|stats| &stats.startup_snapshot_load),
    ),
    metric(
        "startup_txns_load_time",
        "Time to replay the log, ms.",
        Summary(|stats| &stats.startup_txns_load),
    ),
    metric(
        "startup_txns_loaded",
        "Txns replayed from the log.",
        Summary(|stats| &stats.startup_txns),
    ),
    metric(
        "node_created_watch_count",
        "Watchers notified of one creation.",
        Summary(|stats| &stats.watchers_of_created),
    ),
    metric(
        "node_deleted_watch_count",
        "Watchers notified of one deletion.",
        Summary(|stats| &stats.watchers_of_deleted),
    ),
    metric(
        "node_changed_watch_count",
        "Watchers notified of one change of data.",
        Summary(|stats| &stats.watchers_of_changed),
    ),
    metric(
        "node_children_watch_count",
        "Watchers notified of one change of children.",
        Summary(|stats| &stats.watchers_of_children),
    ),
    metric(
        "looking_count",
        "How often this server looked for a leader.",
        Counter(|stats| &stats.ensemble.searches),
    ),
    metric(
        "election_time",
        "Time to find the leader, ms; not for observers.",
        Summary(|stats| &stats.ensemble.election),
    ),
    metric(
        "follower_sync_time",
        "Time of a follower to catch up with its leader, ms.",
        Summary(|stats| &stats.ensemble.follower_sync),
    ),
    metric(
        "observer_sync_time",
        "Time of an observer to catch up with its leader, ms.",
        Summary(|stats| &stats.ensemble.observer_sync),
    ),
    metric(
        "unavailable_time",
        "Time from the loss of a role to the next, ms.",
        Summary(|stats| &stats.ensemble.unavailable),
    ),
    metric(
        "leader_unavailable_time",
        "The same, if the next role was to lead.",
        Summary(|stats| &stats.ensemble.leader_unavailable),
    ),
    metric(
        "quit_leading_due_to_disloyal_voter",
        "How often this leader stepped down because it lost its voters.",
        Counter(|stats| &stats.ensemble.deserted),
    ),
    metric(
        "proposal_count",
        "Txns proposed by this leader.",
        Counter(|stats| &stats.ensemble.proposals),
    ),
    metric(
        "commit_count",
        "Txns committed by this leader.",
        Counter(|stats| &stats.ensemble.commits),
    ),
    metric(
        "diff_count",
        "Learners to which this leader sent the missing txns.",
        Counter(|stats| &stats.ensemble.diffs),
    ),
    metric(
        "snap_count",
        "Learners to which this leader sent the whole tree.",
        Counter(|stats| &stats.ensemble.snapshots),
    ),
    metric(
        "revalidate_count",
        "Sessions that learners asked this leader about.",
        Counter(|stats| &stats.ensemble.revalidations),
    ),
    metric(
        "learner_proposal_received_count",
        "Proposals that this follower received.",
        Counter(|stats| &stats.ensemble.proposals_received),
    ),
    metric(
        "learner_commit_received_count",
        "Commits that this learner received.",
        Counter(|stats| &stats.ensemble.commits_received),
    ),
    metric(
        "quorum_ack_latency",
        "Time from a leader's proposal until a quorum has it, ms.",
        Detailed(|stats| &stats.ensemble.quorum_ack),
    ),
    metric(
        "proposal_latency",
        "Time from the leader's clock in a txn to its arrival at a follower, ms.",
        Detailed(|stats| &stats.ensemble.proposal_latency),
    ),
    metric(
        "commit_propagation_latency",
        "Time from a txn's arrival at a learner to its commit, ms.",
        Detailed(|stats| &stats.ensemble.commit_propagation),
    ),
    metric(
        "propagation_latency",
        "Time from the leader's clock in a txn to its commit here, ms; in an ensemble only.",
        Detailed(|stats| &stats.ensemble.propagation),
    ),
];

/// Metrics of Apache's queues and threads that do not exist here, for dashboards. Not in `mntr`.
pub(crate) const SCRAPED_ALWAYS_ZERO: AlwaysZero = AlwaysZero {
    counters: &[
        "outstanding_changes_queued",
        "outstanding_changes_removed",
        "prep_processor_request_queued",
        "request_throttle_wait_count",
        "stale_replies",
        "stale_requests",
        "stale_requests_dropped",
        "sync_processor_request_queued",
    ],
    summaries: &[
        "prep_process_time",
        "prep_processor_queue_size",
        "proposal_process_time",
        "sync_process_time",
        "sync_processor_queue_size",
    ],
    detailed: &[
        "close_session_prep_time",
        "prep_processor_queue_time_ms",
        "request_throttle_queue_time_ms",
        "sync_processor_queue_and_flush_time_ms",
        "sync_processor_queue_time_ms",
    ],
};

/// Metrics that need the admin server, a JVM, or a part of Apache's server that does not exist here: its
/// commit processor, its cache of replies, its cleaner of watches.
pub(crate) const ALWAYS_ZERO: AlwaysZero = AlwaysZero {
    counters: &[
        "add_dead_watcher_stall_time",
        "cnxn_closed_without_zk_server_running",
        "dead_watchers_cleared",
        "dead_watchers_queued",
        "insecure_admin_count",
        "request_commit_queued",
        "requests_not_forwarded_to_commit_processor",
        "response_packet_cache_hits",
        "response_packet_cache_misses",
        "response_packet_get_children_cache_hits",
        "response_packet_get_children_cache_misses",
        "skip_learner_request_to_next_processor_count",
    ],
    summaries: &[
        "commit_commit_proc_req_queued",
        "commit_process_time",
        "concurrent_request_processing_in_commit_processor",
        "inflight_diff_count",
        "inflight_snap_count",
        "learner_request_processor_queue_size",
        "netty_queued_buffer_capacity",
        "pending_session_queue_size",
        "read_commit_proc_issued",
        "read_commit_proc_req_queued",
        "reads_after_write_in_session_queue",
        "reads_issued_from_session_queue",
        "requests_in_session_queue",
        "session_queues_drained",
        "socket_closing_time",
        "time_waiting_empty_pool_in_commit_processor_read_ms",
        "write_batch_time_in_commit_processor",
        "write_commit_proc_issued",
        "write_commit_proc_req_queued",
    ],
    detailed: &[
        "dead_watchers_cleaner_latency",
        "jvm_pause_time_ms",
        "local_write_committed_time_ms",
        "om_commit_process_time_ms",
        "om_proposal_process_time_ms",
        "proposal_ack_creation_latency",
        "read_commitproc_time_ms",
        "read_final_proc_time_ms",
        "server_write_committed_time_ms",
        "write_commitproc_time_ms",
        "write_final_proc_time_ms",
    ],
};
