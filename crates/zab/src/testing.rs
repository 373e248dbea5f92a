//! A server's state for unit tests of single roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::{Membership, ServerId, Zxid};

use crate::history::HistoryLimits;
use crate::leader::checks::Check;
use crate::log::{Log, LogStorage};
use crate::memberships::Memberships;
use crate::replica::{Epochs, Replica, Voting};
use crate::settings::{ObserverMasters, Reconfig, ZabSettings};

const HISTORY: HistoryLimits = HistoryLimits { txns_max: 10, bytes_max: 1000 };

/// The txn of an epoch with this number.
pub fn zxid(epoch: u32, counter: i64) -> Zxid {
    Zxid(Zxid::start_of(epoch).0 | counter)
}

/// Server 1 of three voters and an observer, in an epoch that it follows, with a log that starts after `base` and holds
/// `txns`.
pub fn replica(epoch: u32, base: Zxid, txns: &[Zxid]) -> Replica {
    let text = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2:observer\nversion=5";
    let membership = Arc::new(Membership::parse_text(text).unwrap());
    let tail = txns.iter().map(|zxid| (*zxid, Bytes::from_static(b"txn"))).collect();
    Replica {
        memberships: Memberships::new(ServerId(1), Reconfig::Disabled, membership),
        log: Log::new(LogStorage::OnDisk, HISTORY, base, tail),
        epochs: Epochs { current: epoch, accepted: epoch },
        promise_owed_to: None,
        promised_by_voters: 0,
        claims: BTreeMap::new(),
        outbid_ms: None,
        last_check: Check::default(),
        voting: Voting::Allowed,
        start_over: false,
        started_empty: false,
        settings: ZabSettings {
            me: ServerId(1),
            tick_ms: 100,
            init_limit_ticks: 5,
            sync_limit_ticks: 2,
            finalize_wait_ms: 1,
            notification_min_ms: 1,
            notification_max_ms: 1,
            log_storage: LogStorage::OnDisk,
            history: HISTORY,
            parked_bytes_max: 1000,
            reconfig: Reconfig::Disabled,
            observer_masters: ObserverMasters::On { seed: 0 },
            mistake: None,
        },
    }
}
