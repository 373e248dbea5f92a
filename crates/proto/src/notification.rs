//! The messages of a leader election. The connections that carry them begin with a
//! [`Hello`].
//!
//! In: the first bytes of a connection, then the payloads of frames. Out: values, and bytes again. The rules
//! of counting votes and of opening connections are elsewhere. Apache: `FastLeaderElection.buildMsg` and its
//! `WorkerReceiver`, `QuorumCnxManager.InitialMessage`. Unlike Apache we also ignore a message
//! with an unknown state if its sender has no vote, instead of answering it.

use crate::ids::{ServerId, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::membership::Endpoint;

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerState {
    /// It looks for a leader: LOOKING.
    Looking,
    /// It follows a leader.
    Following,
    /// It is the leader.
    Leading,
    /// It follows a leader without a vote.
    Observing,
}

/// A vote for a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The candidate.
    pub leader: ServerId,
    /// The last zxid of the candidate.
    pub zxid: Zxid,
    /// The epoch that the candidate followed last.
    pub epoch: i64,
}

/// A message of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The state of its sender.
    pub state: ServerState,
    /// The vote of its sender.
    pub vote: Vote,
    /// The election round of its sender.
    pub round: i64,
    /// The membership that it uses, as text; empty from servers before 3.5.
    pub config: String,
}

/// The longest message that servers accept, without the length prefix.
pub const NOTIFICATION_BYTES_MAX: usize = 512 * 1024;

const VERSION: i32 = 2;
/// Servers before 3.4 sent no epoch.
const BYTES_WITHOUT_EPOCH: usize = 28;
/// A message of this size ends with a number without a meaning: its sender knew no version yet, or
/// version 1, which has no membership.
const BYTES_WITHOUT_VERSION: usize = 40;

impl Notification {
    /// Reads the payload of a frame. Ignores bytes after the last field.
    ///
    /// # Errors
    /// The message is malformed and has to be ignored. A frame is complete, so this is also what
    /// [`DecodeError::Truncated`] means here.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = JuteReader::new(payload);
        let state = ServerState::decode(reader.int()?)?;
        let leader = ServerId(reader.long()?);
        let zxid = Zxid(reader.long()?);
        let round = reader.long()?;
        let (epoch, version) = match payload.len() {
            // Signed, as in Java: a server without a vote has the smallest number for a zxid.
            BYTES_WITHOUT_EPOCH => (zxid.0 >> 32, 0),
            BYTES_WITHOUT_VERSION => (reader.long()?, 0),
            _ => (reader.long()?, reader.int()?),
        };
        let config =
            if version >= VERSION { reader.required_string()?.into_owned() } else { String::new() };
        Ok(Notification { state, vote: Vote { leader, zxid, epoch }, round, config })
    }

    /// Appends the payload of a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.state.code());
        out.put_long(self.vote.leader.0);
        out.put_long(self.vote.zxid.0);
        out.put_long(self.round);
        out.put_long(self.vote.epoch);
        out.put_int(VERSION);
        out.put_string(&self.config);
    }
}

impl ServerState {
    fn decode(value: i32) -> Result<Self> {
        match value {
            0 => Ok(ServerState::Looking),
            1 => Ok(ServerState::Following),
            2 => Ok(ServerState::Leading),
            3 => Ok(ServerState::Observing),
            value => Err(DecodeError::Undefined { what: "server state", value }),
        }
    }

    fn code(self) -> i32 {
        match self {
            ServerState::Looking => 0,
            ServerState::Following => 1,
            ServerState::Leading => 2,
            ServerState::Observing => 3,
        }
    }
}

const HELLO_V1: i64 = -65536;
const HELLO_V2: i64 = -65535;
/// The separator of addresses.
const BAR: char = '|';
/// The longest list of addresses in a hello.
pub const HELLO_ADDRESS_BYTES_MAX: usize = 2048;

/// The first message on an election connection, from the side that opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender.
    pub server: ServerId,
    /// `host:port` of its election port, several with `|` between them; empty from old servers.
    pub addresses: String,
}

impl Hello {
    /// The hello of a server with these addresses. Several are only understood by
    /// servers since 3.6; Apache sends them with `multiAddress.enabled` only. An address that would make
    /// the list too long for a receiver is left out.
    #[must_use]
    pub fn new(server: ServerId, endpoints: &[Endpoint]) -> Self {
        let mut addresses = String::new();
        for endpoint in endpoints {
            let address = endpoint.to_string();
            let bar = if addresses.is_empty() { "" } else { "|" };
            if addresses.len() + bar.len() + address.len() <= HELLO_ADDRESS_BYTES_MAX {
                addresses.push_str(bar);
                addresses.push_str(&address);
            }
        }
        Hello { server, addresses }
    }

    /// The addresses for connections to its sender. Wildcard addresses are left out,
    /// because no connection can be opened to them.
    ///
    /// # Errors
    /// Says what is wrong with the addresses; Apache closes the connection then.
    pub fn endpoints(&self) -> std::result::Result<Vec<Endpoint>, String> {
        let addresses = self.addresses.trim_end_matches(BAR);
        let addresses = addresses.split(BAR).filter(|_| !addresses.is_empty());
        let endpoints: std::result::Result<Vec<_>, _> = addresses.map(Endpoint::parse).collect();
        Ok(endpoints?.into_iter().filter(|endpoint| !endpoint.is_wildcard()).collect())
    }

    /// Reads it from the front of a stream and advances the reader; in case of an error the
    /// reader does not move.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is not complete yet: read more and try again, it has few
    /// bytes. Anything else is final.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        let mut ahead = *reader;
        let version = ahead.long()?;
        if version >= 0 {
            *reader = ahead;
            return Ok(Hello { server: ServerId(version), addresses: String::new() });
        }
        if version != HELLO_V1 && version != HELLO_V2 {
            return Err(DecodeError::Undefined {
                what: "election protocol",
                value: version as i32,
            });
        }
        let server = ServerId(ahead.long()?);
        let length = ahead.window(size_of::<i32>()).int()?;
        if !usize::try_from(length)
            .is_ok_and(|bytes| (1..=HELLO_ADDRESS_BYTES_MAX).contains(&bytes))
        {
            return Err(DecodeError::Length(length));
        }
        let addresses = ahead.required_string()?.into_owned();
        *reader = ahead;
        Ok(Hello { server, addresses })
    }

    /// Appends it. Without an address it has the old format, the server's number alone, because
    /// receivers refuse an empty list.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if !self.addresses.is_empty() {
            out.put_long(if self.addresses.contains(BAR) { HELLO_V2 } else { HELLO_V1 });
        }
        out.put_long(self.server.0);
        if !self.addresses.is_empty() {
            out.put_string(&self.addresses);
        }
    }
}
