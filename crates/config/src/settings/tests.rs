//! The table is complete, consistent, and what docs/operating.md shows.

use super::*;
use crate::setting::{Initial, Shape};
use crate::settings_markdown;

/// Every name that Apache 3.9 documents or reads on a server, by area.
const APACHE: &[&str] = &[
    "dataDir dataLogDir clientPort clientPortAddress secureClientPort secureClientPortAddress \
     clientPortListenBacklog observerMasterPort tickTime initLimit syncLimit \
     connectToLearnerMasterLimit minSessionTimeout maxSessionTimeout maxClientCnxns \
     localSessionsEnabled localSessionsUpgradingEnabled electionAlg quorumListenOnAllIPs peerType \
     syncEnabled dynamicConfigFile autopurge.snapRetainCount autopurge.purgeInterval \
     standaloneEnabled reconfigEnabled sslQuorum portUnification sslQuorumReloadCertFiles server.1 \
     group.1 weight.1 quorum.auth.enableSasl quorum.auth.serverRequireSasl \
     quorum.auth.learnerRequireSasl quorum.auth.learner.saslLoginContext \
     quorum.auth.server.saslLoginContext quorum.auth.kerberos.servicePrincipal \
     quorum.cnxn.threads.size jvm.pause.monitor jvm.pause.info-threshold.ms \
     jvm.pause.warn-threshold.ms jvm.pause.sleep.time.ms metricsProvider.className \
     metricsProvider.httpHost metricsProvider.httpPort metricsProvider.httpsPort \
     metricsProvider.exportJvmInfo metricsProvider.numWorkerThreads \
     metricsProvider.ssl.keyStore.location multiAddress.enabled \
     multiAddress.reachabilityCheckTimeoutMs multiAddress.reachabilityCheckEnabled oraclePath",
    "preAllocSize snapCount snapSizeLimitInKb txnLogSizeLimitInKb commitLogCount snapshotSizeFactor \
     forceSync fsync.warningthresholdms flushDelay maxWriteQueuePollTime maxBatchSize \
     snapshot.compression.method snapshot.trust.empty digest.enabled \
     serializeLastProcessedZxid.enabled closeSessionTxn.enabled datadir.autocreate db.autocreate",
    "globalOutstandingLimit maxCnxns maxResponseCacheSize maxGetChildrenResponseCacheSize \
     largeRequestMaxBytes largeRequestThreshold throttled_op_wait_time request_throttle_max_requests \
     request_throttle_stall_time request_throttle_drop_stale request_stale_latency_check \
     request_stale_connection_check request_throttler.shutdownTimeout connection_throttle_tokens \
     connection_throttle_fill_time connection_throttle_fill_count connection_throttle_freeze_time \
     connection_throttle_drop_increase connection_throttle_drop_decrease \
     connection_throttle_decrease_ratio connection_throttle_weight_enabled \
     connection_throttle_global_session_weight connection_throttle_renew_session_weight \
     connection_throttle_local_session_weight jute.maxbuffer.extrasize intBufferStartingSizeBytes \
     enforceQuota extendedTypesEnabled emulate353TTLNodes enableEagerACLCheck skipACL",
    "watchManagerName watcherCleanThreadsNum watcherCleanThreshold watcherCleanIntervalInSeconds \
     maxInProcessingDeadWatchers bitHashCacheSize serverCnxnFactory nio.numSelectorThreads \
     nio.numWorkerThreads nio.directBufferBytes nio.sessionlessCnxnTimeout nio.shutdownTimeout \
     clientTcpKeepAlive tcpKeepAlive commitProcessor.numWorkerThreads \
     commitProcessor.shutdownTimeout commitProcessor.maxReadBatchSize \
     commitProcessor.maxCommitBatchSize netty.advancedFlowControl.enabled \
     netty.server.outstandingHandshake.limit netty.server.earlyDropSecureConnectionHandshakes \
     client.portUnification client.certReload",
    "leaderServes cnxTimeout quorumCnxnTimeoutMs electionPortBindRetry \
     fastleader.minNotificationInterval fastleader.maxNotificationInterval \
     leader.maxTimeToWaitForEpoch leader.maxConcurrentSnapSyncs leader.maxConcurrentDiffSyncs \
     leader.ackLoggingFrequency leader.closeSocketAsync learner.closeSocketAsync \
     learner.asyncSending leaderConnectDelayDuringRetryMs observer.reconnectDelayMs \
     observer.election.DelayMs observer.syncEnabled observerMaster.sizeLimit \
     forward_learner_requests_to_commit_processor_disabled \
     follower.skipLearnerRequestToNextProcessor forceSnapshotSync messageTracker.Enabled \
     messageTracker.BufferSize kerberos.canonicalizeHostNames",
    "authProvider.1 authProvider.sasl DigestAuthenticationProvider.enabled \
     DigestAuthenticationProvider.superDigest DigestAuthenticationProvider.digestAlg \
     X509AuthenticationProvider.superUser superUser superUser.2 \
     SASLAuthenticationProvider.superPassword letAnySaslUserDoX allowSaslFailedClients \
     sessionRequireClientSASLAuth enforce.auth.enabled enforce.auth.schemes ensembleAuthName \
     IPAuthenticationProvider.usexforwardedfor sasl.serverconfig kerberos.removeHostFromPrincipal \
     kerberos.removeRealmFromPrincipal security.auth_to_local fips-mode \
     java.security.auth.login.config",
    "4lw.commands.whitelist admin.enableServer admin.serverAddress admin.serverPort \
     admin.idleTimeout admin.commandURL admin.httpVersion admin.portUnification admin.forceHttps \
     admin.needClientAuth admin.snapshot.enabled admin.restore.enabled \
     admin.rateLimiterIntervalInMS audit.enable audit.impl.class pathStats.enabled \
     pathStats.slotCapacity pathStats.slotDuration pathStats.maxDepth pathStats.sampleRate \
     pathStats.initialDelay pathStats.delay pathStats.topPathMax jmx.log4j.disable jmx.log4j.mbean \
     readonlymode.enabled znode.container.checkIntervalMs znode.container.maxPerMinute \
     znode.container.maxNeverUsedIntervalMs leader.nodelay follower.nodelay jute.maxbuffer",
    "client.secure clientCnxnSocket sasl.client sasl.client.username sasl.clientconfig \
     server.principal server.realm request.timeout disableAutoWatchReset shuffleDnsResponse \
     hostProvider.dnsSrvRefreshIntervalSeconds ssl.authProvider ssl.sslProvider",
];

