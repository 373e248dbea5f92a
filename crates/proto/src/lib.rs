//! ZooKeeper's vocabulary as Rust types: the jute codec, requests, replies, watch events, txns,
//! ids, error codes and path rules.
//!
//! In: bytes from a socket or a file. Out: values, and bytes again. Nothing here knows a clock, a
//! socket, a file or the state of a tree. Decoding borrows from the input wherever it can, so a
//! request costs no allocation until the caller keeps a part of it.
//!
//! Invariant: no decoder trusts a length it has not compared with the bytes that are really there,
//! so hostile input costs at most memory in proportion to its own size.

pub mod acl;
pub mod connect;
mod encode;
pub mod error_code;
pub mod event;
pub mod ids;
pub mod jute;
pub mod limits;
pub mod membership;
pub mod multi;
pub mod notification;
pub mod op;
pub mod path;
pub mod quorum;
pub mod quorum_auth;
pub mod reply;
pub mod request;
pub mod stat;
pub mod txn;

pub use acl::{Acl, Id, Perms};
pub use connect::{ConnectRequest, ConnectResponse};
pub use error_code::ErrorCode;
pub use event::{EventType, WatchedEvent};
pub use ids::{EPOCH_MAX, ServerId, SessionId, Xid, Zxid};
pub use jute::{DecodeError, JuteReader, JuteWrite};
pub use membership::{Member, Membership};
pub use notification::{Notification, ServerState, Vote};
pub use op::OpCode;
pub use quorum::{LearnerKind, QuorumPacket};
pub use quorum_auth::{AuthStatus, QuorumAuthPacket};
pub use request::{ReadRequest, Request, WriteRequest};
pub use stat::{Stat, StatPersisted};
pub use txn::{Txn, TxnDigest, TxnHeader};

/// The examples of the README, which are compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
