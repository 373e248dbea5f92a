//! Messages by way of the tree: heartbeats, progress reports, and commands with acknowledgements.
//!
//! * [`Heartbeat`] and [`HeartMonitor`]: who is there, and who is there but has stopped working.
//! * [`ProgressReporter`] and [`ProgressFeed`]: one program says how far it is, others look on.
//!   [`LiveProgressReporter`]: the same, and others notice when the program has gone.
//! * [`Dispatcher`] and [`CommandClient`]: a console sends a command to many clients, each carries
//!   it out once and acknowledges it, and the console sees who has not.
//!
//! These layouts are our own; Curator has nothing of the kind. A tree is no message broker: every
//! message is a write that a majority stores, and all are kept in memory. Everything here is
//! bounded: only the latest heartbeat and progress are kept, and a limited number of commands.

mod command_client;
mod commands;
mod dispatch;
pub(crate) mod envelope;
mod heart_monitor;
mod heartbeat;
mod live_progress;
mod progress;
mod vitals;

pub use command_client::{Command, CommandClient, Repetition};
pub use commands::{Ack, CommandId};
pub use dispatch::{Answer, Dispatched, Dispatcher};
pub use heart_monitor::HeartMonitor;
pub use heartbeat::Heartbeat;
pub use live_progress::{LiveProgress, LiveProgressReporter};
pub use progress::{Progress, ProgressFeed, ProgressReporter};
pub use vitals::{Health, HeartEvent};
