//! Messages through the tree: heartbeats, progress reports, and commands with acknowledgements.
//!
//! * [`Heartbeat`] and [`HeartbeatMonitor`]: which programs are connected, and which of them have stopped working.
//! * [`ProgressReporter`] and [`ProgressFeed`]: one program reports its progress, others follow it.
//!   [`LiveProgressReporter`]: the same, and others notice when the program has ended.
//! * [`Dispatcher`] and [`CommandClient`]: a console sends a command to many clients, each carries it out once and
//!   acknowledges it, and the console knows which acknowledgements are missing.
//!
//! These layouts are our own; Curator has no equivalent. A tree is not a message broker: every message is a write
//! that a majority stores, and all are kept in memory. Everything here is bounded: only the latest heartbeat and
//! progress are kept, and a limited number of commands.

mod command_client;
mod commands;
mod dispatch;
pub(crate) mod envelope;
mod health;
mod heartbeat;
mod heartbeat_monitor;
mod live_progress;
mod progress;

pub use command_client::{Command, CommandClient, Repetition};
pub use commands::{Ack, CommandId};
pub use dispatch::{Answer, Dispatched, Dispatcher};
pub use health::{Health, HeartbeatEvent};
pub use heartbeat::Heartbeat;
pub use heartbeat_monitor::HeartbeatMonitor;
pub use live_progress::{LiveProgress, LiveProgressReporter};
pub use progress::{Progress, ProgressFeed, ProgressReporter};
