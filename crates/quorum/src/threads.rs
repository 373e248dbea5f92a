//! The threads of the network and the sockets they may be waiting for, so that all of them can be
//! stopped. A thread waits for a socket (which can be shut down), for a condition (which can be signalled) or
//! for time to pass (here); only the system's resolver cannot be interrupted.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::warn;

use herdsman_runtime::spawn;

/// A thread may be about to wait when it is woken for the first time, so it is woken again.
const WAKE_AGAIN: Duration = Duration::from_millis(10);
/// Threads that have not ended by then hang in the resolver or the receiver and are detached.
const STOP_WAIT: Duration = Duration::from_secs(15);

/// All threads of one network.
#[derive(Default)]
pub(crate) struct Threads {
    state: Arc<ThreadTable>,
}

#[derive(Default)]
struct ThreadTable {
    stopping: AtomicBool,
    running: Mutex<Running>,
    changed: Condvar,
}

#[derive(Default)]
struct Running {
    next: u64,
    handles: BTreeMap<u64, JoinHandle<()>>,
    /// Finished threads that are to be joined.
    ended: Vec<u64>,
    sockets: Vec<Weak<TcpStream>>,
}

impl Running {
    fn reap(&mut self) -> Vec<JoinHandle<()>> {
        let ended = std::mem::take(&mut self.ended);
        ended.iter().filter_map(|id| self.handles.remove(id)).collect()
    }
}

/// Marks a thread as finished when dropped, also after a panic.
struct Ending {
    shared: Arc<ThreadTable>,
    id: u64,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.running.lock().ended.push(self.id);
        self.shared.changed.notify_all();
    }
}

impl Threads {
    /// Starts a thread, unless the network is stopping.
    pub fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut running = self.state.running.lock();
        if self.is_stopping() {
            return Err(io::Error::other("the network is stopping"));
        }
        let id = running.next;
        running.next += 1;
        let shared = Arc::clone(&self.state);
        let whole = move || {
            // Created here: if the thread cannot be started, the closure is dropped under the lock that
            // dropping this takes.
            let _ending = Ending { shared, id };
            work();
        };
        let handle = spawn(name, whole)?;
        running.handles.insert(id, handle);
        let ended = running.reap();
        drop(running);
        join(ended);
        Ok(())
    }

    pub fn is_stopping(&self) -> bool {
        self.state.stopping.load(Ordering::Acquire)
    }

    /// Registers a socket, so that a stop shuts it down.
    pub fn watch(&self, stream: &Arc<TcpStream>) {
        let mut running = self.state.running.lock();
        running.sockets.retain(|socket| socket.strong_count() > 0);
        running.sockets.push(Arc::downgrade(stream));
    }

    /// Sleeps until the time has passed or the network stops.
    pub fn pause(&self, duration: Duration) {
        let deadline = Instant::now() + duration;
        let mut running = self.state.running.lock();
        while !self.is_stopping()
            && !self.state.changed.wait_until(&mut running, deadline).timed_out()
        {}
    }

    /// Stops all threads. `wake` wakes those that wait for a condition.
    pub fn stop(&self, wake: impl Fn()) {
        self.state.stopping.store(true, Ordering::Release);
        // The network may be dropped by one of its own threads.
        let own = std::thread::current().id();
        self.state.running.lock().handles.retain(|_, handle| handle.thread().id() != own);
        let deadline = Instant::now() + STOP_WAIT;
        loop {
            for socket in self.sockets() {
                cut(&socket);
            }
            wake();
            let mut running = self.state.running.lock();
            let ended = running.reap();
            if running.handles.is_empty() || Instant::now() >= deadline {
                let left = running.handles.len();
                drop(running);
                join(ended);
                if left > 0 {
                    warn!("{left} network threads did not end in time");
                }
                return;
            }
            if ended.is_empty() {
                self.state.changed.notify_all();
                self.state.changed.wait_for(&mut running, WAKE_AGAIN);
            }
            drop(running);
            join(ended);
        }
    }

    fn sockets(&self) -> Vec<Arc<TcpStream>> {
        self.state.running.lock().sockets.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Joins finished threads; none of them is the current one.
fn join(handles: Vec<JoinHandle<()>>) {
    for handle in handles {
        if handle.join().is_err() {
            warn!("a network thread panicked");
        }
    }
}

/// Shuts a socket down in both directions.
pub(crate) fn cut(stream: &TcpStream) {
    _ = stream.shutdown(Shutdown::Both);
}
