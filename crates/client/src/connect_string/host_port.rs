//! One server of a connect string: a host and a port.
//!
//! In: text such as `zk1`, `zk1:2181`, `10.0.0.1:2181`, `[::1]:2181`. Out: a host without brackets
//! and a port that is not 0. A zone (`fe80::1%eth0`) stays part of the host; the resolver of the
//! operating system understands it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::ConnectStringError;

/// A server's host name or IP address, and its client port.
///
/// Two values are equal if they are spelled alike: no name is resolved and no address is normalized.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// The port of a server that is written without one.
    pub const PORT_DEFAULT: u16 = 2181;

    /// Creates a server from its parts. An IPv6 address is given without brackets.
    ///
    /// # Errors
    /// The host is neither a host name nor an address, or the port is 0.
    pub fn new(host: impl Into<String>, port: u16) -> Result<Self, ConnectStringError> {
        let host = host.into();
        let entry = || format!("{host}:{port}");
        if host.is_empty() {
            return Err(ConnectStringError::EmptyHost { entry: entry() });
        }
        if !is_host(&host) {
            return Err(ConnectStringError::InvalidHost { entry: entry(), host });
        }
        if port == 0 {
            return Err(ConnectStringError::InvalidPort { entry: entry(), port: port.to_string() });
        }
        Ok(Self { host, port })
    }

    /// Returns the host name or address; an IPv6 address has no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the client port, which is never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HostPort {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entry = text.trim();
        if let Some(opened) = entry.strip_prefix('[') {
            return parse_bracketed(entry, opened);
        }
        match entry.split_once(':') {
            None => parse_named(entry, entry, None),
            Some((host, port)) if !port.contains(':') => parse_named(entry, host, Some(port)),
            Some(_) => parse_bare_ipv6(entry),
        }
    }
}

impl TryFrom<SocketAddr> for HostPort {
    type Error = ConnectStringError;

    fn try_from(address: SocketAddr) -> Result<Self, Self::Error> {
        let host = match address {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            _ => address.ip().to_string(),
        };
        Self::new(host, address.port())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Parses an entry with at most one colon: a name or an IPv4 address, and perhaps a port.
fn parse_named(
    entry: &str,
    host: &str,
    port: Option<&str>,
) -> Result<HostPort, ConnectStringError> {
    if host.is_empty() {
        return Err(ConnectStringError::EmptyHost { entry: entry.to_owned() });
    }
    if !is_host(host) {
        let (entry, host) = (entry.to_owned(), host.to_owned());
        return Err(ConnectStringError::InvalidHost { entry, host });
    }
    let port = port.map_or(Ok(HostPort::PORT_DEFAULT), |port| checked_port(entry, port))?;
    Ok(HostPort { host: host.to_owned(), port })
}

/// `opened` is the entry without its opening bracket.
fn parse_bracketed(entry: &str, opened: &str) -> Result<HostPort, ConnectStringError> {
    let misplaced = || ConnectStringError::Brackets { entry: entry.to_owned() };
    let (address, after) = opened.split_once(']').ok_or_else(misplaced)?;
    if !is_ipv6(address) {
        return Err(invalid_ipv6(entry, address));
    }
    let port = match after.strip_prefix(':') {
        Some(port) => checked_port(entry, port)?,
        None if after.is_empty() => HostPort::PORT_DEFAULT,
        None => return Err(misplaced()),
    };
    Ok(HostPort { host: address.to_owned(), port })
}

/// The last part of `fe80::1:2181` may be a port or a part of the address, and a wrong guess would
/// connect the client to another machine. So both are tried, and exactly one must be valid.
fn parse_bare_ipv6(entry: &str) -> Result<HostPort, ConnectStringError> {
    let with_port = entry
        .rsplit_once(':')
        .filter(|(address, _)| is_ipv6(address))
        .and_then(|(address, port)| Some((address, read_port(port)?)));
    match (is_ipv6(entry), with_port) {
        (true, None) => Ok(HostPort { host: entry.to_owned(), port: HostPort::PORT_DEFAULT }),
        (false, Some((address, port))) => Ok(HostPort { host: address.to_owned(), port }),
        (true, Some(_)) => Err(ConnectStringError::AmbiguousIpv6 { entry: entry.to_owned() }),
        (false, None) => Err(invalid_ipv6(entry, entry)),
    }
}

fn invalid_ipv6(entry: &str, address: &str) -> ConnectStringError {
    ConnectStringError::InvalidIpv6 { entry: entry.to_owned(), address: address.to_owned() }
}

fn checked_port(entry: &str, port: &str) -> Result<u16, ConnectStringError> {
    read_port(port).ok_or_else(|| ConnectStringError::InvalidPort {
        entry: entry.to_owned(),
        port: port.to_owned(),
    })
}

/// Parses a port of digits only: the standard library would accept a plus sign.
fn read_port(text: &str) -> Option<u16> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits_only && *port != 0)
}

fn is_host(text: &str) -> bool {
    // Resolvers read digits and dots as an address, in surprising ways if it is not complete ("10.1"
    // is 10.0.0.1), so such text must be a complete address.
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) || is_ipv6(text)
}

/// An IPv6 address, with or without a zone.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "none"));
    let zone_is_plain = !zone.is_empty()
        && zone.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    zone_is_plain && address.parse::<Ipv6Addr>().is_ok()
}
