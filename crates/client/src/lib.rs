//! An async client for Herdsman and Apache ZooKeeper 3.5 and newer.
//!
//! * **Order.** Requests of one client reach the server in the order in which they were made, many
//!   of them under way at once. See [`Call`].
//! * **Honesty.** An error says whether the operation was applied, was not, or may have been. See
//!   [`Outcome`]. Only what is safe is repeated, as the [retry policy](retry) says.
//! * **Sessions.** A [`Session`] ends when it ends; a managed [`Client`] opens the next one and says
//!   so in its [events](Client::events).
//! * **Watches are values.** A one-shot [`Watch`] is a future, a [`PersistentWatch`] a stream that
//!   reports gaps. Dropping either removes it on the server.
//! * **Cancellation.** Any future may be dropped at any time; the connection does not mind.
//! * **Protection.** Connections go through TLS ([`Options::tls`]) and log in with SASL
//!   ([`Options::sasl`], [`Options::log_in`]) where the servers want it.

mod backoff;
mod call;
mod client;
mod configuration;
mod connect_string;
mod dial;
mod error;
mod fenced;
mod hosts;
mod managed;
mod operation;
pub mod ops;
mod options;
mod outgoing;
pub mod retry;
pub mod sasl;
mod session;
mod state;
pub mod tls;
mod watch;
mod watches;

pub use call::{Call, Reply};
pub use client::Client;
pub use configuration::{ClientConfiguration, ConfigurationError};
pub use connect_string::{ConnectString, ConnectStringError, HostPort};
pub use dial::{Dial, Dialing};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use fenced::Fenced;
pub use herdsman_proto::acl::{Acl, Id, Perms};
pub use herdsman_proto::connect::Password;
pub use herdsman_proto::{EventType, SessionId, Stat, Zxid};
pub use operation::check_path;
pub use ops::{Children, Created, Lifetime, Node, Op, OpResult, Read, ReadResult};
pub use options::{Options, ReadOnlyServers};
pub use retry::RetryPolicy;
pub use session::Session;
pub use state::{ConnectionEvent, ConnectionEvents, ConnectionState};
pub use watch::{PersistentWatch, Watch, WatchEvent, WatchUpdate};
