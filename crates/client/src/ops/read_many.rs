//! Several reads in one request.

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{JuteReader, OpCode, ReadRequest, Request, Stat};

use super::read::{Node, names};
use crate::error::{Error, ErrorKind, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath, read_data};
use crate::request_queue::Answer;

/// One of several reads. Paths are in the namespace of the client that makes them.
#[derive(Clone, Debug)]
pub struct Read {
    path: ZnodePath,
    kind: ReadKind,
}

#[derive(Clone, Copy, Debug)]
enum ReadKind {
    Data,
    Children,
}

impl Read {
    /// Data and stat of a znode.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Read { path: ZnodePath::new("", path), kind: ReadKind::Data }
    }

    /// Names of a znode's children.
    #[must_use]
    pub fn children(path: &str) -> Self {
        Read { path: ZnodePath::new("", path), kind: ReadKind::Children }
    }

    pub(crate) fn below(self, chroot: &str) -> Self {
        Read { path: ZnodePath::new(chroot, self.path.shown()), ..self }
    }

    fn request(&self) -> ReadRequest<'_> {
        let path = self.path.full().into();
        match self.kind {
            ReadKind::Data => ReadRequest::GetData { path, watch: false },
            ReadKind::Children => ReadRequest::GetChildren { path, watch: false, with_stat: false },
        }
    }

    fn op(&self) -> OpCode {
        self.request().op()
    }
}

/// The result of one of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// Data and stat.
    Node(Node),
    /// Names of the children.
    Children(Vec<String>),
}

/// Several reads in one request, all of the same state of the tree. Needs a server of version 3.6 or
/// newer.
#[derive(Clone, Debug)]
pub struct ReadMany {
    pub(crate) reads: Vec<Read>,
}

impl Sealed for ReadMany {
    type Output = Vec<Result<ReadResult>>;

    fn op(&self) -> OpCode {
        OpCode::MultiRead
    }
    fn shown_path(&self) -> &str {
        self.reads.first().map_or("", |read| read.path.shown())
    }
    fn request(&self) -> Request<'_> {
        Request::Read(ReadRequest::MultiRead(self.reads.iter().map(Read::request).collect()))
    }
    fn check(&self) -> Result<()> {
        self.reads.iter().try_for_each(|read| read.path.check())
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::Yes
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Self::Output, ReplyError> {
        let mut reader = JuteReader::new(&answer.body);
        self.reads.iter().map(|read| decode_result(read, &answer, &mut reader)).collect()
    }
}

fn decode_result(
    read: &Read,
    answer: &Answer,
    reader: &mut JuteReader<'_>,
) -> std::result::Result<Result<ReadResult>, ReplyError> {
    let header = MultiHeader::decode(reader)?;
    if header.op == OpCode::Error.code() {
        let error = Error::not_applied(ErrorKind::from_code(reader.int()?));
        return Ok(Err(error.at(read.op(), read.path.shown())));
    }
    Ok(Ok(match read.kind {
        ReadKind::Data => {
            let data = read_data(&answer.body, reader)?;
            ReadResult::Node(Node { data, stat: Stat::decode(reader)? })
        }
        ReadKind::Children => ReadResult::Children(names(reader)?),
    }))
}