const TLS: &str = "protocol enabledProtocols ciphersuites keyStore.location keyStore.password \
                   keyStore.passwordPath keyStore.type trustStore.location trustStore.password \
                   trustStore.passwordPath trustStore.type context.supplier.class \
                   hostnameVerification clientHostnameVerification allowReverseDnsLookup crl ocsp \
                   clientAuth handshakeDetectionTimeoutMillis";

#[test]
fn every_name_of_apache_has_a_row() {
    for key in APACHE.iter().flat_map(|names| names.split_whitespace()) {
        assert!(by_key(key).is_some(), "{key}");
    }
    for name in TLS.split_whitespace() {
        for prefix in ["ssl.", "ssl.quorum."] {
            assert!(by_key(&format!("{prefix}{name}")).is_some(), "{prefix}{name}");
        }
    }
}

#[test]
fn rows_are_consistent() {
    let mut seen = std::collections::BTreeSet::new();
    for row in all() {
        let key = row.key;
        assert!(seen.insert(key), "{key} has two rows");
        assert!(row.about.ends_with('.'), "{key}: a sentence ends with a full stop");
        assert!(row.about.matches(". ").count() <= 2, "{key}: one sentence, or few");
        if let Initial::Is(text) = row.initial {
            assert!(
                row.shape.read(text).is_ok_and(|reading| reading.odd.is_none()),
                "{key}={text}"
            );
        }
        let hidden = key.to_lowercase().ends_with("password") || key.contains("superDigest");
        assert!(!hidden || row.shape == Shape::Secret, "{key} must be hidden");
    }
}

#[test]
fn system_properties_find_their_rows() {
    let check = |name: &str, key: Option<&str>| {
        assert_eq!(by_property(name).map(|(row, _)| row.key), key, "{name}");
    };
    check("zookeeper.snapCount", Some("snapCount"));
    check("snapCount", None);
    check("jute.maxbuffer", Some("jute.maxbuffer"));
    check("zookeeper.jute.maxbuffer", None);
    check("zookeeper.fsync.warningthresholdms", Some("fsync.warningthresholdms"));
    check("fsync.warningthresholdms", Some("fsync.warningthresholdms"));
    check("zookeeper.tickTime", None);
    check("zookeeper.authProvider.sasl", Some("authProvider.*"));
    check("zookeeper.server.principal", Some("server.principal"));
    check("com.sun.management.jmxremote", None);
}

#[test]
fn likely_slips_are_recognised() {
    let check = |key: &str, meant: Option<&str>| assert_eq!(nearest(key), meant, "{key}");
    check("datadir", Some("dataDir"));
    check("tickTme", Some("tickTime"));
    check("maxClientConnxns", Some("maxClientCnxns"));
    check("autopurge.purgeIntervall", Some("autopurge.purgeInterval"));
    check("4lw.command.whitelist", Some("4lw.commands.whitelist"));
    check("kafka.foo", None);
    check("x", None);
}

/// Set UPDATE_DOCS=1 to write the table into the file instead of comparing.
#[test]
fn the_operators_page_has_the_table() {
    const BEGIN: &str =
        "<!-- settings: generated from the table in crates/config/src/settings -->\n\n";
    const END: &str = "\n\n<!-- end of settings -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
    let page = std::fs::read_to_string(path).expect("docs/operating.md can be read");
    let (before, rest) =
        page.split_once(BEGIN).expect("the page has the mark where the table begins");
    let (table, after) = rest.split_once(END).expect("the page has the mark where the table ends");
    let fresh = settings_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{before}{BEGIN}{fresh}{END}{after}");
        std::fs::write(path, page).expect("docs/operating.md can be written");
        return;
    }
    assert!(
        table == fresh,
        "docs/operating.md is behind the table; run the tests with UPDATE_DOCS=1"
    );
}
