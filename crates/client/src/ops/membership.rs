//! Reading and changing the membership of the ensemble.

use bytes::Bytes;
use herdsman_proto::request::ReconfigRequest;
use herdsman_proto::{
    DecodeError, JuteReader, OpCode, ReadRequest, Request, Stat, WriteRequest, path,
};

use super::read::Node;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, read_data};
use crate::request_queue::Answer;

/// Reads the configuration of the ensemble, whatever the client's namespace is.
#[derive(Clone, Debug)]
pub struct GetConfig;

impl Sealed for GetConfig {
    type Output = Node;

    fn op(&self) -> OpCode {
        OpCode::GetData
    }
    fn shown_path(&self) -> &str {
        path::CONFIG
    }
    fn request(&self) -> Request<'_> {
        Request::Read(ReadRequest::GetData { path: path::CONFIG.into(), watch: false })
    }
    fn check(&self) -> Result<()> {
        Ok(())
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::Yes
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Node, ReplyError> {
        Ok(decode_config(&answer.body)?)
    }
}

fn decode_config(body: &Bytes) -> std::result::Result<Node, DecodeError> {
    let reader = &mut JuteReader::new(body);
    Ok(Node { data: read_data(body, reader)?, stat: Stat::decode(reader)? })
}

/// Changes the members: `server.N=…` lines to add, ids to remove, or a whole new list.
#[derive(Clone, Debug, Default)]
pub struct Reconfig {
    joining: Vec<String>,
    leaving: Vec<String>,
    members: Vec<String>,
    from_version: Option<i64>,
}

impl Call<Reconfig> {
    /// Adds or changes a server: `server.4=host:2888:3888;2181`.
    pub fn join(self, server: impl Into<String>) -> Self {
        self.map(|mut op| {
            op.joining.push(server.into());
            op
        })
    }

    /// Removes a server.
    pub fn leave(self, id: i64) -> Self {
        self.map(|mut op| {
            op.leaving.push(id.to_string());
            op
        })
    }

    /// Sets the whole new list, instead of changes.
    pub fn members(self, servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.map(|mut op| {
            op.members.extend(servers.into_iter().map(Into::into));
            op
        })
    }

    /// Changes the members only if the current configuration has this version.
    pub fn from_version(self, version: i64) -> Self {
        self.map(|op| Reconfig { from_version: Some(version), ..op })
    }
}

impl Sealed for Reconfig {
    type Output = Node;

    fn op(&self) -> OpCode {
        OpCode::Reconfig
    }
    fn shown_path(&self) -> &str {
        path::CONFIG
    }
    fn request(&self) -> Request<'_> {
        let list = |entries: &[String]| (!entries.is_empty()).then(|| entries.join(",").into());
        Request::Write(WriteRequest::Reconfig(ReconfigRequest {
            joining: list(&self.joining),
            leaving: list(&self.leaving),
            new_members: list(&self.members),
            current_config: self.from_version.unwrap_or(-1),
        }))
    }
    fn check(&self) -> Result<()> {
        let changes = !self.joining.is_empty() || !self.leaving.is_empty();
        if changes != self.members.is_empty() {
            let text = "a reconfiguration needs either changes or a whole list of members";
            return Err(Error::invalid_argument(text));
        }
        Ok(())
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Node, ReplyError> {
        Ok(decode_config(&answer.body)?)
    }
}
