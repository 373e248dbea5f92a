//! Transactions: several writes, of which all are applied, or none.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{Acl, ErrorCode, JuteReader, OpCode, Request, Stat, WriteRequest};

use super::ANY_VERSION;
use super::create::{Create, Created, Lifetime};
use super::delete::Delete;
use super::write::Set;
use crate::call::{Call, Reply};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath};
use crate::request_queue::Answer;

/// One write of a transaction. Paths are in the namespace of the client that commits it.
#[derive(Clone, Debug)]
pub struct Op(OpKind);

#[derive(Clone, Debug)]
enum OpKind {
    Create(Create),
    Set(Set),
    Delete(Delete),
    Check { path: ZnodePath, version: i32 },
}

impl Op {
    /// Creates a znode.
    #[must_use]
    pub fn create(path: &str, data: impl Into<Bytes>) -> Self {
        Op(OpKind::Create(Create::new(ZnodePath::new("", path), Ok(data.into()))))
    }

    /// Creates a znode that contains a value as JSON. The transaction fails with
    /// [`ErrorKind::InvalidArgument`] if the value cannot be encoded.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn create_json<T: serde::Serialize + ?Sized>(path: &str, value: &T) -> Self {
        Op(OpKind::Create(Create::new(ZnodePath::new("", path), crate::json::encode(value))))
    }

    /// Replaces the data of a znode by a value as JSON. The transaction fails with
    /// [`ErrorKind::InvalidArgument`] if the value cannot be encoded.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn set_json<T: serde::Serialize + ?Sized>(path: &str, value: &T) -> Self {
        Op(OpKind::Set(Set::new(ZnodePath::new("", path), crate::json::encode(value))))
    }

    /// Replaces the data of a znode.
    #[must_use]
    pub fn set(path: &str, data: impl Into<Bytes>) -> Self {
        Op(OpKind::Set(Set::new(ZnodePath::new("", path), Ok(data.into()))))
    }

    /// Deletes a znode.
    #[must_use]
    pub fn delete(path: &str) -> Self {
        Op(OpKind::Delete(Delete { path: ZnodePath::new("", path), version: ANY_VERSION }))
    }

    /// Changes nothing, but fails the transaction unless the znode exists.
    #[must_use]
    pub fn check(path: &str) -> Self {
        Op(OpKind::Check { path: ZnodePath::new("", path), version: ANY_VERSION })
    }

    /// Requires that the data has this version. Has no effect on a creation.
    #[must_use]
    pub fn version(mut self, expected: i32) -> Self {
        match &mut self.0 {
            OpKind::Set(Set { version, .. })
            | OpKind::Delete(Delete { version, .. })
            | OpKind::Check { version, .. } => *version = expected,
            OpKind::Create(_) => {}
        }
        self
    }

    /// Sets how long a created znode lives. Has no effect on other writes.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        if let OpKind::Create(create) = &mut self.0 {
            create.set_lifetime(lifetime);
        }
        self
    }

    /// A created znode is deleted when the session ends.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        self.lifetime(Lifetime::Ephemeral)
    }

    /// The server appends a number to the name of a created znode.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        if let OpKind::Create(create) = &mut self.0 {
            create.set_sequential();
        }
        self
    }

    /// Sets the ACL of a created znode. Without this it gets the default ACL of the client that
    /// commits the transaction ([`Options::default_acl`](crate::Options::default_acl)).
    #[must_use]
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        if let OpKind::Create(create) = &mut self.0 {
            create.set_acl(acl.into());
        }
        self
    }

    /// Moves the write below a chroot.
    pub(crate) fn below(mut self, chroot: &str) -> Self {
        let path = self.path_mut();
        *path = ZnodePath::new(chroot, path.shown());
        self
    }

    /// Sets the ACL of a created znode, unless another one was set.
    pub(crate) fn with_default_acl(mut self, acl: &Arc<[Acl]>) -> Self {
        if let OpKind::Create(create) = &mut self.0 {
            create.set_default_acl(acl);
        }
        self
    }

    fn path_mut(&mut self) -> &mut ZnodePath {
        match &mut self.0 {
            OpKind::Create(create) => &mut create.path,
            OpKind::Set(set) => &mut set.path,
            OpKind::Delete(delete) => &mut delete.path,
            OpKind::Check { path, .. } => path,
        }
    }

    fn path(&self) -> &ZnodePath {
        match &self.0 {
            OpKind::Create(create) => &create.path,
            OpKind::Set(set) => &set.path,
            OpKind::Delete(delete) => &delete.path,
            OpKind::Check { path, .. } => path,
        }
    }

    fn request(&self) -> WriteRequest<'_> {
        match &self.0 {
            OpKind::Create(create) => create.write_request(),
            OpKind::Delete(delete) => delete.write_request(),
            OpKind::Set(set) => WriteRequest::SetData {
                path: set.path.full().into(),
                data: set.data.as_deref().ok(),
                version: set.version,
            },
            OpKind::Check { path, version } => {
                WriteRequest::Check { path: path.full().into(), version: *version }
            }
        }
    }

    fn check_arguments(&self) -> Result<()> {
        match &self.0 {
            OpKind::Create(create) => create.check(),
            OpKind::Set(set) => set.check(),
            _ => self.path().check(),
        }
    }
}

/// The result of one write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// A znode was created.
    Created(Created),
    /// The data was replaced; the new stat.
    Set(Stat),
    /// The znode was deleted.
    Deleted,
    /// The check succeeded.
    Checked,
}

