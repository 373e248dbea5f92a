//! The protection of connections between servers: turns a socket that was accepted or connected into a stream with an
//! authorized peer. Apache: `UnifiedServerSocket`, `QuorumX509Util`.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::membership::{Endpoint, PeerAddress};
use herdsman_proto::{Member, Membership, ServerId};
use herdsman_tls::{CertificateHosts, Peer, TlsContext, looks_like_tls};

use super::address::Dialled;
use super::incoming::Incoming;
use super::login::QuorumSasl;
use super::stream::PeerStream;

/// Protection of the connections between servers.
#[derive(Clone, Debug, Default)]
pub struct QuorumProtection {
    /// TLS, if it is configured.
    pub tls: Option<QuorumTls>,
    /// Logins, if they are configured.
    pub sasl: Option<QuorumSasl>,
    /// TLS is required and there is no key for it: no connections are made. Only the single member of an ensemble may
    /// run like this.
    pub keyless: bool,
}

/// TLS between servers.
#[derive(Clone, Debug)]
pub struct QuorumTls {
    /// Keys and certificates.
    pub context: Arc<TlsContext>,
    /// For connections to other servers (`sslQuorum`).
    pub outgoing: OutgoingProtection,
    /// For connections from other servers (`portUnification`).
    pub incoming: IncomingProtection,
    /// How long a new connection may take to send the first byte, which shows whether it uses TLS.
    pub detection_timeout: Duration,
}

/// How connections to other servers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingProtection {
    /// Without TLS.
    Plain,
    /// With TLS.
    Tls,
}

/// Which connections of other servers are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingProtection {
    /// Only those with TLS.
    Tls,
    /// All, while an ensemble is being switched to TLS.
    Both,
}

impl QuorumProtection {
    /// Does the TLS handshake on an accepted socket, if required, before the deadline `by`.
    pub(super) fn accept(
        &self,
        socket: Arc<TcpStream>,
        from: SocketAddr,
        membership: &Membership,
        by: Instant,
    ) -> io::Result<PeerStream> {
        self.check_key()?;
        let Some(tls) = &self.tls else { return Ok(PeerStream::plain(socket)) };
        match (tls.is_tls(&socket, by)?, tls.incoming) {
            (false, IncomingProtection::Both) => Ok(PeerStream::plain(socket)),
            (false, IncomingProtection::Tls) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it does not use TLS, which sslQuorum=true requires; portUnification=true accepts it",
            )),
            (true, _) => {
                let caller = caller(from, membership);
                let config = tls.context.server_config(&caller).map_err(io::Error::other)?;
                PeerStream::accept(socket, config, by)
            }
        }
    }

    fn check_key(&self) -> io::Result<()> {
        let missing =
            "sslQuorum=true, but this server has no key: set ssl.quorum.keyStore.location";
        if self.keyless { Err(io::Error::other(missing)) } else { Ok(()) }
    }

    /// Lets an incoming connection log in, as one of these members.
    pub(super) fn check_login(
        &self,
        incoming: &mut Incoming,
        members: &Membership,
        by: Instant,
    ) -> io::Result<()> {
        self.sasl.as_ref().map_or(Ok(()), |sasl| sasl.check(incoming, members, by))
    }

    /// Logs in to the peer, which was reached at this host.
    pub(super) fn log_in(
        &self,
        incoming: &mut Incoming,
        host: &str,
        by: Instant,
    ) -> io::Result<()> {
        self.sasl.as_ref().map_or(Ok(()), |sasl| sasl.log_in(incoming, host, by))
    }

    /// Rejects an incoming connection that claims to be a member but has presented a certificate or login for another
    /// host. The claim is accepted if the peer is not a member, has presented nothing, or its host is not verified.
    pub(super) fn check_caller(
        &self,
        stream: &PeerStream,
        id: ServerId,
        membership: &Membership,
    ) -> io::Result<()> {
        let Some(member) = named_member(id, membership) else { return Ok(()) };
        let checks_host = |tls: &QuorumTls| tls.context.checks_client_host();
        if self.tls.as_ref().is_some_and(checks_host) {
            check_certificate(stream, id, member)?;
        }
        match (&self.sasl, stream.login()) {
            (Some(sasl), Some(name)) if !sasl.is_name_of(name, member) => {
                Err(wrong_identity(id, &format!("has logged in as {name}"), member))
            }
            _ => Ok(()),
        }
    }

    /// Does the same for a server to which this one connected as this member, at this host. The host need not be in the
    /// membership: a server announces the address at which it can be reached.
    pub(super) fn check_dialled(
        &self,
        stream: &PeerStream,
        host: &str,
        id: ServerId,
        membership: &Membership,
    ) -> io::Result<()> {
        let Some(member) = named_member(id, membership) else { return Ok(()) };
        let checks_host = |tls: &QuorumTls| tls.context.checks_server_host();
        if self.tls.as_ref().is_some_and(checks_host) {
            check_certificate(stream, id, member)?;
        }
        match &self.sasl {
            Some(sasl) if !sasl.is_host_of(host, member) => {
                Err(wrong_identity(id, &format!("was reached at {host}"), member))
            }
            _ => Ok(()),
        }
    }

    /// Does the TLS handshake on a connected socket, if required.
    pub(super) fn dialled(&self, dialled: Dialled, by: Instant) -> io::Result<PeerStream> {
        self.check_key()?;
        let Dialled { socket, host } = dialled;
        match &self.tls {
            Some(tls) if tls.outgoing == OutgoingProtection::Tls => {
                let peer = Peer::dialled(host, socket.peer_addr()?.ip());
                let config = tls.context.client_config(&peer).map_err(io::Error::other)?;
                PeerStream::connect(socket, config, peer.server_name(), by)
            }
            _ => Ok(PeerStream::plain(socket)),
        }
    }
}

