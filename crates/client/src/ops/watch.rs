//! Persistent watches.

use herdsman_proto::{DecodeError, OpCode, ReadRequest, Request};

use crate::call::Call;
use crate::error::Result;
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath};
use crate::request_queue::Answer;
use crate::watch::PersistentWatch;
use crate::watches::{ConfirmedWatch, WatchTable};

/// Adds a persistent watch, which reports every change of the znode until it is dropped. Needs a
/// server of version 3.6 or newer.
#[derive(Clone, Debug)]
pub struct AddWatch {
    pub(crate) path: ZnodePath,
    pub(crate) table: WatchTable,
}

impl Call<AddWatch> {
    /// Also reports every change of the znodes below it. Changes of a znode's list of children are not
    /// reported: the creations and deletions of the children themselves are.
    pub fn recursive(self) -> Self {
        self.map(|op| AddWatch { table: WatchTable::Recursive, ..op })
    }
}

impl Sealed for AddWatch {
    type Output = PersistentWatch;

    fn op(&self) -> OpCode {
        OpCode::AddWatch
    }
    fn shown_path(&self) -> &str {
        self.path.shown()
    }
    fn request(&self) -> Request<'_> {
        Request::Read(ReadRequest::AddWatch {
            path: self.path.full().into(),
            recursive: self.table == WatchTable::Recursive,
        })
    }
    fn watch(&self) -> Option<(WatchTable, &ZnodePath)> {
        Some((self.table, &self.path))
    }
    fn check(&self) -> Result<()> {
        self.path.check()
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::Yes
    }
    fn decode(&self, answer: Answer) -> std::result::Result<PersistentWatch, ReplyError> {
        match answer.watch {
            Some(ConfirmedWatch::Persistent(watch)) => Ok(watch),
            _ => Err(DecodeError::Null.into()),
        }
    }
}
