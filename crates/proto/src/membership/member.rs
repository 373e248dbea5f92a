//! One member of an ensemble: the value of a `server.N` line. Apache: `QuorumServer`; we also take
//! the second `;` of 3.10, the TLS client port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A host and port to listen on or to connect to. Names are not resolved here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address, IPv6 without brackets; `None` means all local addresses.
    pub host: Option<String>,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
}

impl Endpoint {
    /// Parses `host:port`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = host_and_ports(text)?;
        let [host, port] = parts.as_slice() else {
            return Err(format!("has the address {text}, not host:port"));
        };
        if host.is_empty() {
            return Err(format!("has no host in {text}"));
        }
        Ok(Self { host: Some(parse_host(host)?), port: parse_port(port)? })
    }

    /// Whether it means all local addresses, so that it is useless to other servers.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        let address = self.host.as_ref().map(|host| host.parse::<IpAddr>());
        address.is_none_or(|address| address.is_ok_and(|address| address.is_unspecified()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            host => write!(f, "{}:{}", host.unwrap_or("0.0.0.0"), self.port),
        }
    }
}

/// Whether a member votes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It votes.
    #[default]
    Participant,
    /// It follows without a vote.
    Observer,
}

impl Role {
    /// The role that a word names, in any case.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            "participant" => Some(Self::Participant),
            "observer" => Some(Self::Observer),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        })
    }
}

/// One address at which the other servers reach a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Host name or address, IPv6 without brackets and written out in full.
    pub host: String,
    /// Where a leader listens for learners.
    pub quorum_port: u16,
    /// Where elections are held.
    pub election_port: u16,
}

/// One member of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// At least one address; several, sorted, if the server has several networks. Apache keeps
    /// them as a set and writes them by host name.
    pub addresses: Vec<PeerAddress>,
    /// Whether it votes.
    pub role: Role,
    /// Its plain client port, if the line names one.
    pub client: Option<Endpoint>,
    /// Its TLS client port, if the line names one.
    pub secure_client: Option<Endpoint>,
}

impl Member {
    /// Parses the value of a `server.N` line.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';').map(str::trim);
        let servers = parts.next().unwrap_or_default();
        let client = parts.next().map_or(Ok(None), parse_client)?;
        let secure_client = parts.next().map_or(Ok(None), parse_client)?;
        if parts.any(|rest| !rest.is_empty()) {
            return Err("has more than two client addresses after ';'".to_owned());
        }
        let mut addresses = Vec::new();
        let mut role = None;
        // Java drops empty pieces at the end of a list.
        for server in servers.trim_end_matches('|').split('|') {
            let (address, own_role) = parse_server(server.trim())?;
            addresses.push(address);
            match (role, own_role) {
                (Some(one), Some(other)) if one != other => {
                    return Err(format!("is {one} at one address and {other} at another"));
                }
                _ => role = role.or(own_role),
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        Ok(Self { addresses, role: role.unwrap_or_default(), client, secure_client })
    }
}

/// The value of a `server.N` line as Apache writes it.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.addresses.iter().enumerate() {
            let bar = if index == 0 { "" } else { "|" };
            let host = Endpoint { host: Some(address.host.clone()), port: address.quorum_port };
            write!(f, "{bar}{host}:{}", address.election_port)?;
        }
        write!(f, ":{}", self.role)?;
        match (&self.client, &self.secure_client) {
            (None, None) => Ok(()),
            (Some(client), None) => write!(f, ";{client}"),
            (None, Some(secure)) => write!(f, ";;{secure}"),
            (Some(client), Some(secure)) => write!(f, ";{client};{secure}"),
        }
    }
}

/// `host:port` or `port`; nothing for an empty text.
fn parse_client(text: &str) -> Result<Option<Endpoint>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let parts = host_and_ports(text)?;
    let (host, port) = match parts.as_slice() {
        [port] => ("0.0.0.0", port),
        [host, port] => (*host, port),
        _ => return Err(format!("has the client address {text}, not [host:]port")),
    };
    Ok(Some(Endpoint { host: Some(parse_host(host)?), port: parse_port(port)? }))
}

/// `host:quorumPort:electionPort[:role]`.
fn parse_server(text: &str) -> Result<(PeerAddress, Option<Role>), String> {
    const FORM: &str = "is not host:quorumPort:electionPort[:role][;[host:]clientPort]";
    let parts = host_and_ports(text)?;
    let (host, quorum, election, role) = match parts.as_slice() {
        [host, quorum, election] => (*host, quorum, election, None),
        [host, quorum, election, role] => (*host, quorum, election, Some(*role)),
        _ => return Err(FORM.to_owned()),
    };
    let unknown = |role| format!("has the role {role}, not participant or observer");
    let role = match role {
        Some(role) => Some(Role::parse(role).ok_or_else(|| unknown(role))?),
        None => None,
    };
    let (quorum_port, election_port) = (parse_port(quorum)?, parse_port(election)?);
    if host.is_empty() {
        return Err(FORM.to_owned());
    }
    let host = parse_host(host)?;
    if quorum_port == election_port {
        return Err(format!("uses port {quorum_port} for both the quorum and the election"));
    }
    Ok((PeerAddress { host, quorum_port, election_port }, role))
}

/// A host as Java shows it: numbers of IPv6 are written out, so that equal addresses are equal texts.
/// Rejects a host that would not be read back equal from the text of a membership; Java accepts
/// it and fails to resolve it.
fn parse_host(host: &str) -> Result<String, String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "[]\\".contains(c);
    if host.contains(odd) {
        return Err(format!("has the host {host:?}, which is not a host name"));
    }
    let (address, zone) = match host.split_once('%') {
        Some((address, zone)) if zone.parse::<u32>().is_ok() => (address, format!("%{zone}")),
        _ => (host, String::new()),
    };
    let Ok(address) = address.parse::<Ipv6Addr>() else {
        return Ok(host.to_owned());
    };
    if let Some(address) = address.to_ipv4_mapped() {
        return Ok(address.to_string());
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    Ok(format!("{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{g:x}:{h:x}{zone}"))
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| format!("has the port {text}, not one from 0 to 65535"))
}

/// Cuts at colons, except those in brackets around an IPv6 address. Colons at the end do not count,
/// as in Java.
fn host_and_ports(text: &str) -> Result<Vec<&str>, String> {
    let text = text.trim_end_matches(':');
    let Some(bracketed) = text.strip_prefix('[') else {
        return Ok(text.split(':').collect());
    };
    let (host, rest) =
        bracketed.split_once(']').ok_or_else(|| format!("has '[' without ']' in {text}"))?;
    match rest.strip_prefix(':') {
        Some(ports) if !ports.is_empty() => {
            Ok([host].into_iter().chain(ports.split(':')).collect())
        }
        _ => Err(format!("has no port after ']' in {text}")),
    }
}
