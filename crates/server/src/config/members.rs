//! The members of an ensemble, as `server.N`, `group.N` and `weight.N` lines name them.
//!
//! In: one line's value. Out: a typed member, or what is wrong with the text. Names are not resolved
//! and files not read here; `ensemble` does the latter. Apache: `QuorumServer`,
//! `QuorumMaj`, `QuorumHierarchical`; we also take the second `;` of 3.10, the TLS client port.

use std::collections::BTreeMap;
use std::fmt;

use super::types::Endpoint;

/// The number of a server: its `myid`, the N of its `server.N` line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub i64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
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
    pub(super) fn parse(word: &str) -> Option<Self> {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Where a leader listens for learners.
    pub quorum_port: u16,
    /// Where elections are held.
    pub election_port: u16,
}

/// One member of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// At least one address; several if the server has several networks.
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
        for server in servers.split('|') {
            let (address, own_role) = parse_server(server.trim())?;
            addresses.push(address);
            match (role, own_role) {
                (Some(one), Some(other)) if one != other => {
                    return Err(format!("is {one} at one address and {other} at another"));
                }
                _ => role = role.or(own_role),
            }
        }
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

/// The members of an ensemble and how they vote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// All members.
    pub members: BTreeMap<ServerId, Member>,
    /// Groups of a hierarchical quorum; empty if a majority of all decides.
    pub groups: BTreeMap<i64, Vec<ServerId>>,
    /// Weights of participants in a hierarchical quorum; 1 where none is set.
    pub weights: BTreeMap<ServerId, i64>,
    /// The zxid of the change that made it; 0 if it was never changed at run time.
    pub version: u64,
}

impl Membership {
    /// The members that vote.
    pub fn participants(&self) -> impl Iterator<Item = (ServerId, &Member)> {
        self.with_role(Role::Participant)
    }

    /// The members that do not vote.
    pub fn observers(&self) -> impl Iterator<Item = (ServerId, &Member)> {
        self.with_role(Role::Observer)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = (ServerId, &Member)> {
        let all = self.members.iter().map(|(id, member)| (*id, member));
        all.filter(move |(_, member)| member.role == role)
    }

    /// Takes a `server.N`, `group.N` or `weight.N` line; `None` if the key is none of these.
    /// Apache takes any key that begins with `group` or `weight` for one of them, and so do we.
    pub(super) fn take_line(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
        if let Some(id) = key.strip_prefix("server.") {
            Some(self.take_server(id, value))
        } else if let Some(rest) = key.strip_prefix("group") {
            Some(self.take_group(rest, value))
        } else {
            key.strip_prefix("weight").map(|rest| self.take_weight(rest, value))
        }
    }

    fn take_server(&mut self, id: &str, value: &str) -> Result<(), String> {
        let id = parse_number(id).ok_or("is not server.<number>")?;
        self.members.insert(ServerId(id), Member::parse(value)?);
        Ok(())
    }

    fn take_group(&mut self, rest: &str, value: &str) -> Result<(), String> {
        let group = rest.strip_prefix('.').and_then(parse_number).ok_or("is not group.<number>")?;
        let ids = value.split(':').map(|id| parse_number(id.trim()).map(ServerId));
        let ids: Option<Vec<_>> = ids.collect();
        let ids = ids.ok_or("is not a list of server numbers such as 1:2:3")?;
        for (other, members) in &self.groups {
            if let Some(id) = ids.iter().find(|id| members.contains(id)) {
                return Err(format!("has server {id}, which is also in group.{other}"));
            }
        }
        self.groups.insert(group, ids);
        Ok(())
    }

    fn take_weight(&mut self, rest: &str, value: &str) -> Result<(), String> {
        let id = rest.strip_prefix('.').and_then(parse_number).ok_or("is not weight.<number>")?;
        let weight = parse_number(value).ok_or("is not a weight such as 1")?;
        self.weights.insert(ServerId(id), weight);
        Ok(())
    }

    /// Checks groups against members and fills in the weights that are not set.
    pub(super) fn complete_groups(&mut self) -> Result<(), String> {
        if self.groups.is_empty() && self.weights.is_empty() {
            return Ok(());
        }
        for (id, member) in &self.members {
            let grouped = self.groups.values().any(|ids| ids.contains(id));
            if member.role == Role::Participant {
                if !grouped {
                    return Err(format!("there are groups, but server.{id} is in none of them"));
                }
                self.weights.entry(*id).or_insert(1);
            }
        }
        for (group, ids) in &self.groups {
            if let Some(id) = ids.iter().find(|id| !self.weights.contains_key(id)) {
                return Err(format!("group.{group} has server {id}, which does not vote"));
            }
        }
        Ok(())
    }
}

fn parse_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number >= 0)
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
    Ok(Some(Endpoint { host: Some(host.to_owned()), port: parse_port(port)? }))
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
    if quorum_port == election_port {
        return Err(format!("uses port {quorum_port} for both the quorum and the election"));
    }
    Ok((PeerAddress { host: host.to_owned(), quorum_port, election_port }, role))
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

#[cfg(test)]
mod tests;
