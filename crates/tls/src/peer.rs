//! The other end of a connection, as known from the network.
//!
//! In: an address, and the host name that was connected to, if any. Out: what the host rules compare with a
//! certificate ([`crate::hostname`]), and the name that is sent in the TLS ClientHello.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};

use rustls::pki_types::ServerName;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    address: IpAddr,
    name: Option<String>,
    /// Hosts any of which it may be.
    candidates: Vec<String>,
}

impl Peer {
    /// A peer known only by its address: one that has connected to us.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        // A dual-stack socket shows IPv4 addresses mapped to IPv6.
        Self { address: address.to_canonical(), name: None, candidates: Vec::new() }
    }

    /// A peer that we connect to by this host name (or by an address in text form).
    #[must_use]
    pub fn dialled(name: impl Into<String>, address: IpAddr) -> Self {
        Self { name: Some(name.into()), ..Self::at(address) }
    }

    /// Allows the certificate to be for any of these hosts as well: for a member of a group whose names are
    /// known, but which may connect from any address.
    #[must_use]
    pub fn or_any_of(self, hosts: impl IntoIterator<Item = String>) -> Self {
        Self { candidates: hosts.into_iter().collect(), ..self }
    }

    /// All names that the certificate may be for, if it is not for the address.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.candidates).map(String::as_str)
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The name it was dialled by, or found by [`reverse_lookup`].
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the name is a DNS name and not an address in text form.
    pub(crate) fn has_host_name(&self) -> bool {
        self.name.as_deref().is_some_and(|name| address_in(name).is_none())
    }

    /// The name to pass to `rustls::ClientConnection`. It only decides what the ClientHello contains: the
    /// configuration itself checks the certificate against this peer.
    #[must_use]
    pub fn server_name(&self) -> ServerName<'static> {
        let name = self.name.as_deref().and_then(|name| ServerName::try_from(name).ok());
        name.map_or_else(|| ServerName::from(self.address), |name| name.to_owned())
    }
}

/// Parses an address where a name is expected; IPv6 may be in brackets.
pub(crate) fn address_in(name: &str) -> Option<IpAddr> {
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    inner.unwrap_or(name).parse().ok().map(|address: IpAddr| address.to_canonical())
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Looks up the name of this address in the DNS and keeps it if it resolves back to the address.
///
/// The owner of an address decides which name the DNS gives for it, but not what that name resolves to, so
/// a name that is not confirmed is dropped. (Otherwise any peer could pass for any host: CVE-2026-24281.)
/// Blocks on the DNS: an asynchronous caller runs it on a thread that may block.
#[must_use]
pub fn reverse_lookup(address: IpAddr) -> Peer {
    let peer = Peer::at(address);
    let claimed = dns_lookup::lookup_addr(&peer.address).ok();
    let name = claimed.filter(|name| resolves_to(name, peer.address));
    Peer { name, ..peer }
}

fn resolves_to(name: &str, address: IpAddr) -> bool {
    (name, 0)
        .to_socket_addrs()
        .is_ok_and(|mut found| found.any(|socket| socket.ip().to_canonical() == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_ipv4_address_is_unmapped() {
        let peer = Peer::at("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(peer.address().to_string(), "10.0.0.1");
        assert_eq!(peer.to_string(), "10.0.0.1");
    }

    #[test]
    fn the_hello_contains_the_name_or_else_the_address() {
        let address = IpAddr::from([10, 0, 0, 1]);
        for (peer, name) in [
            (Peer::dialled("zk1.example.com", address), "zk1.example.com"),
            (Peer::dialled("192.0.2.7", address), "192.0.2.7"),
            (Peer::dialled("no host name!", address), "10.0.0.1"),
            (Peer::at(address), "10.0.0.1"),
        ] {
            assert_eq!(peer.server_name().to_str(), name);
        }
    }

    #[test]
    fn a_looked_up_name_resolves_back() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let peer = reverse_lookup(here);
        assert_eq!(peer.address(), here);
        assert!(peer.name().is_none_or(|name| resolves_to(name, here)), "{peer}");
    }

    #[test]
    fn a_name_must_resolve_back_to_the_address() {
        assert!(resolves_to("127.0.0.1", IpAddr::from([127, 0, 0, 1])));
        assert!(!resolves_to("127.0.0.2", IpAddr::from([127, 0, 0, 1])));
        assert!(!resolves_to("", IpAddr::from([127, 0, 0, 1])));
    }
}
