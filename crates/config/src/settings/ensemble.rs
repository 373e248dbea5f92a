//! Ensembles: members, roles, times, and the connections between servers.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ensemble, Ignored, NotYet, NotYetUnless};

pub(super) static SETTINGS: &[Setting] = settings! {
    "server.*", File Text => kept, Unset, "", Ensemble,
        "A member, by its number: `host:quorumPort:electionPort[:role][|more addresses][;[host:]clientPort]`.";
    "group.*", File Text => kept, Unset, "", Ensemble,
        "Members of a group of a hierarchical quorum: `1:2:3`.";
    "weight.*", File Long => kept, Is("1"), "", Ensemble,
        "Weight of a member in its group.";
    "dynamicConfigFile", File Path => raw.dynamic_config_file, Unset, "", Ensemble,
        "File with the members; the number after its last dot is the version.";
    "standaloneEnabled", File Bool => quorum.standalone_enabled, Is("true"), "", Acted,
        "Whether one server alone runs without the protocol of an ensemble.";
    "reconfigEnabled", File Bool => quorum.reconfig_enabled, Is("false"), "", Acted,
        "Whether clients may change the membership.";
    "initLimit", File Int => raw.init_limit_ticks, Derived("required"), "ticks", Ensemble,
        "Time for a learner to connect and catch up.";
    "syncLimit", File Int => raw.sync_limit_ticks, Derived("required"), "ticks", Ensemble,
        "Time for a learner to answer.";
    "connectToLearnerMasterLimit", File Int => quorum.connect_limit_ticks, Derived("initLimit"), "ticks", Ensemble,
        "Time for a learner to connect.";
    "electionAlg", File Int => raw.election_alg, Is("3"), "", Ensemble,
        "Election algorithm; there is only number 3.";
    "peerType", File Word => raw.peer_type, Is("participant"), "", Ensemble,
        "participant or observer; the list of servers takes precedence.";
    "quorumListenOnAllIPs", File Bool => quorum.listen_on_all_addresses, Is("false"), "", Ensemble,
        "Whether quorum and election ports listen on all addresses.";
    "observerMasterPort", File Int => raw.observer_master_port, Is("0"), "", Ensemble,
        "Port on which followers serve observers; 0 is off.";
    "syncEnabled", File Bool => quorum.observer_sync, Is("true"), "", Ensemble,
        "Whether an observer keeps a log and snapshots.";
    "observer.syncEnabled", Property Flag => raw.observer_sync_override, Unset, "", Ensemble,
        "The same; takes precedence over syncEnabled.";
    "multiAddress.enabled", Property Bool => quorum.multi_address, Is("false"), "", Ensemble,
        "Whether a member may have several addresses.";
    "multiAddress.reachabilityCheckTimeoutMs", Property Int => quorum.multi_address_timeout_ms, Is("1000"), "ms", Ensemble,
        "How long an address is tried before the next one.";
    "multiAddress.reachabilityCheckEnabled", Property Bool => quorum.multi_address_check, Is("true"), "", Ensemble,
        "Whether addresses are tried before one is used.";
    "oraclePath", File Text => quorum.oracle_path, Unset, "", NotYet,
        "File whose content 1 allows one of two servers to continue alone.";
    "sslQuorum", File Bool => quorum_security.tls, Is("false"), "", Ensemble,
        "Whether servers use TLS with each other.";
    "portUnification", File Bool => quorum_security.port_unification, Is("false"), "", Ensemble,
        "Whether the ports between servers also accept plain connections.";
    "sslQuorumReloadCertFiles", File Bool => quorum_security.reload_certificates, Is("false"), "", Ensemble,
        "Whether changed certificate files are reloaded.";
    "quorum.auth.enableSasl", File Bool => quorum_security.sasl, Is("false"), "", Ensemble,
        "Whether servers may log in to each other with SASL.";
    "quorum.auth.serverRequireSasl", File Bool => quorum_security.server_requires_sasl, Is("false"), "", Ensemble,
        "Whether a server rejects servers that do not log in; needs learnerRequireSasl.";
    "quorum.auth.learnerRequireSasl", File Bool => quorum_security.learner_requires_sasl, Is("false"), "", Ensemble,
        "Whether a learner joins only with SASL; needs enableSasl.";
    "quorum.auth.learner.saslLoginContext", File Text => quorum_security.learner_login_context, Is("QuorumLearner"), "", Ensemble,
        "JAAS section of a learner.";
    "quorum.auth.server.saslLoginContext", File Text => quorum_security.server_login_context, Is("QuorumServer"), "", Ensemble,
        "JAAS section of a server.";
    "quorum.auth.kerberos.servicePrincipal", File Text => quorum_security.kerberos_principal, Is("zkquorum/localhost"), "", Ensemble,
        "Kerberos principal of the servers; `_HOST` stands for the host.";
    "quorum.cnxn.threads.size", File Int => kept, Is("20"), "threads", Ignored("each connection has its own threads"),
        "Threads for election connections.";
    "leaderServes", Property NotNo => quorum_tuning.leader_serves, Is("yes"), "", Acted,
        "Whether the leader accepts clients.";
    "cnxTimeout", Property Int => quorum_tuning.connect_timeout_ms, Is("5000"), "ms", Ensemble,
        "Time to connect to a peer for an election.";
    "quorumCnxnTimeoutMs", Property LooseInt => quorum_tuning.read_timeout_ms, Is("-1"), "ms", Ensemble,
        "Read timeout of election connections; -1 means syncLimit.";
    "electionPortBindRetry", Property LooseInt => quorum_tuning.bind_tries_max, Is("60"), "tries", Ensemble,
        "Attempts to open the election port and the quorum port, a second apart; 0 retries forever. Apache's default is 3.";
    "fastleader.minNotificationInterval", Property LooseInt => quorum_tuning.notification_min_ms, Is("200"), "ms", Ensemble,
        "The shortest time between two votes sent.";
    "fastleader.maxNotificationInterval", Property LooseInt => quorum_tuning.notification_max_ms, Is("60000"), "ms", Ensemble,
        "The longest time between two votes sent.";
    "leader.maxTimeToWaitForEpoch", Property LooseInt => quorum_tuning.epoch_wait_ms, Is("-1"), "ms", NotYetUnless("-1"),
        "How long a new leader waits for its followers' epochs; -1 means initLimit.";
    "leader.maxConcurrentSnapSyncs", Property LooseInt => quorum_tuning.snapshot_syncs_max, Is("10"), "learners", NotYet,
        "Learners that get a snapshot at the same time.";
    "leader.maxConcurrentDiffSyncs", Property LooseInt => quorum_tuning.diff_syncs_max, Is("100"), "learners", NotYet,
        "Learners that get log entries at the same time.";
    "leaderConnectDelayDuringRetryMs", Property LooseInt => quorum_tuning.leader_retry_ms, Is("100"), "ms", Ensemble,
        "Delay between tries to connect to the leader.";
    "observer.reconnectDelayMs", Property LooseLong => quorum_tuning.observer_retry_ms, Is("0"), "ms", NotYetUnless("0"),
        "Delay before an observer connects again.";
    "observer.election.DelayMs", Property LooseLong => quorum_tuning.observer_election_ms, Is("200"), "ms", NotYet,
        "Delay before an observer looks for a leader.";
    "observerMaster.sizeLimit", Property LooseInt => quorum_tuning.observer_master_bytes_max, Is("33554432"), "bytes", Ignored("observers catch up with the same txns as followers, see `commitLogCount`"),
        "Recent proposals that a follower keeps for observers.";
    "commitLogCount", Property LooseDecimal => raw.commit_log_txns, Is("500"), "txns", Ensemble,
        "Committed changes kept in memory for learners, at least 500.";
    "snapshotSizeFactor", Property LooseFloat => raw.snapshot_size_factor, Is("0.33"), "", Ensemble,
        "A learner that lacks more than is kept in memory is sent log files if they are at most this fraction of the tree's size, up to 1, and the whole tree otherwise; a negative value never sends log files.";
    "tcpKeepAlive", Property Flag => quorum_tuning.tcp_keep_alive, Is("false"), "", Ensemble,
        "Whether connections between servers get keep-alive probes.";
    "leader.nodelay", Bare OnlyTrue => quorum_tuning.leader_no_delay, Is("true"), "", Ensemble,
        "Whether a leader sends small packets at once.";
    "follower.nodelay", Bare OnlyTrue => quorum_tuning.follower_no_delay, Is("true"), "", Ensemble,
        "Whether a follower sends small packets at once.";
    "leader.ackLoggingFrequency", Property LooseInt => kept, Is("1000"), "txns", Ignored("there is a metric for it"),
        "How often an ack's latency is logged.";
    "leader.closeSocketAsync", PropertyOrBare Flag => kept, Is("false"), "", Ignored("closing a socket does not block"),
        "Whether a leader closes sockets in another thread.";
    "learner.closeSocketAsync", PropertyOrBare Flag => kept, Is("false"), "", Ignored("closing a socket does not block"),
        "Whether a learner closes sockets in another thread.";
    "learner.asyncSending", PropertyOrBare Flag => kept, Is("false"), "", Ignored("sending does not block"),
        "Whether a learner sends in another thread.";
    "forward_learner_requests_to_commit_processor_disabled", Property Flag => kept, Is("false"), "",
        Ignored("there is no commit processor"), "A shortcut in Apache's leader.";
    "follower.skipLearnerRequestToNextProcessor", Property Flag => kept, Is("false"), "",
        Ignored("there is no commit processor"), "A shortcut in Apache's follower.";
    "forceSnapshotSync", Property Flag => kept, Is("false"), "", Ignored("for Apache's tests"),
        "Whether learners always get a snapshot.";
    "messageTracker.Enabled", Property Flag => kept, Is("false"), "", Ignored("a log level does this"),
        "Whether the last packets of a learner are kept for the log.";
    "messageTracker.BufferSize", Property LooseInt => kept, Is("10"), "packets", Ignored("a log level does this"),
        "How many of them.";
};
