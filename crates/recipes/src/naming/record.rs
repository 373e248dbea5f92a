//! What a name is bound to, and the resolution of aliases. Pure.
//!
//! The data of a name's node is a line of JSON and the payload after it, `{"id":"<uuid>"}\n<payload>`; that of an
//! alias is `{"alias":"b/c","id":"<uuid>"}\n`. The id differs for each write, so a writer whose reply was lost
//! recognizes its own.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::messaging::envelope::{decode_envelope, encode_envelope};

/// What a name is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Payload(Bytes),
    Alias(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    #[serde(default)]
    id: String,
}

impl Record {
    /// Encodes it as data that no other write has.
    pub(super) fn encode(&self) -> Bytes {
        let id = Uuid::new_v4().to_string();
        match self {
            Record::Payload(payload) => encode_envelope(&Header { alias: None, id }, payload),
            Record::Alias(target) => {
                encode_envelope(&Header { alias: Some(target.clone()), id }, &[])
            }
        }
    }

    pub(super) fn decode(path: &str, data: &Bytes) -> Result<Self> {
        let (header, body) = decode_envelope::<Header>(path, data)?;
        Ok(header.alias.map_or(Record::Payload(body), Record::Alias))
    }
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved {
    /// The name that is bound to the payload: the requested one, or the last one that aliases lead to.
    pub name: String,
    /// The payload.
    pub payload: Bytes,
}

/// The names from the requested one to the one with the payload.
#[derive(Debug)]
pub(super) struct Walk {
    /// At least one.
    names: Vec<String>,
    aliases_max: usize,
}

impl Walk {
    pub(super) fn new(name: &str, aliases_max: usize) -> Self {
        Walk { names: vec![name.to_owned()], aliases_max }
    }

    /// Returns the name to read next.
    pub(super) fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// Processes what was read. Returns `Some` at the end; `None` if there is another name to read.
    pub(super) fn step(&mut self, found: Option<Record>) -> Result<Option<Option<Resolved>>> {
        let target = match found {
            None => return Ok(Some(None)),
            Some(Record::Payload(payload)) => {
                return Ok(Some(Some(Resolved { name: self.name().to_owned(), payload })));
            }
            Some(Record::Alias(target)) => target,
        };
        let is_loop = self.names.contains(&target);
        let is_too_long = self.names.len() > self.aliases_max;
        self.names.push(target);
        match (is_loop, is_too_long) {
            (true, _) => Err(self.unresolvable("its aliases form a loop")),
            (_, true) => Err(self.unresolvable(&format!("more than {} aliases", self.aliases_max))),
            _ => Ok(None),
        }
    }

    fn unresolvable(&self, what: &str) -> Error {
        let name = self.names.first().cloned().unwrap_or_default();
        Error::Unresolvable { name, reason: format!("{what}: {}", self.names.join(" -> ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(aliases: &[(&str, &str)], name: &str) -> Result<Option<Resolved>> {
        let mut walk = Walk::new(name, 3);
        loop {
            let alias = aliases.iter().find(|(alias, _)| *alias == walk.name());
            let found = match alias {
                Some((_, target)) => Some(Record::Alias((*target).to_owned())),
                None => (walk.name() != "none").then(|| Record::Payload("x".into())),
            };
            if let Some(end) = walk.step(found)? {
                return end.map_or(Ok(None), |found| Ok(Some(found)));
            }
        }
    }

    fn found(name: &str) -> Result<Option<Resolved>> {
        Ok(Some(Resolved { name: name.to_owned(), payload: "x".into() }))
    }

    #[test]
    fn aliases_are_followed_to_the_end() {
        assert_eq!(walk(&[], "a"), found("a"));
        assert_eq!(walk(&[("a", "b"), ("b", "c/d")], "a"), found("c/d"));
        assert_eq!(walk(&[("a", "b"), ("b", "c"), ("c", "d")], "a"), found("d"));
        assert_eq!(walk(&[("a", "none")], "a"), Ok(None));
    }

    #[test]
    fn loops_and_long_chains_are_reported() {
        let text = |aliases: &[(&str, &str)]| walk(aliases, "a").unwrap_err().to_string();
        let looped = "the name a cannot be resolved: its aliases form a loop: a -> b -> a";
        assert_eq!(text(&[("a", "b"), ("b", "a")]), looped);
        assert!(text(&[("a", "a")]).ends_with("a loop: a -> a"));
        assert!(text(&[("a", "b"), ("b", "c"), ("c", "b")]).ends_with("a -> b -> c -> b"));
        let long = text(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]);
        assert!(long.ends_with("more than 3 aliases: a -> b -> c -> d -> e"), "{long}");
    }

    #[test]
    fn records_are_read_back_and_each_write_is_unlike_the_others() {
        for record in [Record::Payload(Bytes::from_static(b"\n\0x")), Record::Alias("b/c".into())] {
            assert_eq!(Record::decode("/a", &record.encode()), Ok(record.clone()));
            assert_ne!(record.encode(), record.encode());
        }
        assert!(Record::decode("/a", &Bytes::from_static(b"x")).is_err());
    }
}
