//! Typed data: values of the program's own types, stored in znodes as JSON. Needs the feature `json`, which
//! is on by default.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = herdsman_testing::TestServer::start();
//! # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Limits {
//!     connections: u32,
//! }
//!
//! zk.create_json("/app/limits", &Limits { connections: 10 }).parents().await?;
//! let mut limits = zk.get_json::<Limits>("/app/limits").await?;
//! limits.value.connections *= 2;
//! // Fails if another client has changed the limits since they were read.
//! zk.set_json("/app/limits", &limits.value).version(limits.stat.version).await?;
//! # Ok(()) }
//! ```

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use herdsman_proto::{OpCode, Request, Stat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{Repeatable, ReplyError, ZnodePath};
use crate::ops::{Create, CreateCall, Get, Node, Set, Watchable, Watched};
use crate::request_queue::Answer;
use crate::watches::WatchTable;

/// A znode's data, decoded, and its stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonNode<T> {
    /// The decoded value.
    pub value: T,
    /// The stat, whose `version` is that of the value.
    pub stat: Stat,
}

/// Typed operations.
impl Client {
    /// Reads the value that a znode contains as JSON, and its stat.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the data is not JSON or not a `T`: the error names the path, what
    /// was expected, and the position in the data; its source is the `serde_json::Error`. Also the
    /// errors of [`Client::get`].
    pub fn get_json<T>(&self, path: &str) -> Call<GetJson<T>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        Call::new(self, GetJson { get: Get { path: self.path(path) }, value: PhantomData })
    }

    /// Replaces a znode's data by a value as JSON. As with [`Client::set`], the call can expect a
    /// [version](Call::<Set>::version).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], before anything is sent, if the value cannot be written as JSON.
    /// Also the errors of [`Client::set`].
    pub fn set_json<T: Serialize + ?Sized>(&self, path: &str, value: &T) -> Call<Set> {
        Call::new(self, Set::new(self.path(path), encode(value)))
    }

    /// Creates a znode that contains a value as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], before anything is sent, if the value cannot be written as JSON.
    /// Also the errors of [`Client::create`].
    pub fn create_json<T: Serialize + ?Sized>(&self, path: &str, value: &T) -> CreateCall {
        CreateCall::new(self, Create::new(self.path(path), encode(value)))
    }
}

/// Reads a value that a znode contains as JSON.
pub struct GetJson<T> {
    get: Get,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for GetJson<T> {
    fn clone(&self) -> Self {
        GetJson { get: self.get.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for GetJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetJson").field("get", &self.get).finish()
    }
}

impl<T: DeserializeOwned + Send + 'static> Call<GetJson<T>> {
    /// Also sets a watch, which resolves at the next change of the data. If the data cannot be decoded,
    /// the call fails and no watch remains.
    pub fn watch(self) -> Call<Watched<GetJson<T>>> {
        self.map(Watched)
    }
}

impl<T: DeserializeOwned + Send + 'static> Sealed for GetJson<T> {
    type Output = JsonNode<T>;

    fn op(&self) -> OpCode {
        self.get.op()
    }
    fn shown_path(&self) -> &str {
        self.get.shown_path()
    }
    fn request(&self) -> Request<'_> {
        self.get.request()
    }
    fn check(&self) -> Result<()> {
        self.get.check()
    }
    fn repeatable(&self) -> Repeatable {
        self.get.repeatable()
    }
    fn decode(&self, answer: Answer) -> std::result::Result<JsonNode<T>, ReplyError> {
        let Node { data, stat } = self.get.decode(answer)?;
        match serde_json::from_slice(&data) {
            Ok(value) => Ok(JsonNode { value, stat }),
            Err(error) => {
                let kind = ErrorKind::InvalidData(error.to_string());
                Err(ReplyError::Failure(Error::not_applied(kind).caused_by(error)))
            }
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Watchable for GetJson<T> {
    const TABLE: WatchTable = Get::TABLE;

    fn path(&self) -> &ZnodePath {
        self.get.path()
    }
    fn request_with_watch(&self, watch: bool) -> Request<'_> {
        self.get.request_with_watch(watch)
    }
}

/// Encodes the data of a write.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| {
        let text = format!("the value cannot be written as JSON: {error}");
        Error::invalid_argument(text).caused_by(error)
    })
}
