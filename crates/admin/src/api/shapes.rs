//! The JSON forms of znodes, stats and ACLs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use herdsman_proto::{Acl, Id, Perms, Stat};
use herdsman_tree::owner::Owner;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// The form of zxids and session ids: they do not fit into JavaScript's numbers.
pub(super) fn hex(number: i64) -> String {
    format!("{number:#x}")
}

/// A stat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StatShape {
    czxid: String,
    mzxid: String,
    pzxid: String,
    ctime_ms: i64,
    mtime_ms: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: Option<String>,
    data_length: i32,
    num_children: i32,
}

impl From<&Stat> for StatShape {
    fn from(stat: &Stat) -> Self {
        StatShape {
            czxid: hex(stat.czxid.0),
            mzxid: hex(stat.mzxid.0),
            pzxid: hex(stat.pzxid.0),
            ctime_ms: stat.ctime,
            mtime_ms: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: owner_shape(stat),
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }
}

/// The session that owns an ephemeral znode.
pub(super) fn owner_shape(stat: &Stat) -> Option<String> {
    (stat.ephemeral_owner != 0).then(|| hex(stat.ephemeral_owner))
}

/// The type of a znode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeType {
    #[default]
    Persistent,
    Ephemeral,
    Container,
    Ttl,
}

impl From<Owner> for NodeType {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::None => NodeType::Persistent,
            Owner::Session(_) => NodeType::Ephemeral,
            Owner::Container => NodeType::Container,
            Owner::Ttl(_) => NodeType::Ttl,
        }
    }
}

/// The time to live of a znode that has one.
pub(super) fn ttl_ms(owner: Owner) -> Option<i64> {
    match owner {
        Owner::Ttl(ttl_ms) => Some(ttl_ms),
        Owner::None | Owner::Session(_) | Owner::Container => None,
    }
}

/// Data: as text if it is text, else in base64; null data has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DataShape {
    data: Option<String>,
    data_base64: Option<String>,
    encoding: Option<&'static str>,
}

impl DataShape {
    pub(super) fn of(data: Option<&[u8]>) -> Self {
        let Some(data) = data else {
            return DataShape::default();
        };
        match std::str::from_utf8(data) {
            Ok(text) => DataShape {
                data: Some(text.to_owned()),
                data_base64: None,
                encoding: Some("utf-8"),
            },
            Err(_) => DataShape {
                data: None,
                data_base64: Some(STANDARD.encode(data)),
                encoding: Some("base64"),
            },
        }
    }
}

/// An entry of an ACL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AclEntry {
    scheme: String,
    id: String,
    perms: String,
}

/// Letters of the permission bits, in the order in which `zkCli` shows them.
const PERM_LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

impl From<&Acl> for AclEntry {
    fn from(acl: &Acl) -> Self {
        let Id { scheme, id } = acl.id.clone();
        AclEntry { scheme, id, perms: perms_text(acl.perms) }
    }
}

/// An ACL in a response.
pub(super) fn acl_shape(acl: &[Acl]) -> Vec<AclEntry> {
    acl.iter().map(AclEntry::from).collect()
}

/// The size of an ACL in a request and in the transaction log.
pub(super) fn acl_bytes(acl: &[Acl]) -> usize {
    acl.iter().map(|entry| size_of::<i32>() * 3 + entry.id.scheme.len() + entry.id.id.len()).sum()
}

/// Reads an ACL of a request.
pub(super) fn acl_of(entries: Vec<AclEntry>) -> Result<Vec<Acl>, ApiError> {
    let read = |AclEntry { scheme, id, perms }: AclEntry| {
        Ok(Acl { perms: parse_perms(&perms)?, id: Id { scheme, id } })
    };
    entries.into_iter().map(read).collect()
}

/// Permissions as letters; as a number if there are bits without a letter.
fn perms_text(perms: Perms) -> String {
    if perms.0 & !Perms::ALL.0 != 0 {
        return perms.0.to_string();
    }
    let granted = PERM_LETTERS.iter().filter(|(_, bit)| perms.intersects(*bit));
    granted.map(|(letter, _)| *letter).collect()
}

/// Parses the text of [`perms_text`].
fn parse_perms(text: &str) -> Result<Perms, ApiError> {
    if let Ok(bits) = text.parse() {
        return Ok(Perms(bits));
    }
    text.chars().try_fold(Perms(0), |perms, letter| {
        let known = PERM_LETTERS.iter().find(|(known, _)| *known == letter);
        let (_, bit) = known.ok_or_else(|| {
            ApiError::bad_request(format!("perms {text:?}: use the letters cdrwa"))
        })?;
        Ok(perms.union(*bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_letters_both_ways() {
        for (bits, text) in [(31, "cdrwa"), (1, "r"), (0, ""), (12, "cd")] {
            assert_eq!(perms_text(Perms(bits)), text);
            assert_eq!(parse_perms(text).unwrap(), Perms(bits));
        }
        assert_eq!(perms_text(Perms(33)), "33");
        assert_eq!(parse_perms("33").unwrap(), Perms(33));
        assert!(parse_perms("rx").is_err());
    }

    #[test]
    fn data_that_is_not_text_is_encoded() {
        let shape = |data| serde_json::to_value(DataShape::of(data)).unwrap();
        assert_eq!(shape(Some("grüß".as_bytes()))["data"], "grüß");
        assert_eq!(shape(Some(&[0xff, 0]))["data_base64"], "/wA=");
        assert_eq!(shape(Some(&[]))["data"], "");
        assert!(shape(None)["data"].is_null() && shape(None)["encoding"].is_null());
    }
}
