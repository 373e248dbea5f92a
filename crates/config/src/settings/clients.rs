//! Clients: their ports and sessions, and the bounds on what they may take.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ignored};

pub(super) static SETTINGS: &[Setting] = settings! {
    "clientPort", File Port => raw.client_port, Unset, "", Acted,
        "Port for clients.";
    "clientPortAddress", File Text => raw.client_port_address, Derived("all addresses"), "", Acted,
        "Address or host name that the client port listens on.";
    "clientPortListenBacklog", File Int => raw.backlog, Is("-1"), "connections", Acted,
        "How many connections may wait to be accepted; negative leaves it to the system.";
    "secureClientPort", File Port => raw.secure_client_port, Unset, "", Acted,
        "Port for TLS clients.";
    "secureClientPortAddress", File Text => raw.secure_client_port_address, Derived("all addresses"), "", Acted,
        "Address or host name that the TLS client port listens on.";
    "clientTcpKeepAlive", Property Flag => listen.tcp_keep_alive, Is("false"), "", Acted,
        "Whether client connections use TCP keep-alive probes.";
    "nio.sessionlessCnxnTimeout", Property LooseInt => listen.sessionless_timeout_ms, Is("10000"), "ms", Acted,
        "How long a connection may stay open without a session.";
    "tickTime", File Int => raw.tick_ms, Is("3000"), "ms", Acted,
        "The unit of time; session expiry is rounded up to it.";
    "minSessionTimeout", File Int => raw.timeout_min_ms, Derived("2 × tickTime"), "ms", Acted,
        "The shortest session timeout that a client can get.";
    "maxSessionTimeout", File Int => raw.timeout_max_ms, Derived("20 × tickTime"), "ms", Acted,
        "The longest session timeout that a client can get.";
    "closeSessionTxn.enabled", Property Flag => sessions.close_lists_ephemerals, Is("true"), "", Acted,
        "Whether the transaction that ends a session lists the ephemerals it deletes.";
    "herdsman.sessionKeyFile", PropertyOrBare Path => sessions.key_file, Unset, "", Acted,
        "File with a secret of 32 to 4,096 bytes, the same on all servers, from which session passwords are computed; without it they are computed from the session id alone, as in Apache. In a running ensemble, follow the steps in security.md.";
    "herdsman.sessionPasswords", PropertyOrBare Word => sessions.passwords, Derived("keyed-only with a key file"), "", Acted,
        "Which session passwords are issued and accepted: accept-keyed issues Apache's and accepts both, issue-keyed issues keyed ones and accepts both, keyed-only issues and accepts only keyed ones. Needs herdsman.sessionKeyFile.";
    "localSessionsEnabled", File Bool => quorum.local_sessions, Is("false"), "", Acted,
        "Whether new sessions of an ensemble are known to their own server only.";
    "localSessionsUpgradingEnabled", File Bool => quorum.local_sessions_upgrade, Is("false"), "", Acted,
        "Whether a local session becomes a global one when it creates an ephemeral; otherwise the create is rejected.";
};

