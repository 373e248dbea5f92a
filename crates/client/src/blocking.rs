//! Calls that block the thread, for programs without an async runtime. Needs the feature `blocking`, which
//! is on by default.
//!
//! There is no second client: with [`Wait`] in scope, everything that can be awaited has the methods
//! [`wait`](Wait::wait) and [`wait_timeout`](Wait::wait_timeout). That includes connecting and closing,
//! every operation with all its options, watches and events, and the futures of other crates that build on
//! the client.
//!
//! ```
//! # let server = herdsman_testing::TestServer::start();
//! # let servers = server.connect_string();
//! use std::time::Duration;
//!
//! use herdsman_client::blocking::Wait;
//! use herdsman_client::{Client, Op};
//!
//! let zk = Client::connect(&servers).wait()?;
//! zk.create("/app/config", "v1").parents().wait()?;
//! let (node, mut changed) = zk.get("/app/config").watch().wait()?;
//! assert_eq!(node.data, "v1");
//! zk.set("/app/config", "v2").version(node.stat.version).wait()?;
//!
//! // A watch that has not fired yet can be waited for again.
//! match (&mut changed).wait_timeout(Duration::from_secs(10)) {
//!     Some(event) => println!("{:?}", event?.kind),
//!     None => println!("no change in 10 s"),
//! }
//!
//! // Many requests in flight at once: send all of them, then wait.
//! let sent: Vec<_> = (0..10).map(|n| zk.create(&format!("/app/{n}"), "").send()).collect();
//! for reply in sent {
//!     reply.wait()?;
//! }
//! zk.close().wait()?;
//! # Ok::<(), herdsman_client::Error>(())
//! ```
//!
//! **Threads.** The first call starts one thread, `herdsman-client`, with a runtime that drives the
//! connections of all clients of the process that were connected or started outside of any other runtime.
//! It runs until the process ends, and does not exist in a child process after `fork`. A call itself runs on
//! the thread that waits for it, and any number of threads can wait at once.
//!
//! **Functions that are not async but start tasks** need no `wait`. A client started with
//! [`Options::start`](crate::Options::start) outside a runtime uses the background thread. Tasks that recipes
//! start with [`Client::spawn`](crate::Client::spawn) run in their client's runtime.
//!
//! **At the end of the program.** A client that is dropped closes its session in the background. If the process
//! ends first, the session's ephemeral znodes stay until the session times out. Call
//! [`Client::close`](crate::Client::close) and wait for it.
//!
//! **In async code.** Blocking a thread that drives async tasks would stop all of them, so `wait` panics there:
//! await the call instead. Threads of `tokio::task::spawn_blocking`, and code in `tokio::task::block_in_place`,
//! may wait.

use std::future::IntoFuture;
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::task::coop;

/// Waits for a future, or for anything that can be converted to one, on the current thread. See the
/// [module](self).
pub trait Wait: IntoFuture + Sized {
    /// Blocks until the future is ready.
    ///
    /// # Panics
    /// Inside an async task, and if the background thread cannot be started.
    fn wait(self) -> Self::Output {
        runtime().block_on(self.into_future())
    }

    /// Blocks until the future is ready, but not for longer than this; `None` after a timeout.
    ///
    /// After a timeout the future is dropped. For an operation that was sent this means that its outcome
    /// is unknown: give the operation a [deadline](crate::Call::deadline) instead, whose error says
    /// whether it was applied. A watch that is passed by `&mut` is kept.
    ///
    /// # Panics
    /// Inside an async task, and if the background thread cannot be started.
    fn wait_timeout(self, limit: Duration) -> Option<Self::Output> {
        let future = self.into_future();
        runtime().block_on(async { tokio::time::timeout(limit, future).await.ok() })
    }
}

impl<F: IntoFuture> Wait for F {}

/// Returns the runtime to wait in.
fn runtime() -> Handle {
    assert!(
        !is_inside_async_task(),
        "herdsman_client::blocking: `wait` was called inside an async task and would block the thread \
         that drives it; use `.await` here, or move the call into tokio::task::spawn_blocking"
    );
    background().unwrap_or_else(|error| {
        panic!("herdsman_client::blocking: cannot start the background thread: {error}")
    })
}

/// Returns the runtime that drives all clients of the process that were created outside of any other runtime.
pub(crate) fn background() -> io::Result<Handle> {
    static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock();
    if let Some(handle) = &*runtime {
        return Ok(handle.clone());
    }
    let handle = start()?;
    Ok(runtime.insert(handle).clone())
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("herdsman-client".to_owned()).spawn(drive)?;
    Ok(handle)
}

/// More than tokio's budget of a task before it has to yield (128 at present).
const BUDGET_MAX: usize = 1024;

/// Whether this thread is polling an async task. Tokio has no function for that; blocking in a task panics. But tokio
/// gives a task a budget before it must yield, and gives none to plain threads or threads that may block: if the
/// budget can be used up, this is a task.
fn is_inside_async_task() -> bool {
    let context = &mut Context::from_waker(Waker::noop());
    Handle::try_current().is_ok()
        && (0..BUDGET_MAX).any(|_| {
            // Pending once the budget is used up; otherwise this uses a part of it.
            pin!(coop::consume_budget()).poll(context).is_pending() || !coop::has_budget_remaining()
        })
}
