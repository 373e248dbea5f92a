//! A bounded queue of log lines: threads of the server append lines, and one thread writes them to standard error.
//!
//! The thread that logs may hold a lock that other threads wait for, and standard error may be a pipe that is not
//! read. So appending a line never blocks: if the queue is full the line is dropped and counted, and a later line
//! reports how many were dropped. Lines that are in the queue when the process is killed are lost; a clean exit, a
//! failed start and a panic wait for them, up to a limit.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

/// The size of the queue. At an ordinary log volume it takes minutes to fill.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long [`LogQueue::flush`] waits for lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A queue of log lines.
#[derive(Debug, Default)]
pub struct LogQueue {
    state: Mutex<State>,
    filled: Condvar,
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whole lines.
    lines: Vec<u8>,
    dropped: u64,
    /// The writing thread has taken lines and not written all of them yet.
    is_writing: bool,
}

impl LogQueue {
    /// Creates a queue and starts the thread that writes its lines to `target`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(target: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let queue = Arc::new(LogQueue::default());
        let written = Arc::clone(&queue);
        let write = move || written.write_lines(target);
        std::thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(queue)
    }

    /// Appends a line, or drops it if the queue is full.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.lines.len() + line.len() > QUEUE_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.lines.extend_from_slice(line);
        self.filled.notify_one();
    }

    /// Waits until everything is written, but no longer than [`FLUSH_TIMEOUT`].
    pub fn flush(&self) {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let mut state = self.state();
        while !state.lines.is_empty() || state.is_writing {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            let waited = self.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lines(&self, mut target: impl Write) {
        let mut lines = Vec::new();
        loop {
            let dropped = self.take(&mut lines);
            // There is no other place to report that a line could not be written.
            _ = target.write_all(&lines).and_then(|()| target.flush());
            lines.clear();
            if dropped > 0 {
                warn!(
                    "dropped {dropped} log lines before this one: standard error is not read fast enough"
                );
            }
            self.note_written();
        }
    }

    /// Waits for lines and takes them all, in exchange for an empty buffer. Returns how many lines were dropped
    /// since the last call.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut state = self.state();
        while state.lines.is_empty() {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.lines, lines);
        state.is_writing = true;
        std::mem::take(&mut state.dropped)
    }

    fn note_written(&self) {
        self.state().is_writing = false;
        self.written.notify_all();
    }
}

/// Each call of `write` gets one whole line.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A writer whose writes block until the test receives them.
    struct Stalled(SyncSender<Vec<u8>>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn stalled() -> (Arc<LogQueue>, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        (LogQueue::start(Stalled(sender)).expect("a thread"), receiver)
    }

    #[test]
    fn lines_keep_their_order_and_a_full_queue_drops() {
        let (queue, written) = stalled();
        queue.push(b"first\n");
        let line = [b'x'; 1000];
        // The thread may hold a full queue that it took before its write stalled, while the queue fills again: lines
        // for two queues are not enough to be sure that one is dropped.
        for _ in 0..3 * QUEUE_BYTES_MAX / line.len() {
            queue.push(&line);
        }
        let dropped = queue.state().dropped;
        assert!(dropped > 0, "nothing was dropped");
        let mut lines = written.recv().expect("it is written");
        while lines.len() < "first\n".len() + line.len() {
            lines.extend(written.recv().expect("it is written"));
        }
        assert!(lines.starts_with(b"first\nxxx"));
        assert_eq!(lines.len() % line.len(), "first\n".len(), "whole lines only");
    }

    #[test]
    fn a_flush_waits_for_what_is_written() {
        let (queue, written) = stalled();
        queue.push(b"last words\n");
        let reader = std::thread::spawn(move || written.recv());
        queue.flush();
        let lines = reader.join().expect("no panic").expect("it was written");
        assert_eq!(lines, b"last words\n");
    }
}
