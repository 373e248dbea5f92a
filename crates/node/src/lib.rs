//! The per-server state machine: decides what a server does about each event.
//!
//! In: [`Input`], one at a time, with the time. Out: [`Outputs`], a plain list of actions for the driver.
//! It has no clock, thread, socket or file of its own, so a test or a simulator drives the
//! same code as the server does.
//!
//! The path of a write: [`Node::step`] prepares it against the tree and the writes in flight, and requests
//! that its bytes are appended to the log. When the log reports them durable, they are committed;
//! [`Node::apply`] puts them into the tree and lists the replies and events. Nothing that depends on a
//! write is sent before that write is durable.
//!
//! Most reads do not pass through here: the thread that owns a connection answers them from the tree. Those that
//! follow a write of their own session do, see [`reads`].

pub mod closing;
pub mod cxids;
pub mod ended;
pub mod expiry;
pub mod forwarding;
pub mod io;
pub mod node;
pub mod passwords;
pub mod pending;
pub mod reads;
pub mod reconfig;
pub mod revalidations;
pub mod sessions;
pub mod sweeper;

pub use io::{ClientRequest, ConnId, Input, Now, Output, Outputs, StorageState};
pub use node::{
    LeaderServes, LocalSessions, Node, NodeSettings, ServesAs, membership_in, membership_of,
};
pub use passwords::{KeyUse, SessionKey, SessionPasswords};
