//! Converts a znode to a line of JSON, and back.
//!
//! ```text
//! {"path":"config/db","data":"host=a","acl":[{"scheme":"world","id":"anyone","perms":"cdrwa"}],
//!  "type":"persistent","stat":{"czxid":"0x100000002", …}}
//! ```
//! `path` is relative to the subtree's root, which is `.` itself. Text data is stored as `data`, any other
//! data in base64 as `data_base64`. A line written by hand may omit data (empty), ACL (open to all), type
//! (persistent) and stat.
//!
//! Invariant: any bytes and any ACL are read from a line exactly as they were written to it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use herdsman_client::{Acl, Id, Lifetime, Perms, Stat, Zxid};
use serde::{Deserialize, Serialize};

use super::human::hex;
use super::lifetime::NodeType;
use super::path;

/// Letters of the permission bits, in the order in which `zkCli` shows them.
const PERM_LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

/// Longest time to live that servers accept: 40 bits of milliseconds.
const TTL_MS_MAX: u64 = 0xff_ffff_ffff;

/// A znode of a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its path relative to the subtree's root.
    pub path: String,
    /// Its data.
    pub data: Bytes,
    /// Its ACL.
    pub acl: Vec<Acl>,
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// Its stat, if known.
    pub stat: Option<Stat>,
}

impl Record {
    /// The type of the znode.
    #[must_use]
    pub fn node_type(&self) -> NodeType {
        match self.lifetime {
            Lifetime::Persistent => NodeType::Persistent,
            Lifetime::Ephemeral => NodeType::Ephemeral,
            Lifetime::Container => NodeType::Container,
            Lifetime::Ttl(_) => NodeType::Ttl,
        }
    }

    /// Whether a digest of the ACL was hidden by the server: it shows digests only to users who may change
    /// the ACL. No user can log in by such an entry.
    #[must_use]
    pub fn has_hidden_acl(&self) -> bool {
        has_hidden_digest(&self.acl)
    }

    /// The record as a line, without a line end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let line = Line::from(self);
        serde_json::to_string(&line).expect("texts, numbers and lists always have a JSON form")
    }

    /// Parses a line. The error says in a few words what is wrong.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| json_fault(&error))?;
        Record::try_from(line)
    }
}

/// Whether any digest of an ACL was hidden by the server.
#[must_use]
pub fn has_hidden_digest(acl: &[Acl]) -> bool {
    let is_hidden = |entry: &Acl| entry.id.scheme == "digest" && entry.id.id.ends_with(":x");
    acl.iter().any(is_hidden)
}

/// The text of a JSON error without the line number, which is always 1.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let at = text.rfind(" at line ").unwrap_or(text.len());
    format!("{} (column {})", &text[..at], error.column())
}

/// The data as text, if it can be written to JSON and to a terminal unchanged.
#[must_use]
pub fn as_text(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(is_plain).then_some(text)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<Vec<AclEntry>>,
    #[serde(default, rename = "type")]
    node_type: NodeType,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatLine>,
}

/// An entry of an ACL in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AclEntry {
    scheme: String,
    id: String,
    perms: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatLine {
    czxid: String,
    mzxid: String,
    pzxid: String,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: String,
    data_length: i32,
    num_children: i32,
}

impl From<&Record> for Line {
    fn from(record: &Record) -> Self {
        let text = as_text(&record.data);
        Line {
            path: record.path.clone(),
            data: text.map(str::to_owned),
            data_base64: text.is_none().then(|| STANDARD.encode(&record.data)),
            acl: Some(record.acl.iter().map(AclEntry::from).collect()),
            node_type: record.node_type(),
            ttl_ms: match record.lifetime {
                Lifetime::Ttl(ttl) => Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
                _ => None,
            },
            stat: record.stat.as_ref().map(StatLine::from),
        }
    }
}

