//! The operations of the protocol, grouped by file.

mod auth;
mod create;
mod delete;
mod membership;
mod read;
mod read_many;
mod transaction;
mod watch;
mod write;

pub use auth::AddCredentials;
pub use create::{Create, CreateCall, Created, Lifetime};
pub use delete::{Delete, DeleteCall};
pub use membership::{GetConfig, Reconfig};
#[cfg(feature = "json")]
pub(crate) use read::Watchable;
pub use read::{
    Children, CountDescendants, Ephemerals, Exists, Get, GetAcl, GetChildren, Node, Sync, Watched,
    WhoAmI,
};
pub use read_many::{Read, ReadMany, ReadResult};
pub use transaction::{Op, OpResult, Transaction, TransactionCall};
pub use watch::AddWatch;
pub use write::{Set, SetAcl};

/// The version that matches any version.
pub(crate) const ANY_VERSION: i32 = -1;
