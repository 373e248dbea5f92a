//! Writes a node only if it has not changed, even if a reply is lost.
//!
//! In: a path, the version that was read, new data. Out: written, or overtaken by another client, or an error with
//! the right outcome. After a lost reply the node is read: it shows what has happened, as long as no other client has
//! changed it since. What it cannot show is *who* wrote equal data at the same version; [`SameData`] decides how to
//! interpret that.

use bytes::Bytes;
use herdsman_client::{Client, Error as ClientError, ErrorKind, Node, Op, OpResult, Outcome, Stat};

use crate::error::{Error, Result};

/// A version that means "any" on the wire, and so cannot be a condition.
const ANY_VERSION: i32 = -1;
/// Lost replies in a row after which the last of these errors is returned.
const LOST_MAX: usize = 16;

/// How to interpret that after a lost reply the node has the next version, and exactly our data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameData {
    /// It is our write, or an equal one, which makes no difference.
    IsOurs,
    /// Another client may have written the same data: the outcome stays unknown.
    ProvesNothing,
}

/// How a conditional write ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The node has our data; this is its stat.
    Yes(Stat),
    /// Another client was faster. Nothing was changed.
    Overtaken,
}

/// A write on the condition that the node's data has `version`.
#[derive(Debug)]
pub(crate) struct ConditionalSet<'a> {
    pub(crate) client: &'a Client,
    pub(crate) path: &'a str,
    pub(crate) data: Bytes,
    pub(crate) version: i32,
    pub(crate) same_data: SameData,
    /// An operation in the same transaction.
    pub(crate) along: Option<Op>,
}

/// What the node shows after a lost reply.
enum Verdict {
    /// The write has not happened and may be tried again.
    NotWritten,
    Settled(Written),
    /// The node has changed again since.
    Unknowable,
}

impl ConditionalSet<'_> {
    pub(crate) async fn run(self) -> Result<Written> {
        if self.version == ANY_VERSION {
            return Err(Error::invalid("version -1 means any version and cannot be compared with"));
        }
        let mut lost = None;
        for _ in 0..LOST_MAX {
            match self.attempt().await {
                Ok(stat) => return Ok(Written::Yes(stat)),
                Err(error) if error.outcome() == Outcome::Unknown => lost = Some(error),
                Err(error) if *error.kind() != ErrorKind::BadVersion => {
                    return Err(lost.unwrap_or(error).into());
                }
                Err(_) if lost.is_none() => return Ok(Written::Overtaken),
                // The version may have been changed by this write's own lost attempt.
                Err(_) => {}
            }
            match self.read_verdict().await {
                Ok(Verdict::NotWritten) => {}
                Ok(Verdict::Settled(written)) => return Ok(written),
                Ok(Verdict::Unknowable) | Err(_) => break,
            }
        }
        Err(lost.unwrap_or_else(|| ClientError::unknown(ErrorKind::ConnectionLoss)).into())
    }

    async fn attempt(&self) -> herdsman_client::Result<Stat> {
        let Some(along) = &self.along else {
            return self.client.set(self.path, self.data.clone()).version(self.version).await;
        };
        let set = Op::set(self.path, self.data.clone()).version(self.version);
        let results = self.client.transaction([set, along.clone()]).await?;
        match results.into_iter().next() {
            Some(OpResult::Set(stat)) => Ok(stat),
            // Not the result that was asked for; the node shows what happened.
            _ => Err(ClientError::unknown(ErrorKind::Unimplemented)),
        }
    }

    async fn read_verdict(&self) -> herdsman_client::Result<Verdict> {
        self.client.sync(self.path).await?;
        Ok(self.judge(&self.client.get(self.path).await?))
    }

    fn judge(&self, now: &Node) -> Verdict {
        if now.stat.version == self.version {
            Verdict::NotWritten
        } else if now.stat.version != self.version.wrapping_add(1) {
            Verdict::Unknowable
        } else if now.data != self.data {
            Verdict::Settled(Written::Overtaken)
        } else {
            match self.same_data {
                SameData::IsOurs => Verdict::Settled(Written::Yes(now.stat)),
                SameData::ProvesNothing => Verdict::Unknowable,
            }
        }
    }
}
