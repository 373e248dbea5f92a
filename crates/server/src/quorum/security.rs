//! How connections between servers are protected: a socket that was accepted or dialled → a stream with a
//! peer at its end that may be there. Apache: `UnifiedServerSocket`, `QuorumX509Util`.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::Membership;
use herdsman_tls::{Peer, TlsContext, looks_like_tls};

use super::address::Dialled;
use super::incoming::Incoming;
use super::login::QuorumSasl;
use super::stream::PeerStream;

/// Protection of the connections between servers.
#[derive(Clone, Debug, Default)]
pub struct QuorumProtection {
    /// TLS, if the ports know it.
    pub tls: Option<QuorumTls>,
    /// Logins, if they are configured.
    pub sasl: Option<QuorumSasl>,
    /// TLS is demanded and there is no key for it: no connection is made. A member without others may run so.
    pub keyless: bool,
}

/// TLS between servers.
#[derive(Clone, Debug)]
pub struct QuorumTls {
    /// Keys and certificates.
    pub context: Arc<TlsContext>,
    /// What is used towards others (`sslQuorum`).
    pub dials: Dials,
    /// What is taken from others (`portUnification`).
    pub accepts: Accepts,
    /// How long a caller has to show what it speaks.
    pub detection_timeout: Duration,
}

/// How others are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dials {
    /// In the open.
    Plain,
    /// With TLS.
    Tls,
}

/// Who is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Those who speak TLS.
    Tls,
    /// All, while an ensemble is on its way to TLS.
    Both,
}

impl QuorumProtection {
    /// Makes a stream of an accepted socket. Waits for the peer, until then.
    pub(super) fn accept(
        &self,
        socket: Arc<TcpStream>,
        from: SocketAddr,
        membership: &Membership,
        by: Instant,
    ) -> io::Result<PeerStream> {
        self.check_key()?;
        let Some(tls) = &self.tls else { return Ok(PeerStream::plain(socket)) };
        match (tls.is_tls(&socket, by)?, tls.accepts) {
            (false, Accepts::Both) => Ok(PeerStream::plain(socket)),
            (false, Accepts::Tls) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it does not speak TLS, which sslQuorum=true asks for; portUnification=true lets it in",
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

    /// Lets a caller log in, as one of these members.
    pub(super) fn check_login(
        &self,
        incoming: &mut Incoming,
        members: &Membership,
        by: Instant,
    ) -> io::Result<()> {
        self.sasl.as_ref().map_or(Ok(()), |sasl| sasl.check(incoming, members, by))
    }

    /// Logs in to the other side, which was dialled at this host.
    pub(super) fn log_in(
        &self,
        incoming: &mut Incoming,
        host: &str,
        by: Instant,
    ) -> io::Result<()> {
        self.sasl.as_ref().map_or(Ok(()), |sasl| sasl.log_in(incoming, host, by))
    }

    /// Makes a stream of a socket that was dialled.
    pub(super) fn dialled(&self, dialled: Dialled, by: Instant) -> io::Result<PeerStream> {
        self.check_key()?;
        let Dialled { socket, host } = dialled;
        match &self.tls {
            Some(tls) if tls.dials == Dials::Tls => {
                let peer = Peer::dialled(host, socket.peer_addr()?.ip());
                let config = tls.context.client_config(&peer).map_err(io::Error::other)?;
                PeerStream::connect(socket, config, peer.server_name(), by)
            }
            _ => Ok(PeerStream::plain(socket)),
        }
    }
}

/// Somebody who may have a certificate for his address, or for the host of any member: a certificate that
/// names a member is a member's, wherever he calls from.
fn caller(from: SocketAddr, membership: &Membership) -> Peer {
    let addresses = membership.members.values().flat_map(|member| &member.addresses);
    Peer::at(from.ip()).or_any_of(addresses.map(|address| address.host.clone()))
}

impl QuorumTls {
    /// Looks at the first byte and leaves it there.
    fn is_tls(&self, socket: &TcpStream, by: Instant) -> io::Result<bool> {
        let rest = by.saturating_duration_since(Instant::now()).min(self.detection_timeout);
        socket.set_read_timeout(Some(rest.max(Duration::from_millis(1))))?;
        let mut first = [0; 1];
        match socket.peek(&mut first)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            // Nothing that servers say begins with a byte that TLS may begin with.
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
        let (accepted, from) = listener.accept().expect("somebody called");
        let by = Instant::now() + Duration::from_secs(60);
        let members = Membership::default();
        let refused = protection.accept(Arc::new(accepted), from, &members, by);
        let refused = refused.map(|_| ()).expect_err("a plain connection").to_string();
        assert!(refused.contains("ssl.quorum.keyStore.location"), "{refused}");
        let dialled = Dialled { socket: Arc::new(caller), host: "127.0.0.1".to_owned() };
        assert!(protection.dialled(dialled, by).is_err());
    }
}
