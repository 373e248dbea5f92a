//! What the network is told at the start.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use herdsman_proto::{Membership, ServerId};

use super::security::QuorumProtection;

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
