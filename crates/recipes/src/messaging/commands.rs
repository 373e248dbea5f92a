//! The nodes of commands, and their data.
//!
//! ```text
//! <root>/clients/<client>                   ephemeral: a client that is present
//! <root>/clients/<client>                   ephemeral: a client that is present
//! <root>/commands/_c_<uuid>-cmd-<n>/<client>    {"ok":true}\n<answer>: an acknowledgement
//! <root>/positions/<client>                 {"done":<czxid>,"started":<czxid>}: how far a client is
//! <root>/positions/<client>                 {"done":<czxid>,"started":<czxid>}: the position of a client
//! A command names its recipients, so it does not concern clients that join later. The acknowledgements are its
//! children: they are deleted with it, and no acknowledgement of a command that was cleaned up can be created.
//! Commands are numbered by the server, for their order; positions are czxids, which keep growing even if the
//! directory is deleted and the numbers start again.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::envelope::{decode_envelope, encode_envelope};
use crate::error::{Error, Result};
use crate::path;
use crate::sequence::split_name;

/// The text before the number of a command.
pub(super) const MARKER: &str = "-cmd-";

/// The paths of the nodes.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    root: String,
}

impl Paths {
    pub(super) fn new(root: &str) -> Result<Self> {
        path::check_below_root("a dispatcher of commands", root)?;
        Ok(Paths { root: root.to_owned() })
    }

    pub(super) fn clients(&self) -> String {
        format!("{}/clients", self.root)
    }

    pub(super) fn client(&self, client: &str) -> String {
        format!("{}/clients/{client}", self.root)
    }

    pub(super) fn commands(&self) -> String {
        format!("{}/commands", self.root)
    }

    /// Returns a prefix, to be completed by a protected sequential create.
    pub(super) fn new_command(&self) -> String {
        format!("{}/commands/cmd-", self.root)
    }

    pub(super) fn command(&self, id: &CommandId) -> String {
        format!("{}/commands/{id}", self.root)
    }

    pub(super) fn ack(&self, id: &CommandId, client: &str) -> String {
        format!("{}/commands/{id}/{client}", self.root)
    }

    pub(super) fn position(&self, client: &str) -> String {
        format!("{}/positions/{client}", self.root)
    }
}

/// Checks the name of a client, which is part of paths.
pub(super) fn check_client<'n>(paths: &Paths, name: &'n str) -> Result<&'n str> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::invalid(format!("{name:?} cannot be the id of a client")));
    }
    path::check(&paths.client(name))?;
    Ok(name)
}

/// The id of a command. Ids are ordered like the commands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    sequence: i32,
    name: String,
}

impl CommandId {
    /// Parses a name; `None` for names that do not belong to the recipe.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let sequence = split_name(name, MARKER)?.sequence;
        Some(CommandId { sequence, name: name.to_owned() })
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The first line of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) to: Vec<String>,
}

/// The data of `positions/<client>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The czxid of the last command that was acknowledged.
    pub(super) done: i64,
    /// The czxid of the last command that was begun, if the client records that.
    #[serde(default)]
    pub(super) started: i64,
}

/// The first line of an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AckHeader {
    ok: bool,
}

/// A client's answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ack {
    /// The id of the client.
    pub client: String,
    /// The result: an answer, or a description of the failure.
    pub outcome: std::result::Result<Bytes, String>,
}

impl Ack {
    pub(super) fn encode(outcome: &std::result::Result<Bytes, String>) -> Bytes {
        match outcome {
            Ok(answer) => encode_envelope(&AckHeader { ok: true }, answer),
            Err(reason) => encode_envelope(&AckHeader { ok: false }, reason.as_bytes()),
        }
    }

    pub(super) fn decode(client: &str, path: &str, data: &Bytes) -> Result<Self> {
        let (header, body) = decode_envelope::<AckHeader>(path, data)?;
        let outcome = match header.ok {
            true => Ok(body),
            false => Err(String::from_utf8_lossy(&body).into_owned()),
        };
        Ok(Ack { client: client.to_owned(), outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_read_back() {
        for outcome in [Ok(Bytes::from_static(b"\n1")), Err("no disk".to_owned())] {
            let ack = Ack::decode("a", "/c/a", &Ack::encode(&outcome)).unwrap();
            assert_eq!(ack, Ack { client: "a".into(), outcome });
        }
        assert!(Ack::decode("a", "/c/a", &Bytes::from_static(b"hello")).is_err());
    }

    #[test]
    fn commands_are_ordered_by_their_numbers() {
        let id = |name| CommandId::from_name(name).unwrap();
        assert!(id("_c_z-cmd-0000000001") < id("_c_a-cmd-0000000002"));
        assert_eq!(CommandId::from_name("README"), None);
    }
}
