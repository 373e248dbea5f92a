//! The members of an ensemble, from `server.N`, `group.N` and `weight.N` lines.
//!
//! In: lines of a file, or the text that servers exchange and keep in `/zookeeper/config`.
//! Out: typed members, or an error; and the text again. Names are not resolved
//! and files not read here, and no quorum is counted. Apache: `QuorumMaj`, `QuorumHierarchical`, whose
//! `toString` is the text; their lines are in the order of a hash map, ours are sorted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::ServerId;

mod member;

pub use member::{Endpoint, Member, PeerAddress, Role};

/// The longest text of a membership that is read. It has room for hundreds of servers, and bounds
/// the work that an unauthenticated peer on the election port can cause.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The members of an ensemble and how they vote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// All members.
    pub members: BTreeMap<ServerId, Member>,
    /// Groups of a hierarchical quorum, sorted; empty for a majority quorum. A server is in one
    /// at most.
    pub groups: BTreeMap<i64, Vec<ServerId>>,
    /// Weights in a hierarchical quorum. Every participant has one if there are groups; their sum fits.
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

    /// The numbers of the members that vote.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.participants().map(|(id, _)| id)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = (ServerId, &Member)> {
        let all = self.members.iter().map(|(id, member)| (*id, member));
        all.filter(move |(_, member)| member.role == role)
    }

    /// Adds a `server.N`, `group.N` or `weight.N` line; `None` if the key is none of these.
    /// Apache reads any key that begins with `group` or `weight` as one of them, and so do we.
    ///
    /// # Errors
    /// Says what is wrong with the line, to be appended to its text.
    pub fn take_line(&mut self, key: &str, value: &str) -> Option<Result<(), String>> {
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
        match self.members.insert(ServerId(id), Member::parse(value)?) {
            Some(_) => Err(format!("is server.{id} a second time")),
            None => Ok(()),
        }
    }

    fn take_group(&mut self, rest: &str, value: &str) -> Result<(), String> {
        let group = rest.strip_prefix('.').and_then(parse_number).ok_or("is not group.<number>")?;
        // Java drops empty pieces at the end of a list.
        let ids = value.trim_end_matches(':').split(':');
        let ids: Option<Vec<_>> = ids.map(|id| parse_number(id.trim()).map(ServerId)).collect();
        let mut ids = ids.ok_or("is not a list of server numbers such as 1:2:3")?;
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("has server {} twice", pair[0]));
        }
        for (other, members) in &self.groups {
            if let Some(id) = members.iter().find(|id| ids.binary_search(id).is_ok()) {
                return Err(format!("has server {id}, which is also in group.{other}"));
            }
        }
        match self.groups.insert(group, ids) {
            Some(_) => Err(format!("is group.{group} a second time")),
            None => Ok(()),
        }
    }

    fn take_weight(&mut self, rest: &str, value: &str) -> Result<(), String> {
        let id = rest.strip_prefix('.').and_then(parse_number).ok_or("is not weight.<number>")?;
        let weight = parse_number(value).ok_or("is not a weight such as 1")?;
        match self.weights.insert(ServerId(id), weight) {
            Some(_) => Err(format!("is weight.{id} a second time")),
            None => Ok(()),
        }
    }

    /// Checks groups against members and sets default weights. To be called when
    /// all lines are added.
    ///
    /// # Errors
    /// Says what is wrong between the lines.
    pub fn complete_groups(&mut self) -> Result<(), String> {
        if self.groups.is_empty() && self.weights.is_empty() {
            return Ok(());
        }
        let grouped: BTreeSet<_> = self.groups.values().flatten().copied().collect();
        let voters: Vec<_> = self.voters().collect();
        for id in voters {
            if !grouped.contains(&id) {
                return Err(format!("there are groups, but server.{id} is in none of them"));
            }
            self.weights.entry(id).or_insert(1);
        }
        for (group, ids) in &self.groups {
            if let Some(id) = ids.iter().find(|id| !self.weights.contains_key(id)) {
                return Err(format!("group.{group} has server {id}, which does not vote"));
            }
        }
        // Then code that counts votes can add up weights without overflow checks.
        let mut weights = self.weights.values();
        if weights.try_fold(0_i64, |sum, weight| sum.checked_add(*weight)).is_none() {
            return Err("the weights are too large to be added up".to_owned());
        }
        Ok(())
    }

    /// Reads the text that [`to_text`](Self::to_text) writes, its lines in any order. Without a
    /// `version` line the version is 0. There must be a voter: servers of the 3.4 era send no text
    /// at all, which the caller has to check before.
    ///
    /// Apache reads it as a properties file, with escapes and continued lines. No server writes such
    /// a text, so they are not supported here.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse_text(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("is longer than {TEXT_BYTES_MAX} bytes"));
        }
        // Of equal keys the last one counts, as in a properties file.
        let mut lines = BTreeMap::new();
        for line in text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) =
                line.split_once('=').ok_or_else(|| format!("{line} is not key=value"))?;
            lines.insert(key.trim_end(), value.trim_start());
        }
        let mut membership = Membership::default();
        for (key, value) in lines {
            let outcome = match membership.take_line(key, value) {
                Some(outcome) => outcome,
                None if key == "version" => membership.take_version(value),
                None => Err("is not about a server, a group, a weight or a version".to_owned()),
            };
            outcome.map_err(|problem| format!("{key}={value} {problem}"))?;
        }
        if membership.voters().next().is_none() {
            return Err("names no server that votes".to_owned());
        }
        membership.complete_groups()?;
        Ok(membership)
    }

    fn take_version(&mut self, value: &str) -> Result<(), String> {
        // A long in Java.
        let version = u64::from_str_radix(value, 16).ok().filter(|v| i64::try_from(*v).is_ok());
        self.version = version.ok_or("is not a hexadecimal number")?;
        Ok(())
    }

    /// The text that servers exchange and keep in `/zookeeper/config`. A client address that a
    /// server took from its own `clientPort` is not part of its [`Member`], and so not of the text. A
    /// TLS client port is, and only servers since 3.10 understand that.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

/// See [`Membership::to_text`].
impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, member) in &self.members {
            writeln!(f, "server.{id}={member}")?;
        }
        for (group, ids) in &self.groups {
            write!(f, "group.{group}")?;
            for (index, id) in ids.iter().enumerate() {
                write!(f, "{}{id}", if index == 0 { '=' } else { ':' })?;
            }
            writeln!(f)?;
        }
        for (id, weight) in &self.weights {
            writeln!(f, "weight.{id}={weight}")?;
        }
        write!(f, "version={:x}", self.version)
    }
}

fn parse_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests;
