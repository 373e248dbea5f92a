//! SASL logins of servers to each other, before anything else is sent on a learner port, and
//! after the hello on the election port. Apache: `SaslQuorumAuthServer`, `SaslQuorumAuthLearner`.

use std::io;
use std::time::{Duration, Instant};

use herdsman_proto::quorum_auth::{self, AuthStatus, QuorumAuthPacket};
use herdsman_proto::{DecodeError, JuteReader, Member, Membership};
use herdsman_sasl::{Accepted, ClientStep, SaslError, ServerStep};
use tracing::{debug, warn};

use super::incoming::{Fill, Incoming};
use crate::logins::{MemberLogins, OwnLogin};

/// The minimum socket timeout.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Logins between servers.
#[derive(Clone, Debug)]
pub struct QuorumSasl {
    /// How other servers log in here.
    pub logins: MemberLogins,
    /// How this server logs in to other servers.
    pub own: OwnLogin,
    /// Servers that do not log in are rejected (`quorum.auth.serverRequireSasl`).
    pub required_here: bool,
    /// This server logs in to others (`quorum.auth.learnerRequireSasl`).
    pub done_there: bool,
}

impl QuorumSasl {
    /// Handles the login of another server, which may also choose not to log in.
    pub(super) fn check(
        &self,
        incoming: &mut Incoming,
        members: &Membership,
        by: Instant,
    ) -> io::Result<()> {
        match self.receive_login(incoming, members, by) {
            Ok(()) => Ok(()),
            Err(error) if self.required_here => Err(error),
            // While an ensemble is being switched to logins, servers without one are accepted.
            Err(error) => {
                debug!("accepted a server that did not log in: {error}");
                Ok(())
            }
        }
    }

    fn receive_login(
        &self,
        incoming: &mut Incoming,
        members: &Membership,
        by: Instant,
    ) -> io::Result<()> {
        while incoming.bytes().len() < quorum_auth::MAGIC.len() {
            fill(incoming, by)?;
        }
        if !incoming.bytes().starts_with(&quorum_auth::MAGIC) {
            let problem = "it did not log in, which quorum.auth.serverRequireSasl=true requires";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        let mut login = self.logins.begin(members).map_err(io::Error::other)?;
        loop {
            let (_, token) = receive(incoming, by)?;
            match login.step(&token) {
                Ok(ServerStep::Challenge(token)) => send(incoming, AuthStatus::InProgress, &token)?,
                Ok(ServerStep::Accepted(Accepted { id, token })) => {
                    debug!("a server has logged in as {id}");
                    incoming.stream().set_login(id.into_string());
                    return send(incoming, AuthStatus::Success, &token);
                }
                Err(error) => {
                    send(incoming, AuthStatus::Error, &[])?;
                    return Err(refused(&error));
                }
            }
        }
    }

    /// Whether a server that has logged in under this name may be that member.
    pub(super) fn is_name_of(&self, name: &str, member: &Member) -> bool {
        self.logins.is_name_of(name, member)
    }

    /// Whether a server that was reached at this host, and has proven to be there, may be that member.
    pub(super) fn is_host_of(&self, host: &str, member: &Member) -> bool {
        !self.done_there || self.own.is_host_of(host, member)
    }

    /// Logs in to the peer, which was reached at this host, if so configured. With Kerberos this
    /// may wait for servers of the realm, as long as `krb5.conf` says; each call has its own thread.
    pub(super) fn log_in(
        &self,
        incoming: &mut Incoming,
        host: &str,
        by: Instant,
    ) -> io::Result<()> {
        if !self.done_there {
            return Ok(());
        }
        let mut login = self.own.begin(host).map_err(io::Error::other)?;
        let opening = login.open().map_err(|error| refused(&error))?;
        send(incoming, AuthStatus::InProgress, &opening)?;
        loop {
            let (status, token) = receive(incoming, by)?;
            if status == AuthStatus::Error {
                warn!("the peer rejected this server's login; see its log");
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it rejected the login of this server",
                ));
            }
            match login.step(&token).map_err(|error| refused(&error))? {
                ClientStep::Response(token) => send(incoming, AuthStatus::InProgress, &token)?,
                ClientStep::Accepted if status == AuthStatus::Success => return Ok(()),
                ClientStep::Accepted => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the peer ended the login without a success status",
                    ));
                }
            }
        }
    }
}

fn refused(error: &SaslError) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("the login failed: {error}"))
}

fn send(incoming: &Incoming, status: AuthStatus, token: &[u8]) -> io::Result<()> {
    let mut packet = Vec::new();
    QuorumAuthPacket { status, token }.encode(&mut packet);
    incoming.stream().write_all(&packet)
}

/// Waits for a packet.
fn receive(incoming: &mut Incoming, by: Instant) -> io::Result<(AuthStatus, Vec<u8>)> {
    loop {
        let bytes = incoming.bytes();
        let mut reader = JuteReader::new(bytes);
        match QuorumAuthPacket::decode(&mut reader) {
            Ok(packet) => {
                let received = (packet.status, packet.token.to_vec());
                let packet_bytes = bytes.len() - reader.rest().len();
                incoming.consume(packet_bytes);
                return Ok(received);
            }
            Err(DecodeError::Truncated { .. }) => fill(incoming, by)?,
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}

fn fill(incoming: &mut Incoming, by: Instant) -> io::Result<()> {
    let rest = by.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for the login"));
    }
    match incoming.fill(Some(rest.max(MILLISECOND)))? {
        Fill::End => Err(io::ErrorKind::UnexpectedEof.into()),
        Fill::Bytes | Fill::Nothing => Ok(()),
    }
}