impl TryFrom<Line> for Record {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        if !path::is_relative(&line.path) {
            return Err(format!(
                "{:?} is not a relative path, as a/b, or . for the root",
                line.path
            ));
        }
        let data = match (line.data, line.data_base64) {
            (Some(_), Some(_)) => return Err("has both data and data_base64".to_owned()),
            (Some(text), None) => Bytes::from(text),
            (None, Some(coded)) => Bytes::from(
                STANDARD.decode(coded).map_err(|error| format!("data_base64: {error}"))?,
            ),
            (None, None) => Bytes::new(),
        };
        let acl = match line.acl {
            None => vec![Acl::world(Perms::ALL)],
            Some(entries) if entries.is_empty() => return Err("the acl is empty".to_owned()),
            Some(entries) => entries.into_iter().map(Acl::try_from).collect::<Result<_, _>>()?,
        };
        Ok(Record {
            data,
            acl,
            lifetime: lifetime(line.node_type, line.ttl_ms)?,
            stat: line.stat.map(Stat::try_from).transpose()?,
            path: line.path,
        })
    }
}

fn lifetime(node_type: NodeType, ttl_ms: Option<u64>) -> Result<Lifetime, String> {
    match (node_type, ttl_ms) {
        (NodeType::Ttl, Some(ttl_ms)) if (1..=TTL_MS_MAX).contains(&ttl_ms) => {
            Ok(Lifetime::Ttl(Duration::from_millis(ttl_ms)))
        }
        (NodeType::Ttl, _) => Err(format!("type ttl needs a ttl_ms from 1 to {TTL_MS_MAX}")),
        (_, Some(_)) => Err("ttl_ms is only valid with type ttl".to_owned()),
        (NodeType::Persistent, None) => Ok(Lifetime::Persistent),
        (NodeType::Ephemeral, None) => Ok(Lifetime::Ephemeral),
        (NodeType::Container, None) => Ok(Lifetime::Container),
    }
}

/// Permissions as letters; as a number if there are bits without a letter.
#[must_use]
pub fn perms_text(perms: Perms) -> String {
    if perms.0 & !Perms::ALL.0 != 0 {
        return perms.0.to_string();
    }
    let granted = PERM_LETTERS.iter().filter(|(_, bit)| perms.intersects(*bit));
    granted.map(|(letter, _)| *letter).collect()
}

fn parse_perms(text: &str) -> Result<Perms, String> {
    if let Ok(bits) = text.parse::<i32>() {
        return Ok(Perms(bits));
    }
    text.chars().try_fold(Perms(0), |perms, letter| {
        let known = PERM_LETTERS.iter().find(|(known, _)| *known == letter);
        let (_, bit) = known.ok_or_else(|| format!("perms {text:?}: use the letters cdrwa"))?;
        Ok(perms.union(*bit))
    })
}

impl From<&Acl> for AclEntry {
    fn from(acl: &Acl) -> Self {
        let Id { scheme, id } = acl.id.clone();
        AclEntry { scheme, id, perms: perms_text(acl.perms) }
    }
}

impl TryFrom<AclEntry> for Acl {
    type Error = String;

    fn try_from(entry: AclEntry) -> Result<Self, String> {
        let id = Id { scheme: entry.scheme, id: entry.id };
        Ok(Acl { perms: parse_perms(&entry.perms)?, id })
    }
}

impl From<&Stat> for StatLine {
    fn from(stat: &Stat) -> Self {
        StatLine {
            czxid: hex(stat.czxid.0),
            mzxid: hex(stat.mzxid.0),
            pzxid: hex(stat.pzxid.0),
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: hex(stat.ephemeral_owner),
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }
}

impl TryFrom<StatLine> for Stat {
    type Error = String;

    fn try_from(line: StatLine) -> Result<Self, String> {
        Ok(Stat {
            czxid: Zxid(parse_hex(&line.czxid)?),
            mzxid: Zxid(parse_hex(&line.mzxid)?),
            pzxid: Zxid(parse_hex(&line.pzxid)?),
            ctime: line.ctime,
            mtime: line.mtime,
            version: line.version,
            cversion: line.cversion,
            aversion: line.aversion,
            ephemeral_owner: parse_hex(&line.ephemeral_owner)?,
            data_length: line.data_length,
            num_children: line.num_children,
        })
    }
}

fn parse_hex(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    let number = u64::from_str_radix(digits, 16);
    number.map(u64::cast_signed).map_err(|_| format!("{text:?} is not a number such as 0x1f"))
}

#[cfg(test)]
mod tests;
