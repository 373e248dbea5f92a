//! Creation of znodes: of every kind, with parents, and protected against a lost reply.

use std::future::{IntoFuture, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::request::CreateRequest;
use herdsman_proto::{Acl, JuteReader, OpCode, Request, Stat, WriteRequest, path};
use tokio::time::timeout;
use uuid::Uuid;

use crate::call::{Call, Reply};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{self, Repeatable, ReplyError, ZnodePath};
use crate::request_queue::Answer;

mod multi_request;

/// How long a znode lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deleted.
    #[default]
    Persistent,
    /// Until the session that created it ends.
    Ephemeral,
    /// Until its last child is deleted.
    Container,
    /// Until it has had no change and no children for this long.
    Ttl(Duration),
}

/// A znode that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its path, with the number that the server has appended to the name of a sequential znode.
    pub path: String,
    /// Its stat.
    pub stat: Stat,
}

impl Created {
    /// Returns the last component of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        path::split(&self.path).map_or(self.path.as_str(), |(_, name)| name)
    }
}

/// Creates a znode.
#[derive(Clone, Debug)]
pub struct Create {
    pub(crate) path: ZnodePath,
    /// The data; an error if the value could not be encoded, which fails the call.
    data: Result<Bytes>,
    /// `None`: the default of the client that makes the request.
    acl: Option<Arc<[Acl]>>,
    lifetime: Lifetime,
    sequential: bool,
}

impl Create {
    pub(crate) fn new(path: ZnodePath, data: Result<Bytes>) -> Self {
        Create { path, data, acl: None, lifetime: Lifetime::Persistent, sequential: false }
    }

    pub(crate) fn set_lifetime(&mut self, lifetime: Lifetime) {
        self.lifetime = lifetime;
    }

    pub(crate) fn set_sequential(&mut self) {
        self.sequential = true;
    }

    pub(crate) fn set_acl(&mut self, acl: Vec<Acl>) {
        self.acl = Some(acl.into());
    }

    /// Sets the ACL unless another one was set.
    pub(crate) fn set_default_acl(&mut self, acl: &Arc<[Acl]>) {
        self.acl.get_or_insert_with(|| acl.clone());
    }

    pub(crate) fn write_request(&self) -> WriteRequest<'_> {
        let (op, flags, ttl_ms) = match (self.lifetime, self.sequential) {
            (Lifetime::Persistent, sequential) => {
                (OpCode::Create2, 2 * i32::from(sequential), None)
            }
            (Lifetime::Ephemeral, sequential) => {
                (OpCode::Create2, 1 + 2 * i32::from(sequential), None)
            }
            (Lifetime::Container, _) => (OpCode::CreateContainer, 4, None),
            (Lifetime::Ttl(ttl), sequential) => {
                let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
                (OpCode::CreateTtl, 5 + i32::from(sequential), Some(ttl_ms))
            }
        };
        WriteRequest::Create(CreateRequest {
            op,
            path: self.path.full().into(),
            data: self.data.as_deref().ok(),
            acl: self.acl.as_deref().map_or_else(|| Acl::open().into(), <[Acl]>::to_vec),
            flags,
            ttl_ms,
        })
    }

    pub(crate) fn decode_created(
        path: &ZnodePath,
        reader: &mut JuteReader<'_>,
    ) -> std::result::Result<Created, ReplyError> {
        let full = reader.required_string()?;
        Ok(Created { path: path.show(&full), stat: Stat::decode(reader)? })
    }
}

impl Sealed for Create {
    type Output = Created;

    fn op(&self) -> OpCode {
        self.write_request().op()
    }
    fn shown_path(&self) -> &str {
        self.path.shown()
    }
    fn request(&self) -> Request<'_> {
        Request::Write(self.write_request())
    }
    fn check(&self) -> Result<()> {
        if self.sequential {
            self.path.check_sequential()?;
        } else {
            self.path.check()?;
        }
        self.data.as_ref().map_err(Clone::clone)?;
        match self.lifetime {
            Lifetime::Container if self.sequential => {
                Err(Error::invalid_argument("a container cannot be sequential"))
            }
            Lifetime::Ttl(ttl) if ttl.as_millis() == 0 => {
                Err(Error::invalid_argument("a time to live must be at least 1 ms"))
            }
            _ => Ok(()),
        }
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, answer: Answer) -> std::result::Result<Created, ReplyError> {
        Create::decode_created(&self.path, &mut JuteReader::new(&answer.body))
    }
}

