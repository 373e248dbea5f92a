//! What operators look through: four-letter words, admin server, metrics, audit; and the names of
//! Apache's own machinery, for which there is nothing here.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ignored, NotYet, NotYetUnless};

pub(super) static SETTINGS: &[Setting] = settings! {
    "4lw.commands.whitelist", Property Text => raw.four_letter_words, Is(""), "", Acted,
        "Four-letter words that are answered, comma-separated; `*` allows all of them, and `srvr` is always answered.";
    "readonlymode.enabled", Bare Flag => raw.read_only_mode, Is("false"), "", Acted,
        "Whether a server without a leader serves reads to clients that accept it, unless it has no data; also allows `isro`.";
    "admin.enableServer", Property NotFalse => admin.enabled, Is("true"), "", Acted,
        "Whether the admin server runs.";
    "admin.serverAddress", Property Text => admin.address, Is("127.0.0.1"), "", Acted,
        "Address it listens on. Apache's default is 0.0.0.0, which the whole network can reach.";
    "admin.serverPort", Property LooseInt => raw.admin_port, Is("8080"), "", Acted,
        "Port it listens on.";
    "admin.idleTimeout", Property LooseInt => admin.idle_timeout_ms, Is("30000"), "ms", Acted,
        "How long one of its connections may be idle.";
    "admin.commandURL", Property Text => admin.command_url, Is("/commands"), "", Acted,
        "Path under which its commands are.";
    "admin.httpVersion", Property LooseInt => kept, Is("11"), "", Ignored("it speaks HTTP/1.1"),
        "HTTP version it speaks.";
    "admin.portUnification", Property Flag => admin.port_unification, Is("false"), "", Acted,
        "Whether its port accepts both HTTP and HTTPS, with the files of ssl.quorum.";
    "admin.forceHttps", Property Flag => admin.https_only, Is("false"), "", Acted,
        "Whether it accepts HTTPS only, with the files of ssl.quorum; plain HTTP is answered with 403.";
    "admin.needClientAuth", Property Flag => admin.client_certificates, Is("false"), "", Acted,
        "Whether HTTPS clients must present a certificate. Without HTTPS the port stays closed.";
    "admin.snapshot.enabled", Property Flag => admin.snapshots, Is("true"), "", Acted,
        "Whether a snapshot can be fetched from it.";
    "admin.restore.enabled", Property Flag => admin.restores, Is("true"), "", Acted,
        "Whether a snapshot can be restored through it.";
    "admin.rateLimiterIntervalInMS", Property LooseInt => admin.rate_limit_ms, Is("300000"), "ms", Acted,
        "The shortest time between two snapshots or restores.";
    "herdsman.admin.writers", PropertyOrBare Word => admin.writers, Is("logged-in"), "", Acted,
        "Who may write through its REST interface and its console: `logged-in`, `anybody` or `nobody`.";
    "herdsman.admin.hostNames", PropertyOrBare Text => admin.host_names, Is(""), "", Acted,
        "Host names under which browsers may use it, comma-separated, besides localhost, addresses and its names in this file.";
    "metricsProvider.className", File Text => metrics.provider, Derived("built in"), "", Acted,
        "Java class that publishes metrics; the Prometheus one opens an HTTP port.";
    "metricsProvider.httpHost", File Text => metrics.http_host, Is("0.0.0.0"), "", Acted,
        "Address of the metrics port.";
    "metricsProvider.httpPort", File Port => metrics.http_port, Unset, "", Acted,
        "Port for metrics over HTTP, 7000 with the Prometheus class; they are on the admin port, too.";
    "metricsProvider.httpsPort", File Port => metrics.https_port, Unset, "", Acted,
        "Port for metrics over HTTPS; without httpPort there is then none over HTTP.";
    "metricsProvider.ssl.keyStore.location", File Path => metrics.key_store, Unset, "", Acted,
        "File of its key and certificate.";
    "metricsProvider.ssl.keyStore.password", File Secret => metrics.key_store_password, Unset, "", Acted,
        "Its password.";
    "metricsProvider.ssl.keyStore.type", File Text => metrics.key_store_kind, Derived("by extension"), "", Acted,
        "PEM, PKCS12 or JKS.";
    "metricsProvider.ssl.trustStore.location", File Path => metrics.trust_store, Unset, "", Acted,
        "File of the trusted certificates for it.";
    "metricsProvider.ssl.trustStore.password", File Secret => metrics.trust_store_password, Unset, "", Acted,
        "Its password.";
    "metricsProvider.ssl.trustStore.type", File Text => metrics.trust_store_kind, Derived("by extension"), "", Acted,
        "PEM, PKCS12 or JKS.";
    "metricsProvider.ssl.enabledProtocols", File Text => metrics.protocols, Derived("all supported"), "", Acted,
        "Protocols that it accepts, comma-separated.";
    "metricsProvider.ssl.ciphersuites", File Text => metrics.cipher_suites, Derived("all supported"), "", Acted,
        "Cipher suites that it accepts, comma-separated.";
    "metricsProvider.ssl.need.client.auth", File Flag => metrics.needs_certificates, Is("true"), "", Acted,
        "Whether its clients must present a certificate.";
    "metricsProvider.ssl.want.client.auth", File Flag => metrics.wants_certificates, Is("true"), "", Acted,
        "Whether its clients are asked for a certificate.";
    "metricsProvider.exportJvmInfo", File Text => kept, Is("true"), "", Ignored("there is no JVM"),
        "Whether metrics of the JVM are published.";
    "metricsProvider.numWorkerThreads", File Text => kept, Is("10"), "threads", Ignored("metrics need no threads"),
        "Threads that compute summaries.";
    "metricsProvider.*", File Secret => kept, Unset, "", NotYet,
        "Further settings of the metrics provider.";
    "audit.enable", Property Flag => logging.audit, Is("false"), "", Acted,
        "Whether an audit log is written: a line for each change, with the client that requested it and the result.";
    "herdsman.auditFile", PropertyOrBare Text => logging.audit_file, Is(""), "", Acted,
        "File to which the audit log is appended; without one it is part of the server's log, under the target `audit`.";
    "audit.impl.class", Property Text => kept, Unset, "", Ignored("Java classes are not loaded"),
        "Java class that writes it.";
    "herdsman.slowRequestMs", PropertyOrBare LooseInt => logging.slow_request_ms, Is("1000"), "ms", Acted,
        "A request that takes longer is logged with the time of each stage; 0 logs none.";
    "pathStats.enabled", Property Flag => kept, Is("false"), "", NotYetUnless("false"),
        "Whether the paths used most are counted.";
    "pathStats.slotCapacity", Property LooseInt => kept, Is("60"), "slots", NotYet,
        "Slots of time that are counted.";
    "pathStats.slotDuration", Property LooseInt => kept, Is("15"), "s", NotYet,
        "Length of a slot.";
    "pathStats.maxDepth", Property LooseInt => kept, Is("6"), "", NotYet,
        "How much of a path is counted.";
    "pathStats.sampleRate", Property Float => kept, Is("0.1"), "", NotYet,
        "What part of the requests is counted.";
    "pathStats.initialDelay", Property LooseLong => kept, Is("5"), "min", NotYet,
        "When the counts are first written to the log.";
    "pathStats.delay", Property LooseLong => kept, Is("5"), "min", NotYet,
        "How often they are written to the log.";
    "pathStats.topPathMax", Property LooseInt => kept, Is("20"), "paths", NotYet,
        "How many paths are written to the log.";
};