/// A transaction that is ready to be sent.
#[derive(Clone, Debug)]
#[must_use = "nothing is written until the call is awaited or sent"]
pub struct TransactionCall {
    call: Call<Transaction>,
}

impl TransactionCall {
    pub(crate) fn new(client: &Client, ops: Vec<Op>) -> Self {
        TransactionCall { call: Call::new(client, Transaction { ops }) }
    }

    /// Fails after this time. A transaction that was sent then has an unknown outcome.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.call = self.call.deadline(deadline);
        self
    }

    /// Sends the request now; the reply can be awaited later.
    pub fn send(self) -> Reply<Vec<OpResult>> {
        let client = self.call.client.clone();
        let reply = self.call.send();
        Box::pin(async move {
            let mut results = reply.await?;
            for result in &mut results {
                if let OpResult::Created(created) = result
                    && created.stat == missing_stat()
                {
                    created.stat = look_up(&client, &created.path).await?;
                }
            }
            Ok(results)
        })
    }
}

impl IntoFuture for TransactionCall {
    type Output = Result<Vec<OpResult>>;
    type IntoFuture = Reply<Vec<OpResult>>;

    fn into_future(self) -> Self::IntoFuture {
        self.send()
    }
}

/// The stat in replies of servers before 3.7, which do not return the stat of a znode created in a transaction. No
/// znode has this stat: every creation has a zxid.
fn missing_stat() -> Stat {
    Stat::default()
}

/// Reads the stat of a created znode; a stat of zeros if the znode was deleted meanwhile.
async fn look_up(client: &Client, path: &str) -> Result<Stat> {
    let stat = client.exists(path).await.map_err(|error| error.with_outcome(Outcome::Applied))?;
    Ok(stat.unwrap_or_else(missing_stat))
}

/// All of these writes, or none.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub(crate) ops: Vec<Op>,
}

impl Sealed for Transaction {
    type Output = Vec<OpResult>;

    fn op(&self) -> OpCode {
        OpCode::Multi
    }
    fn shown_path(&self) -> &str {
        self.ops.first().map_or("", |op| op.path().shown())
    }
    fn request(&self) -> Request<'_> {
        Request::Write(WriteRequest::Multi(self.ops.iter().map(Op::request).collect()))
    }
    fn check(&self) -> Result<()> {
        for (index, op) in self.ops.iter().enumerate() {
            let located = |error: Error| error.at(OpCode::Multi, op.path().shown());
            op.check_arguments().map_err(|error| located(error).with_failed_op(index))?;
        }
        Ok(())
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Vec<OpResult>, ReplyError> {
        let mut reader = JuteReader::new(&answer.body);
        let mut results = Vec::with_capacity(self.ops.len());
        let mut failure = None;
        for (index, op) in self.ops.iter().enumerate() {
            match decode_result(op, &mut reader)? {
                Ok(result) => results.push(result),
                Err(code) => failure = failure.or_else(|| cause(op, index, code)),
            }
        }
        match failure {
            Some(error) => Err(ReplyError::Failure(error)),
            None => Ok(results),
        }
    }
}

/// Returns the error of the operation that made the transaction fail. Operations before it have the code 0; those
/// after it have a code that only says that another one has failed.
fn cause(op: &Op, index: usize, code: i32) -> Option<Error> {
    let is_bystander = code == 0 || code == ErrorCode::RuntimeInconsistency.code();
    let error = || Error::not_applied(ErrorKind::from_code(code));
    (!is_bystander).then(|| error().at(OpCode::Multi, op.path().shown()).with_failed_op(index))
}

fn decode_result(
    op: &Op,
    reader: &mut JuteReader<'_>,
) -> std::result::Result<std::result::Result<OpResult, i32>, ReplyError> {
    let header = MultiHeader::decode(reader)?;
    if header.op == OpCode::Error.code() {
        return Ok(Err(reader.int()?));
    }
    Ok(Ok(match &op.0 {
        OpKind::Create(create) if header.op == OpCode::Create.code() => {
            let path = create.path.show(&reader.required_string()?);
            OpResult::Created(Created { path, stat: missing_stat() })
        }
        OpKind::Create(create) => OpResult::Created(Create::decode_created(&create.path, reader)?),
        OpKind::Set(_) => OpResult::Set(Stat::decode(reader)?),
        OpKind::Delete(_) => OpResult::Deleted,
        OpKind::Check { .. } => OpResult::Checked,
    }))
}

#[cfg(test)]
mod tests {
    use herdsman_proto::JuteWrite;

    use super::*;

    #[test]
    fn a_creation_without_a_stat_is_read_from_older_servers() {
        let ops = vec![Op::check("/a").below("/root"), Op::create("/a/b", "").below("/root")];
        let mut body = Vec::new();
        MultiHeader::result(OpCode::Check).encode(&mut body);
        MultiHeader::result(OpCode::Create).encode(&mut body);
        body.put_string("/root/a/b");
        MultiHeader::END.encode(&mut body);
        let answer = Answer { body: Bytes::from(body), watch: None };
        let results = Transaction { ops }.decode(answer).expect("it can be read");
        let created = Created { path: "/a/b".to_owned(), stat: missing_stat() };
        assert_eq!(results, [OpResult::Checked, OpResult::Created(created)]);
    }
}
