//! One server's mind: what to do with each thing that happens to it.
//!
//! In: [`Input`], one at a time, with the time. Out: [`Outputs`], a plain list of what the driver
//! must carry out. No clock, thread, socket or file of its own, so a test or a simulator drives the
//! same code as the server does.
//!
//! The way of a write: [`Node::step`] prepares it against the tree and what is in flight, and asks
//! for its bytes to be appended. When the log reports them durable, they are committed;
//! [`Node::apply`] puts them into the tree and says what to tell whom. Nothing that depends on a
//! write is ever said before that write is durable.
//!
//! Most reads do not come here: the thread that owns a connection answers them from the tree. Those that
//! follow a write of their own session do, see [`reads`].

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
pub mod sessions;
pub mod sweeper;

pub use io::{ClientRequest, ConnId, Input, Now, Output, Outputs, StorageState};
pub use node::{
    LeaderServes, LocalSessions, Node, NodeSettings, ServesAs, membership_in, membership_of,
};
pub use passwords::{KeyUse, SessionKey, SessionPasswords};
