//! Settings of the network between servers.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use herdsman_proto::{Membership, ServerId};

use super::security::QuorumProtection;

/// Settings of the network.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// The id of this server.
    pub my_id: ServerId,
    /// All servers, including this one.
    pub membership: Arc<Membership>,
    /// The port on which followers serve observers, the same on all servers; `None` if they do not.
    pub observer_master_port: Option<NonZeroU16>,
    /// Whether the ports listen on all addresses, not only on those of the membership.
    pub listen_on_all_addresses: bool,
    /// Attempts to open a port, a second apart; `None` retries forever. A name that does not resolve yet is
    /// not counted.
    pub bind_tries_max: Option<NonZeroU32>,
    /// Timeout of one TCP connection attempt, and of writing one vote.
    pub connect_timeout: Duration,
    /// Timeout of the hello on the election port, and TCP user timeout for votes.
    pub hello_timeout: Duration,
    /// Timeout of a learner's first packet, and the idle limit of a link until
    /// [`set_idle_limit`](super::QuorumNetwork::set_idle_limit).
    pub init_limit: Duration,
    /// Time limit for connecting to the leader, all attempts together.
    pub connect_limit: Duration,
    /// Attempts to connect to the leader; `None` means that only the time limits them. Apache: 5.
    pub connect_tries_max: Option<NonZeroU32>,
    /// Pause between two attempts to connect to the leader.
    pub connect_retry: Duration,
    /// Whether all addresses of this server are sent to other servers. Servers before 3.6 do not understand
    /// more than one.
    pub tell_all_addresses: bool,
    /// Time limit for one of several addresses before the next one is tried.
    pub address_timeout: Duration,
    /// Whether sockets use keep-alive probes.
    pub tcp_keep_alive: bool,
    /// Whether Nagle's algorithm is disabled on accepted links.
    pub leader_no_delay: bool,
    /// Whether Nagle's algorithm is disabled on the link to the leader.
    pub follower_no_delay: bool,
    /// Limit for a field of a packet.
    pub field_bytes_max: usize,
    /// Limit for unsent bytes of one link.
    pub queue_bytes_max: usize,
    /// TLS and logins of the connections.
    pub protection: QuorumProtection,
}