const ONE_STACK: &str = "there is one network stack, which chooses its own threads";
const ONE_TABLE: &str = "there is one kind of watch table, and it needs no cleaner";
const NO_JVM: &str = "there is no JVM";
const NO_CACHE: &str = "replies are not cached";
const NO_PROCESSOR: &str = "there is no commit processor";
const LOG: &str = "the log goes to stderr";
const CLIENT: &str = "it is for clients";

pub(super) static WITHOUT_MEANING: &[Setting] = settings! {
    "serverCnxnFactory", Property Text => kept, Derived("NIO"), "", Ignored(ONE_STACK), "Network stack of the server.";
    "nio.numSelectorThreads", Property LooseInt => kept, Derived("√(cores / 2)"), "threads", Ignored(ONE_STACK), "Selector threads.";
    "nio.numWorkerThreads", Property LooseInt => kept, Derived("2 × cores"), "threads", Ignored(ONE_STACK), "Worker threads.";
    "nio.directBufferBytes", Property LooseInt => kept, Is("65536"), "bytes", Ignored(ONE_STACK), "Buffers of the worker threads.";
    "nio.shutdownTimeout", Property LooseLong => kept, Is("5000"), "ms", Ignored(ONE_STACK), "How long threads may take to end.";
    "netty.advancedFlowControl.enabled", Property Flag => kept, Is("false"), "", Ignored(ONE_STACK), "Flow control of the Netty stack.";
    "intBufferStartingSizeBytes", Property LooseInt => kept, Is("1024"), "bytes", Ignored("buffers keep their size"), "First size of a reply's buffer.";
    "commitProcessor.numWorkerThreads", Property LooseInt => kept, Derived("cores"), "threads", Ignored(NO_PROCESSOR), "Threads that answer reads.";
    "commitProcessor.shutdownTimeout", Property LooseLong => kept, Is("5000"), "ms", Ignored(NO_PROCESSOR), "How long they may take to end.";
    "commitProcessor.maxReadBatchSize", Property LooseInt => kept, Is("-1"), "requests", Ignored(NO_PROCESSOR), "Reads between two commits.";
    "commitProcessor.maxCommitBatchSize", Property LooseInt => kept, Is("1"), "requests", Ignored(NO_PROCESSOR), "Commits between two reads.";
    "maxResponseCacheSize", Property LooseInt => kept, Is("400"), "replies", Ignored(NO_CACHE), "Replies to getData kept.";
    "maxGetChildrenResponseCacheSize", Property LooseInt => kept, Is("400"), "replies", Ignored("lists of 4,096 children and more are kept, up to 8"), "Replies to getChildren kept.";
    "watchManagerName", Property Text => kept, Derived("WatchManager"), "", Ignored(ONE_TABLE), "Class of the watch table.";
    "watcherCleanThreadsNum", Property LooseInt => kept, Is("2"), "threads", Ignored(ONE_TABLE), "Threads that clean it.";
    "watcherCleanThreshold", Property LooseInt => kept, Is("1000"), "watchers", Ignored(ONE_TABLE), "Dead watchers that start a cleaning.";
    "watcherCleanIntervalInSeconds", Property LooseInt => kept, Is("600"), "s", Ignored(ONE_TABLE), "Time between cleanings.";
    "maxInProcessingDeadWatchers", Property LooseInt => kept, Is("-1"), "watchers", Ignored(ONE_TABLE), "Dead watchers that hold up closing.";
    "bitHashCacheSize", Property LooseInt => kept, Is("10"), "", Ignored(ONE_TABLE), "Watchers of a path kept as a set.";
    "jvm.pause.monitor", File Bool => kept, Is("false"), "", Ignored(NO_JVM), "Whether garbage collection pauses are reported.";
    "jvm.pause.info-threshold.ms", File Long => kept, Is("1000"), "ms", Ignored(NO_JVM), "Pause that is reported.";
    "jvm.pause.warn-threshold.ms", File Long => kept, Is("10000"), "ms", Ignored(NO_JVM), "Pause that is warned about.";
    "jvm.pause.sleep.time.ms", File Long => kept, Is("500"), "ms", Ignored(NO_JVM), "How often the monitor looks.";
    "jmx.log4j.*", Property Text => kept, Unset, "", Ignored(NO_JVM), "JMX of Apache's logging.";
    "log.*", Property Text => kept, Unset, "", Ignored(LOG), "Where Apache's start script puts the log.";
    "root.logger", Property Text => kept, Unset, "", Ignored(LOG), "Log level of Apache's start script.";
    "console.threshold", Property Text => kept, Unset, "", Ignored(LOG), "Log level of Apache's start script.";
    "tracelog.*", Property Text => kept, Unset, "", Ignored(LOG), "Where Apache's start script puts the trace log.";
    "traceFile", Property Text => kept, Unset, "", Ignored("Apache no longer reads it either"), "Trace of requests in old releases.";
    "client.secure", Property Flag => kept, Unset, "", Ignored(CLIENT), "Whether a client uses TLS.";
    "clientCnxnSocket", Property Text => kept, Unset, "", Ignored(CLIENT), "Network stack of a client.";
    "sasl.client", Property Flag => kept, Unset, "", Ignored(CLIENT), "Whether a client uses SASL.";
    "sasl.client*", Property Text => kept, Unset, "", Ignored(CLIENT), "SASL of a client.";
    "server.principal", Property Text => kept, Unset, "", Ignored(CLIENT), "Principal that a client expects; only as a flag.";
    "server.realm", Property Text => kept, Unset, "", Ignored(CLIENT), "Realm that a client expects; only as a flag.";
    "request.timeout", Property LooseInt => kept, Unset, "ms", Ignored(CLIENT), "How long a client waits for a reply.";
    "disableAutoWatchReset", Property Flag => kept, Unset, "", Ignored(CLIENT), "Whether a client forgets its watches.";
    "shuffleDnsResponse", Property Flag => kept, Unset, "", Ignored(CLIENT), "Whether a client mixes its servers' addresses.";
    "hostProvider.dnsSrvRefreshIntervalSeconds", Property LooseInt => kept, Unset, "s", Ignored(CLIENT), "How often a client looks up its servers.";
};