/// The member with this id, unless it is listed with a wildcard address.
fn named_member(id: ServerId, membership: &Membership) -> Option<&Member> {
    let is_wildcard = |address: &PeerAddress| {
        Endpoint { host: Some(address.host.clone()), port: 0 }.is_wildcard()
    };
    let member = membership.members.get(&id);
    member.filter(|member| !member.addresses.iter().any(is_wildcard))
}

/// The certificate must be valid for connections to the member: for one of its
/// hosts, or for one of their addresses. One that names several members is valid for each of them.
fn check_certificate(stream: &PeerStream, id: ServerId, member: &Member) -> io::Result<()> {
    let Some(certificate) = stream.certificate() else { return Ok(()) };
    let hosts = CertificateHosts::of(&certificate).map_err(io::Error::other)?;
    let mut own = member.addresses.iter().map(|address| &address.host);
    if own.clone().any(|host| hosts.include_name(host)) {
        return Ok(());
    }
    let is_at = |host: &String| {
        let addresses = (host.as_str(), 0).to_socket_addrs();
        addresses.is_ok_and(|mut found| found.any(|at| hosts.include_address(at.ip())))
    };
    if own.any(is_at) {
        return Ok(());
    }
    Err(wrong_identity(id, &format!("its certificate is for {hosts}"), member))
}

fn wrong_identity(id: ServerId, shown: &str, member: &Member) -> io::Error {
    let own: Vec<_> = member.addresses.iter().map(|address| address.host.as_str()).collect();
    let problem = format!(
        "it claims to be server {id} ({}), but {shown}; check its myid, and its certificate or principal",
        own.join(", ")
    );
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}

/// The expected peer of an incoming connection: its certificate may name its address or any member's host, because
/// a certificate that names a member is valid from any address.
fn caller(from: SocketAddr, membership: &Membership) -> Peer {
    let addresses = membership.members.values().flat_map(|member| &member.addresses);
    Peer::at(from.ip()).or_any_of(addresses.map(|address| address.host.clone()))
}

impl QuorumTls {
    /// Peeks at the first byte.
    fn is_tls(&self, socket: &TcpStream, by: Instant) -> io::Result<bool> {
        let rest = by.saturating_duration_since(Instant::now()).min(self.detection_timeout);
        socket.set_read_timeout(Some(rest.max(Duration::from_millis(1))))?;
        let mut first = [0; 1];
        match socket.peek(&mut first)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            // No message between servers begins with the first byte of a TLS record.
            _ => Ok(looks_like_tls(&first) != Some(false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What must be encrypted is not sent or taken in the open because there is no key for it.
    #[test]
    fn without_a_key_for_the_tls_that_is_demanded_nobody_gets_in_or_out() {
        let protection = QuorumProtection { keyless: true, ..QuorumProtection::default() };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let caller = TcpStream::connect(address).expect("it listens");
        let (accepted, from) = listener.accept().expect("a peer connects");
        let by = Instant::now() + Duration::from_secs(60);
        let members = Membership::default();
        let refused = protection.accept(Arc::new(accepted), from, &members, by);
        let refused = refused.map(|_| ()).expect_err("a plain connection").to_string();
        assert!(refused.contains("ssl.quorum.keyStore.location"), "{refused}");
        let dialled = Dialled { socket: Arc::new(caller), host: "127.0.0.1".to_owned() };
        assert!(protection.dialled(dialled, by).is_err());
    }
}
