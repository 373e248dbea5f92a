//! The thread behind a group of ports, with its own runtime, so that requests of operators do not slow down
//! clients.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tracing::error;

use super::port::{self, Port};

/// Blocking threads. More requests wait for one of them.
const BLOCKING_THREADS_MAX: usize = 16;
/// How long the stop waits for blocking threads.
const BLOCKING_GRACE: Duration = Duration::from_secs(1);

/// Ports that are being served. Dropping it stops them within seconds.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Serves the ports on a new thread of this name, and runs `beside` until they end.
    pub fn start(
        name: &'static str,
        ports: Vec<Port>,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let work = move || {
            if let Err(error) = run(ports, beside, &stopped) {
                error!(
                    "the HTTP ports of the thread {name} were closed: {error}; restart the server"
                );
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Serving { stop, thread: Some(thread) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn run(
    ports: Vec<Port>,
    beside: impl Future<Output = ()> + Send + 'static,
    stopped: &watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let served = runtime.block_on(async {
        // The task ends with the runtime.
        tokio::spawn(beside);
        let serving = ports.into_iter().map(|port| port::serve(port, stopped.clone()));
        try_join_all(serving).await.map(|_| ())
    });
    runtime.shutdown_timeout(BLOCKING_GRACE);
    served
}
