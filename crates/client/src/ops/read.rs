//! Reads of a single znode. They are served by the server that the client is connected to, from that
//! server's state, which may be behind the leader's; [`Sync`] before a read makes the server catch up.

use bytes::Bytes;
use herdsman_proto::acl::Id;
use herdsman_proto::{Acl, DecodeError, JuteReader, OpCode, ReadRequest, Request, Stat};

use crate::call::Call;
use crate::error::Result;
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath, one_shot, read_data};
use crate::request_queue::Answer;
use crate::watch::Watch;
use crate::watches::WatchTable;

/// A znode's data and stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its data: a view of the reply, not a copy. To keep small data for long, copy it
    /// ([`Bytes::copy_from_slice`]), so that the rest of the reply can be freed.
    pub data: Bytes,
    /// Its stat.
    pub stat: Stat,
}

/// The children of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their names, without the path, in no particular order.
    pub names: Vec<String>,
    /// The stat of the parent.
    pub stat: Stat,
}

/// Reads the data and stat of a znode.
#[derive(Clone, Debug)]
pub struct Get {
    pub(crate) path: ZnodePath,
}

/// Checks whether a znode exists.
#[derive(Clone, Debug)]
pub struct Exists {
    pub(crate) path: ZnodePath,
}

/// Reads the children of a znode.
#[derive(Clone, Debug)]
pub struct GetChildren {
    pub(crate) path: ZnodePath,
}

/// A read that also sets a one-shot watch.
#[derive(Clone, Debug)]
pub struct Watched<O>(pub(crate) O);

/// A read that can set a watch.
pub(crate) trait Watchable: Sealed {
    const TABLE: WatchTable;

    fn path(&self) -> &ZnodePath;
    fn request_with_watch(&self, watch: bool) -> Request<'_>;
}

macro_rules! watchable {
    ($op:ty, $output:ty, $code:expr, $table:expr, $request:expr, $decode:expr) => {
        impl Watchable for $op {
            const TABLE: WatchTable = $table;

            fn path(&self) -> &ZnodePath {
                &self.path
            }

            fn request_with_watch(&self, watch: bool) -> Request<'_> {
                let request: fn(&str, bool) -> ReadRequest<'_> = $request;
                Request::Read(request(self.path.full(), watch))
            }
        }

        impl Sealed for $op {
            type Output = $output;

            fn op(&self) -> OpCode {
                $code
            }
            fn shown_path(&self) -> &str {
                self.path.shown()
            }
            fn request(&self) -> Request<'_> {
                self.request_with_watch(false)
            }
            fn check(&self) -> Result<()> {
                self.path.check()
            }
            fn repeatable(&self) -> Repeatable {
                Repeatable::Yes
            }
            fn decode(&self, answer: Answer) -> std::result::Result<$output, ReplyError> {
                let decode: fn(&Bytes, &mut JuteReader<'_>) -> Decoded<$output> = $decode;
                Ok(decode(&answer.body, &mut JuteReader::new(&answer.body))?)
            }
        }

        impl Call<$op> {
            /// Also sets a watch, which resolves at the next change of the data read.
            pub fn watch(self) -> Call<Watched<$op>> {
                self.map(Watched)
            }
        }
    };
}

watchable!(
    Get,
    Node,
    OpCode::GetData,
    WatchTable::Data,
    |path, watch| ReadRequest::GetData { path: path.into(), watch },
    |body, reader| Ok(Node { data: read_data(body, reader)?, stat: Stat::decode(reader)? })
);

watchable!(
    Exists,
    Option<Stat>,
    OpCode::Exists,
    WatchTable::Data,
    |path, watch| ReadRequest::Exists { path: path.into(), watch },
    |_, reader| if reader.is_empty() { Ok(None) } else { Stat::decode(reader).map(Some) }
);

watchable!(
    GetChildren,
    Children,
    OpCode::GetChildren2,
    WatchTable::Child,
    |path, watch| ReadRequest::GetChildren { path: path.into(), watch, with_stat: true },
    |_, reader| Ok(Children { names: names(reader)?, stat: Stat::decode(reader)? })
);

type Decoded<T> = std::result::Result<T, DecodeError>;