pub(super) static LIMITS: &[Setting] = settings! {
    "maxClientCnxns", File Int => raw.connections_per_address_max, Is("60"), "connections", Acted,
        "Connections from one address; 0 or less sets no limit.";
    "maxCnxns", Property LooseInt => limits.connections_max, Is("0"), "connections", Acted,
        "Connections in all; 0 sets no limit.";
    "jute.maxbuffer", Bare LooseInt => limits.frame_bytes_max, Is("1048575"), "bytes", Acted,
        "Largest size of a request, and so of the data of a znode.";
    "jute.maxbuffer.extrasize", Property LooseInt => raw.frame_extra_bytes, Derived("jute.maxbuffer"), "bytes", Acted,
        "How much larger than jute.maxbuffer a record from a disk or from another server may be, at least 1024.";
    "globalOutstandingLimit", Property LooseInt => limits.outstanding_max, Is("1000"), "requests", Acted,
        "Requests in flight beyond which connections with requests in flight are not read.";
    "largeRequestThreshold", Property LooseInt => raw.large_request_bytes, Is("-1"), "bytes", Acted,
        "Size from which a request counts as large; -1 is off.";
    "largeRequestMaxBytes", Property LooseInt => raw.large_requests_bytes, Is("104857600"), "bytes", Acted,
        "Limit on the bytes of all large requests in flight; the connection of a request that exceeds it is closed.";
    "herdsman.requestsPerConnectionMax", PropertyOrBare LooseInt => limits.requests_per_connection_max, Is("1024"), "requests", Acted,
        "Requests of one connection in flight beyond which it is not read; 0 sets no limit.";
    "herdsman.requestBytesPerConnectionMax", PropertyOrBare LooseLong => limits.request_bytes_per_connection_max, Is("4194304"), "bytes", Acted,
        "Size of its requests in flight beyond which a connection is not read; 0 sets no limit.";
    "herdsman.requestBytesMax", PropertyOrBare LooseLong => limits.request_bytes_max, Is("268435456"), "bytes", Acted,
        "Size of all requests in flight, and of frames above 64 KiB that are being received, beyond which connections with such requests are not read; 0 sets no limit.";
    "herdsman.replyBytesMax", PropertyOrBare LooseLong => limits.reply_bytes_max, Is("67108864"), "bytes", Acted,
        "Size of a reply to a read; a larger one, such as the names of very many children, is answered with MarshallingError instead. At most 1 GiB; 0 also means 1 GiB.";
    "herdsman.unreadBytesPerConnectionMax", PropertyOrBare LooseLong => limits.unread_bytes_per_connection_max, Is("16777216"), "bytes", Acted,
        "Replies and events that may wait for a client that does not read them; beyond it the connection is closed. 0 sets no limit.";
    "herdsman.unreadBytesMax", PropertyOrBare LooseLong => limits.unread_bytes_max, Is("268435456"), "bytes", Acted,
        "Replies and events that may wait for all clients together; beyond it the connections with the most unread bytes are closed. 0 sets no limit.";
    "herdsman.watchesPerSessionMax", PropertyOrBare LooseInt => limits.watches_per_session_max, Is("0"), "watches", Acted,
        "Watches of one session (a persistent watch that is not recursive counts twice); one more is refused with QuotaExceeded. 0 sets no limit.";
    "throttled_op_wait_time", Property LooseInt => request_throttle.op_wait_ms_max, Is("0"), "ms", Acted,
        "Requests that waited longer are answered with ThrottledOp; 0 is off.";
    "request_throttle_max_requests", Property LooseInt => request_throttle.requests_max, Is("0"), "requests", Acted,
        "Requests in flight beyond which new ones wait; 0 is off.";
    "request_throttle_stall_time", Property LooseInt => kept, Is("100"), "ms",
        Ignored("a connection is read again as soon as there is room, without a waiting time"),
        "How long such a request waits before it tries again.";
    "request_throttle_drop_stale", Property Flag => kept, Is("true"), "",
        Ignored("requests wait unread in their connection, and are dropped with it"),
        "Whether a request that went stale while it waited is dropped.";
    "request_stale_connection_check", Property Flag => kept, Is("true"), "",
        Ignored("requests wait unread in their connection, and are dropped with it"),
        "Whether a request of a closed connection is stale.";
    "request_stale_latency_check", Property Flag => kept, Is("false"), "",
        Ignored("throttled_op_wait_time bounds the wait"),
        "Whether a request older than its session's timeout is stale.";
    "request_throttler.shutdownTimeout", Property LooseInt => kept, Is("10000"), "ms",
        Ignored("at shutdown, unfinished requests are not answered"),
        "How long Apache's throttler may take to finish requests at shutdown.";
    "connection_throttle_tokens", Property LooseInt => connection_throttle.tokens_max, Is("0"), "tokens", Acted,
        "Size of the token bucket that new connections draw from; 0 is off.";
    "connection_throttle_fill_time", Property LooseInt => connection_throttle.fill_ms, Is("1"), "ms", Acted,
        "Time in which the bucket gets connection_throttle_fill_count tokens.";
    "connection_throttle_fill_count", Property LooseInt => connection_throttle.fill_tokens, Is("1"), "tokens", Acted,
        "Tokens that the bucket gets each connection_throttle_fill_time.";
    "connection_throttle_freeze_time", Property LooseInt => connection_throttle.freeze_ms, Is("-1"), "ms", Acted,
        "Time between changes of the probability at which connections are dropped; -1 never drops at random.";
    "connection_throttle_drop_increase", Property Float => connection_throttle.drop_increase, Is("0.02"), "", Acted,
        "Added to that probability when the bucket is empty.";
    "connection_throttle_drop_decrease", Property Float => connection_throttle.drop_decrease, Is("0.002"), "", Acted,
        "Subtracted from that probability when the bucket is full enough.";
    "connection_throttle_decrease_ratio", Property Float => connection_throttle.decrease_ratio, Is("0"), "", Acted,
        "The fraction of the bucket that counts as full enough.";
    "connection_throttle_weight_enabled", Property Flag => connection_throttle.weights, Is("false"), "", Acted,
        "Whether kinds of sessions cost different numbers of tokens.";
    "connection_throttle_global_session_weight", Property LooseInt => raw.global_session_weight, Is("3"), "tokens", Acted,
        "Tokens that a new global session costs.";
    "connection_throttle_renew_session_weight", Property LooseInt => raw.renew_session_weight, Is("2"), "tokens", Acted,
        "Tokens that a resumed session costs.";
    "connection_throttle_local_session_weight", Property LooseInt => raw.local_session_weight, Is("1"), "tokens", Acted,
        "Tokens that a new local session costs.";
};