/// A creation that is ready to be sent.
#[derive(Clone, Debug)]
#[must_use = "nothing is created until the call is awaited or sent"]
pub struct CreateCall {
    call: Call<Create>,
    parents: Option<Lifetime>,
    /// A prefix of the name that is unique to this call.
    protection: Option<String>,
}

impl CreateCall {
    pub(crate) fn new(client: &Client, mut op: Create) -> Self {
        op.set_default_acl(client.default_acl());
        CreateCall { call: Call::new(client, op), parents: None, protection: None }
    }

    /// The znode is deleted when the session ends.
    pub fn ephemeral(self) -> Self {
        self.lifetime(Lifetime::Ephemeral)
    }

    /// The znode is deleted when its last child has been deleted.
    pub fn container(self) -> Self {
        self.lifetime(Lifetime::Container)
    }

    /// The znode is deleted when it has had no change and no children for this long. Servers need
    /// `zookeeper.extendedTypesEnabled` for it.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.lifetime(Lifetime::Ttl(ttl))
    }

    /// Sets how long the znode lives.
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.call.op.lifetime = lifetime;
        self
    }

    /// The server appends a number to the name that increases with each child of the parent.
    pub fn sequential(mut self) -> Self {
        self.call.op.sequential = true;
        self
    }

    /// Sets the ACL of the znode. Without this it gets the client's default ACL
    /// ([`Options::default_acl`](crate::Options::default_acl)), as missing parents always do.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.call.op.set_acl(acl.into());
        self
    }

    /// Creates missing parents, as persistent znodes. Costs nothing if they exist.
    pub fn parents(mut self) -> Self {
        self.parents = Some(Lifetime::Persistent);
        self
    }

    /// Creates missing parents, as containers, which are deleted when they are empty.
    pub fn container_parents(mut self) -> Self {
        self.parents = Some(Lifetime::Container);
        self
    }

    /// Makes the creation survive a lost reply: the name gets a unique prefix (`_c_<uuid>-`, as in
    /// Curator), by which the znode is found again. If the call fails nevertheless, or its future is
    /// dropped, the znode is deleted in the background while the session lives.
    pub fn protected(self) -> Self {
        self.protected_by(format!("_c_{}-", Uuid::new_v4()))
    }

    /// Like [`CreateCall::protected`], with a prefix chosen by the caller, for layouts other than
    /// Curator's. It must be unique, for example contain a UUID.
    pub fn protected_by(mut self, unique_prefix: String) -> Self {
        self.protection = Some(unique_prefix);
        self
    }

    /// Fails after this time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.call = self.call.deadline(deadline);
        self
    }

    /// Sends the request now; the reply can be awaited later.
    pub fn send(mut self) -> Reply<Created> {
        if self.parents.is_none() && self.protection.is_none() {
            return self.call.send();
        }
        if let Some(prefix) = &self.protection {
            if let Err(error) = self.call.op.check() {
                return Box::pin(ready(Err(operation::locate(&self.call.op, error))));
            }
            self.call.op.path = self.call.op.path.with_name_prefix(prefix);
        }
        // One deadline applies to all requests of this call together.
        let deadline = self.call.deadline.take();
        let late = Error::unknown(ErrorKind::DeadlineExceeded);
        let late = operation::locate(&self.call.op, late);
        let reply = multi_request::run(self);
        match deadline {
            None => reply,
            Some(deadline) => {
                Box::pin(async move { timeout(deadline, reply).await.unwrap_or(Err(late)) })
            }
        }
    }
}

/// Joins `parent` and `name` to one path.
pub(crate) fn join(parent: &str, name: &str) -> String {
    let parent = parent.strip_suffix('/').unwrap_or(parent);
    format!("{parent}/{name}")
}

impl IntoFuture for CreateCall {
    type Output = Result<Created>;
    type IntoFuture = Reply<Created>;

    fn into_future(self) -> Self::IntoFuture {
        self.send()
    }
}
