//! The settings of the network between servers, from the configuration.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use herdsman_config::{Config, Limits, Mode};
use herdsman_proto::limits::CONNECTION_IDS_BYTES_MAX;
use herdsman_quorum::NetworkSettings;
use herdsman_quorum::security::QuorumProtection;

/// A leader that was elected listens soon or never: after this many attempts, looking for another one is better.
const CONNECT_TRIES_MAX: NonZeroU32 = NonZeroU32::new(10).expect("is not 0");
/// Unsent bytes of one link besides what clients have in flight: a second of a fast disk's log.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The network settings of a configuration; `None` if it is not for an ensemble.
pub(crate) fn network_settings(config: &Config) -> Option<NetworkSettings> {
    let Mode::Ensemble { my_id, .. } = config.mode else {
        return None;
    };
    let (quorum, tuning) = (&config.quorum, &config.quorum_tuning);
    let ms = |ms: u32| Duration::from_millis(u64::from(ms));
    let ticks = |ticks: u32| ms(config.sessions.tick_ms) * ticks;
    let connect_ticks = match quorum.connect_limit_ticks {
        0 => quorum.init_limit_ticks,
        ticks => ticks,
    };
    let connect_timeout = ms(tuning.connect_timeout_ms);
    let check = quorum.multi_address && quorum.multi_address_check;
    Some(NetworkSettings {
        my_id,
        membership: Arc::new(quorum.membership.clone()),
        observer_master_port: quorum.observer_master_port,
        listen_on_all_addresses: quorum.listen_on_all_addresses,
        bind_tries_max: tuning.bind_tries_max,
        connect_timeout,
        hello_timeout: tuning.read_timeout_ms.map_or(ticks(quorum.sync_limit_ticks), ms),
        init_limit: ticks(quorum.init_limit_ticks),
        connect_limit: ticks(connect_ticks),
        connect_tries_max: Some(CONNECT_TRIES_MAX),
        connect_retry: ms(tuning.leader_retry_ms),
        tell_all_addresses: quorum.multi_address,
        address_timeout: if check { ms(quorum.multi_address_timeout_ms) } else { connect_timeout },
        tcp_keep_alive: tuning.tcp_keep_alive,
        leader_no_delay: tuning.leader_no_delay,
        follower_no_delay: tuning.follower_no_delay,
        field_bytes_max: config.limits.sizes().link_field_bytes_max(),
        queue_bytes_max: queue_bytes_max(&config.limits),
        protection: QuorumProtection::default(),
    })
}

/// A learner's requests are queued here, and a leader's proposals. What clients of one server may have in flight must
/// fit, with their ids: otherwise they could make the server lose its link by writing fast. The ids are counted among
/// the bytes of requests; what is added for them is for connections with one request in flight each, which
/// wait for no limit.
fn queue_bytes_max(limits: &Limits) -> usize {
    let requests = super::settings::request_bytes_max(limits);
    let ids = u64::from(limits.outstanding_max) * CONNECTION_IDS_BYTES_MAX as u64;
    let from_clients = usize::try_from(requests.saturating_add(ids)).unwrap_or(usize::MAX);
    QUEUE_BYTES_MAX.saturating_add(from_clients)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use herdsman_proto::ServerId;

    use super::*;

    const MEMBER: Mode =
        Mode::Ensemble { my_id: ServerId(3), role: herdsman_config::Role::Participant };

    #[test]
    fn limits_that_are_not_set_come_from_others() {
        let mut config = Config::default();
        assert!(network_settings(&config).is_none());
        config.mode = MEMBER;
        config.sessions.tick_ms = 2000;
        config.quorum.init_limit_ticks = 10;
        config.quorum.sync_limit_ticks = 5;
        let limits = |config: &Config| {
            let settings = network_settings(config).unwrap();
            [settings.init_limit, settings.connect_limit, settings.hello_timeout]
                .map(|l| l.as_secs())
        };
        assert_eq!(limits(&config), [20, 20, 10]);
        config.quorum.connect_limit_ticks = 4;
        config.quorum_tuning.read_timeout_ms = Some(3000);
        assert_eq!(limits(&config), [20, 8, 3]);
    }

    /// 50 clients that wrote 1 MB each, over and over, cost a follower its link to the leader.
    #[test]
    fn whatever_clients_have_in_flight_finds_room_on_a_link() {
        let mut config = Config { mode: MEMBER, ..Config::default() };
        let queue = |config: &Config| network_settings(config).unwrap().queue_bytes_max;
        config.limits.request_bytes_max = NonZeroU64::new(256 << 20);
        config.limits.outstanding_max = 1000;
        assert_eq!(queue(&config), (64 << 20) + (256 << 20) + 1000 * 64 * 1024);
        config.limits.request_bytes_max = None;
        assert_eq!(queue(&config), usize::MAX);
    }
}
