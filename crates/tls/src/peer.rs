//! Who is at the other end of a connection, as far as the network says.
//!
//! In: an address, and the name under which it was dialled, if it was. Out: what the host rules compare
//! with a certificate ([`crate::hostname`]), and the name that is sent in the TLS hello.

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
    /// A peer of which only the address is known: one that has connected to us.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        // What comes in through a socket for both families may have an IPv4 address in disguise.
        Self { address: address.to_canonical(), name: None, candidates: Vec::new() }
    }

    /// A peer that we have dialled by this host name (or by an address written as text).
    #[must_use]
    pub fn dialled(name: impl Into<String>, address: IpAddr) -> Self {
        Self { name: Some(name.into()), ..Self::at(address) }
    }

    /// The same peer, whose certificate may also be for any of these hosts: one of a group whose members
    /// are known by name, wherever it connects from.
    #[must_use]
    pub fn or_any_of(self, hosts: impl IntoIterator<Item = String>) -> Self {
        Self { candidates: hosts.into_iter().collect(), ..self }
    }

    /// All names for one of which its certificate must be, unless it is for the address.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.candidates).map(String::as_str)
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The name as dialled, or as found by [`reverse_lookup`].
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the name is one for the DNS, and not an address again.
    pub(crate) fn has_host_name(&self) -> bool {
        self.name.as_deref().is_some_and(|name| address_in(name).is_none())
    }

    /// What `rustls::ClientConnection` wants to know. It only decides what the hello says: the
    /// certificate is checked against this peer by the configuration itself.
    #[must_use]
    pub fn server_name(&self) -> ServerName<'static> {
        let name = self.name.as_deref().and_then(|name| ServerName::try_from(name).ok());
        name.map_or_else(|| ServerName::from(self.address), |name| name.to_owned())
    }
}

/// An address that was written where a name is expected; IPv6 perhaps in brackets.
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

/// The peer at this address with the name that the DNS gives it, if that name leads back to the address.
///
/// Whoever owns an address decides which name it claims in the DNS, but not where that name leads; so a
/// claim that is not confirmed is dropped. (Without this, anybody could pass for any host:
/// CVE-2026-24281.) This waits for the DNS: an asynchronous caller gives it a thread where that is
/// allowed.
#[must_use]
pub fn reverse_lookup(address: IpAddr) -> Peer {
    let peer = Peer::at(address);
    let claimed = dns_lookup::lookup_addr(&peer.address).ok();
    let name = claimed.filter(|name| leads_to(name, peer.address));
    Peer { name, ..peer }
}

fn leads_to(name: &str, address: IpAddr) -> bool {
    (name, 0)
        .to_socket_addrs()
        .is_ok_and(|mut found| found.any(|socket| socket.ip().to_canonical() == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_in_disguise_is_seen_through() {
        let peer = Peer::at("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(peer.address().to_string(), "10.0.0.1");
        assert_eq!(peer.to_string(), "10.0.0.1");
    }

    #[test]
    fn the_hello_says_the_name_or_else_the_address() {
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
    fn a_looked_up_name_leads_back() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let peer = reverse_lookup(here);
        assert_eq!(peer.address(), here);
        assert!(peer.name().is_none_or(|name| leads_to(name, here)), "{peer}");
    }

    #[test]
    fn a_name_must_lead_back_to_the_address() {
        assert!(leads_to("127.0.0.1", IpAddr::from([127, 0, 0, 1])));
        assert!(!leads_to("127.0.0.2", IpAddr::from([127, 0, 0, 1])));
        assert!(!leads_to("", IpAddr::from([127, 0, 0, 1])));
    }
}