pub(crate) fn names(reader: &mut JuteReader<'_>) -> Decoded<Vec<String>> {
    reader.vector(|reader| Ok(reader.required_string()?.into_owned()))
}

impl<O: Watchable> Sealed for Watched<O> {
    type Output = (O::Output, Watch);

    fn op(&self) -> OpCode {
        self.0.op()
    }
    fn shown_path(&self) -> &str {
        self.0.shown_path()
    }
    fn request(&self) -> Request<'_> {
        self.0.request_with_watch(true)
    }
    fn watch(&self) -> Option<(WatchTable, &ZnodePath)> {
        Some((O::TABLE, self.0.path()))
    }
    fn check(&self) -> Result<()> {
        self.0.check()
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::Yes
    }
    fn decode(&self, mut answer: Answer) -> std::result::Result<Self::Output, ReplyError> {
        let watch = one_shot(&mut answer)?;
        Ok((self.0.decode(answer)?, watch))
    }
}

macro_rules! plain_read {
    ($op:ident { $($field:ident)? }, $output:ty, $code:expr, $request:expr, $decode:expr) => {
        impl Sealed for $op {
            type Output = $output;

            fn op(&self) -> OpCode {
                $code
            }
            fn shown_path(&self) -> &str {
                plain_read!(@shown self $($field)?)
            }
            fn request(&self) -> Request<'_> {
                let request: fn(&$op) -> Request<'_> = $request;
                request(self)
            }
            fn check(&self) -> Result<()> {
                plain_read!(@check self $($field)?)
            }
            fn repeatable(&self) -> Repeatable {
                Repeatable::Yes
            }
            fn decode(&self, answer: Answer) -> std::result::Result<$output, ReplyError> {
                let decode: fn(&$op, &mut JuteReader<'_>) -> Decoded<$output> = $decode;
                Ok(decode(self, &mut JuteReader::new(&answer.body))?)
            }
        }
    };
    (@shown $self:ident path) => { $self.path.shown() };
    (@shown $self:ident) => { "" };
    (@check $self:ident path) => { $self.path.check() };
    (@check $self:ident) => { Ok(()) };
}

/// Reads the ACL of a znode.
#[derive(Clone, Debug)]
pub struct GetAcl {
    pub(crate) path: ZnodePath,
}

plain_read!(
    GetAcl { path },
    (Vec<Acl>, Stat),
    OpCode::GetAcl,
    |op| Request::Read(ReadRequest::GetAcl { path: op.path.full().into() }),
    |_, reader| Ok((reader.vector(Acl::decode)?, Stat::decode(reader)?))
);

/// Counts the znodes below a znode.
#[derive(Clone, Debug)]
pub struct CountDescendants {
    pub(crate) path: ZnodePath,
}

plain_read!(
    CountDescendants { path },
    u32,
    OpCode::GetAllChildrenNumber,
    |op| Request::Read(ReadRequest::GetAllChildrenNumber { path: op.path.full().into() }),
    |_, reader| Ok(u32::try_from(reader.int()?).unwrap_or_default())
);

/// Lists the session's own ephemerals below a path.
#[derive(Clone, Debug)]
pub struct Ephemerals {
    pub(crate) path: ZnodePath,
}

plain_read!(
    Ephemerals { path },
    Vec<String>,
    OpCode::GetEphemerals,
    |op| Request::Read(ReadRequest::GetEphemerals { prefix: Some(op.path.full().into()) }),
    |op, reader| {
        // Servers compare strings, so that /a also matches /ab.
        let below = |full: &&String| op.path.is_prefix_of(full);
        Ok(names(reader)?.iter().filter(below).map(|full| op.path.show(full)).collect())
    }
);

/// Waits until the server has applied all earlier writes.
#[derive(Clone, Debug)]
pub struct Sync {
    pub(crate) path: ZnodePath,
}

plain_read!(
    Sync { path },
    (),
    OpCode::Sync,
    |op| Request::Sync { path: op.path.full().into() },
    |_, _| Ok(())
);

/// Lists the identities under which the server has authenticated the session.
#[derive(Clone, Debug)]
pub struct WhoAmI;

plain_read!(
    WhoAmI {},
    Vec<Id>,
    OpCode::WhoAmI,
    |_| Request::Read(ReadRequest::WhoAmI),
    |_, reader| reader.vector(Id::decode)
);
