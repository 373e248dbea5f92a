//! An async client for Herdsman and Apache ZooKeeper 3.5 and newer.
//!
//! * **Order.** Requests of one client reach the server in the order in which they were made, with many in flight at
//!   once. See [`Call`].
//! * **Known outcomes.** An error says whether the operation was applied, was not applied, or may have been applied.
//!   See [`Outcome`]. Only operations that are safe to repeat are retried, as the [retry policy](retry) allows.
//! * **Sessions.** A [`Session`] is not replaced when it ends; a managed [`Client`] opens a new one and reports that
//!   in its [events](Client::events).
//! * **Watches are values.** A one-shot [`Watch`] is a future, a [`PersistentWatch`] a stream that
//!   reports gaps. Dropping either removes it on the server.
//! * **Cancellation.** Any future may be dropped at any time without harm to the connection.
//! * **Typed data.** [`Client::get_json`] and [`Client::set_json`] read and write values of the
//!   program's own types.
//! * **Without async.** With [`blocking::Wait`] in scope, every call can block the thread instead.
//! * **Observability.** Every call is a [span](#spans) of `tracing`, and ends with an event and with a report
//!   to [`Options::on_call`].
//! * **Servers.** A client tries [preferred](Options::prefer) servers first and returns to them, and can
//!   [follow the membership](Options::follow_membership) of the ensemble.
//! * **Security.** TLS ([`Options::tls`]) and SASL logins ([`Options::sasl`], [`Options::log_in`]).
//!
//! # Spans
//! With a subscriber that enables spans of target `herdsman_client::call` at level DEBUG, each request has a span
//! `call`. It has `op` and `path` from the start, and when the request has ended `outcome` (`"ok"`, `Applied`,
//! `NotApplied` or `Unknown`), `error`, `elapsed_us` and `attempts`. A call that takes several requests has a span
//! for each. The parent is the span in which the call was made. The span contains an event for each change of the
//! connection during the call, and for each retry. An event for logs follows, outside the span, with the same
//! fields (but `elapsed` instead of `elapsed_us`). A call whose future is dropped leaves a span without an outcome.
//! Without a subscriber or hook, this costs three branches per call.
//!
//! An example (with the feature `env-filter` of `tracing-subscriber`; a program uses `.init()` instead of
//! `.finish()` and `set_default`, which is for one thread only):
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = herdsman_testing::TestServer::start();
//! # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
//! use tracing_subscriber::fmt::format::FmtSpan;
//!
//! // Logs each span of the client when it ends. A layer that exports spans, for example to OpenTelemetry,
//! // takes the place of this.
//! let subscriber = tracing_subscriber::fmt()
//!     .with_env_filter("herdsman_client::call=debug")
//!     .with_span_events(FmtSpan::CLOSE)
//!     .finish();
//! let _guard = tracing::subscriber::set_default(subscriber);
//! zk.create("/a", "x").await?;
//! // … DEBUG call{op="create2" path="/a" outcome="ok" elapsed_us=412 attempts=1}: … close time.busy=… time.idle=…
//! # Ok(()) }
//! ```
//!
//! # Features
//! The features `blocking`, `json`, `sasl` and `tls` are on by default, `kerberos` is not. Without any
//! of them, the client uses plain TCP and has about a third of the dependencies.

mod backoff;
#[cfg(feature = "blocking")]
pub mod blocking;
mod call;
mod client;
#[cfg(feature = "sasl")]
mod configuration;
mod connect_string;
mod dial;
mod error;
mod fenced;
mod follow;
mod hosts;
#[cfg(feature = "json")]
pub mod json;
mod managed;
mod operation;
pub mod ops;
mod options;
mod report;
mod request_queue;
pub mod retry;
#[cfg(feature = "sasl")]
pub mod sasl;
mod session;
mod state;
#[cfg(feature = "tls")]
pub mod tls;
mod watch;
mod watches;

pub use call::{Call, Reply};
pub use client::Client;
#[cfg(feature = "sasl")]
pub use configuration::{ClientConfiguration, ConfigurationError};
pub use connect_string::{ConnectString, ConnectStringError, HostPort};
pub use dial::{Dial, Dialing};
pub use error::{Error, ErrorKind, Optional, Outcome, Result};
pub use fenced::Fenced;
pub use herdsman_proto::acl::{Acl, Id, Perms};
pub use herdsman_proto::connect::Password;
pub use herdsman_proto::{EventType, SessionId, Stat, Zxid};
pub use operation::check_path;
pub use ops::{Children, Created, Lifetime, Node, Op, OpResult, Read, ReadResult};
pub use options::{Options, ReadOnlyServers};
pub use report::CallReport;
pub use retry::RetryPolicy;
pub use session::Session;
pub use state::{ConnectionEvent, ConnectionEvents, ConnectionState};
pub use watch::{PersistentWatch, Watch, WatchEvent, WatchUpdate};

/// The examples of the README, which are compiled with those of the documentation.
#[cfg(all(doctest, feature = "blocking"))]
#[doc = include_str!("../README.md")]
struct Readme;
