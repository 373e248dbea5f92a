//! Writes of a single znode's data and ACL.

use bytes::Bytes;
use herdsman_proto::{Acl, JuteReader, OpCode, Request, Stat, WriteRequest};

use super::ANY_VERSION;
use crate::call::Call;
use crate::error::Result;
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath};
use crate::request_queue::Answer;

/// Replaces a znode's data.
#[derive(Clone, Debug)]
pub struct Set {
    pub(crate) path: ZnodePath,
    /// The data; an error if the value could not be encoded, which fails the call.
    pub(crate) data: Result<Bytes>,
    pub(crate) version: i32,
}

impl Call<Set> {
    /// Replaces the data only if it has this version.
    pub fn version(self, version: i32) -> Self {
        self.map(|op| Set { version, ..op })
    }
}

impl Set {
    pub(crate) fn new(path: ZnodePath, data: Result<Bytes>) -> Self {
        Set { path, data, version: ANY_VERSION }
    }
}

impl Sealed for Set {
    type Output = Stat;

    fn op(&self) -> OpCode {
        OpCode::SetData
    }
    fn shown_path(&self) -> &str {
        self.path.shown()
    }
    fn request(&self) -> Request<'_> {
        Request::Write(WriteRequest::SetData {
            path: self.path.full().into(),
            data: self.data.as_deref().ok(),
            version: self.version,
        })
    }
    fn check(&self) -> Result<()> {
        self.path.check()?;
        self.data.as_ref().map(drop).map_err(Clone::clone)
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Stat, ReplyError> {
        Ok(Stat::decode(&mut JuteReader::new(&answer.body))?)
    }
}

/// Replaces a znode's ACL.
#[derive(Clone, Debug)]
pub struct SetAcl {
    pub(crate) path: ZnodePath,
    pub(crate) acl: Vec<Acl>,
    pub(crate) version: i32,
}

impl Call<SetAcl> {
    /// Replaces the ACL only if it has this version (`aversion` of the stat).
    pub fn version(self, version: i32) -> Self {
        self.map(|op| SetAcl { version, ..op })
    }
}

impl Sealed for SetAcl {
    type Output = Stat;

    fn op(&self) -> OpCode {
        OpCode::SetAcl
    }
    fn shown_path(&self) -> &str {
        self.path.shown()
    }
    fn request(&self) -> Request<'_> {
        Request::Write(WriteRequest::SetAcl {
            path: self.path.full().into(),
            acl: self.acl.clone(),
            version: self.version,
        })
    }
    fn check(&self) -> Result<()> {
        self.path.check()
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Stat, ReplyError> {
        Ok(Stat::decode(&mut JuteReader::new(&answer.body))?)
    }
}
