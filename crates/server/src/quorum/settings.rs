//! What the network is told at the start.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use herdsman_proto::limits::CONNECTION_IDS_BYTES_MAX;
use herdsman_proto::{Membership, ServerId};

use super::security::QuorumProtection;
use herdsman_config::{Config, Limits, Mode};

/// A leader that was elected listens soon or never: then it is better to look for another one.
const CONNECT_TRIES_MAX: NonZeroU32 = NonZeroU32::new(10).expect("is not 0");
/// Unsent bytes of one link besides what clients have in flight: a second of a fast disk's log.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Settings of the network.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// This server.
    pub my_id: ServerId,
    /// All servers, this one among them.
    pub membership: Arc<Membership>,
    /// Where followers serve observers, the same port everywhere; `None` if they do not.
    pub observer_master_port: Option<NonZeroU16>,
    /// Whether the ports listen on all addresses, not only on those of the membership.
    pub listen_on_all_addresses: bool,
    /// Tries to open a port, a second apart; `None` tries for ever. A name that has no address yet is
    /// not counted.
    pub bind_tries_max: Option<NonZeroU32>,
    /// Time for one TCP connection to be made, and for one vote to be written.
    pub connect_timeout: Duration,
    /// Time for a new peer on the election port to say who it is, and for TCP to get a vote across.
    pub hello_timeout: Duration,
    /// Time for a learner's first packet, and without any data on a link until
    /// [`set_idle_limit`](super::QuorumNetwork::set_idle_limit).
    pub init_limit: Duration,
    /// Time to connect to the leader, all tries together.
    pub connect_limit: Duration,
    /// Tries to connect to the leader; `None` leaves it to the time. Apache: 5.
    pub connect_tries_max: Option<NonZeroU32>,
    /// Between two tries to connect to the leader.
    pub connect_retry: Duration,
    /// Whether all addresses of this server are told to others. Servers before 3.6 do not understand
    /// more than one.
    pub tell_all_addresses: bool,
    /// Time for one of several addresses before the next one is tried.
    pub address_timeout: Duration,
    /// Whether sockets get keep-alive probes.
    pub tcp_keep_alive: bool,
    /// Whether small packets leave at once on accepted links.
    pub leader_no_delay: bool,
    /// Whether small packets leave at once on the link to the leader.
    pub follower_no_delay: bool,
    /// The longest field of a packet.
    pub field_bytes_max: usize,
    /// Unsent bytes of one link.
    pub queue_bytes_max: usize,
    /// How the connections are protected.
    pub protection: QuorumProtection,
}

impl NetworkSettings {
    /// What a configuration says; `None` if it is not for an ensemble.
    #[must_use]
    pub fn from_config(config: &Config) -> Option<Self> {
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
            address_timeout: if check {
                ms(quorum.multi_address_timeout_ms)
            } else {
                connect_timeout
            },
            tcp_keep_alive: tuning.tcp_keep_alive,
            leader_no_delay: tuning.leader_no_delay,
            follower_no_delay: tuning.follower_no_delay,
            field_bytes_max: config.limits.sizes().link_field_bytes_max(),
            queue_bytes_max: queue_bytes_max(&config.limits),
            protection: QuorumProtection::default(),
        })
    }
}

/// A learner's requests wait here, and a leader's proposals. What clients of one server may have in flight must
/// find room, with their ids: else they could cost a server its link by writing fast. The ids are counted among the
/// bytes of requests; what is added for them is for connections of which each has one request in flight, which
/// wait for no limit.
fn queue_bytes_max(limits: &Limits) -> usize {
    let requests = crate::start::settings::request_bytes_max(limits);
    let ids = u64::from(limits.outstanding_max) * CONNECTION_IDS_BYTES_MAX as u64;
    let from_clients = usize::try_from(requests.saturating_add(ids)).unwrap_or(usize::MAX);
    QUEUE_BYTES_MAX.saturating_add(from_clients)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    const MEMBER: Mode =
        Mode::Ensemble { my_id: ServerId(3), role: herdsman_config::Role::Participant };

    #[test]
    fn limits_that_are_not_set_come_from_others() {
        let mut config = Config::default();
        assert!(NetworkSettings::from_config(&config).is_none());
        config.mode = MEMBER;
        config.sessions.tick_ms = 2000;
        config.quorum.init_limit_ticks = 10;
        config.quorum.sync_limit_ticks = 5;
        let limits = |config: &Config| {
            let settings = NetworkSettings::from_config(config).unwrap();
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
        let queue = |config: &Config| NetworkSettings::from_config(config).unwrap().queue_bytes_max;
        config.limits.request_bytes_max = NonZeroU64::new(256 << 20);
        config.limits.outstanding_max = 1000;
        assert_eq!(queue(&config), (64 << 20) + (256 << 20) + 1000 * 64 * 1024);
        config.limits.request_bytes_max = None;
        assert_eq!(queue(&config), usize::MAX);
    }
}
