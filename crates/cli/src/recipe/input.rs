//! Standard input, read in a separate thread: while it blocks, the session must be kept alive and Ctrl-C must work.

use std::io::{BufRead as _, Read as _, Result};

use tokio::sync::mpsc;

/// How many lines are read ahead before the reading thread waits.
const LINES_AHEAD_MAX: usize = 16;

/// Returns the lines of standard input, without line ends.
pub(super) fn lines_of_stdin() -> mpsc::Receiver<Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns all of standard input, but at most `bytes_max` + 1 bytes, so that the caller can detect longer input.
pub(super) async fn all_of_stdin(bytes_max: u64) -> Result<Vec<u8>> {
    let (sender, mut receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes);
        // The receiver is dropped after Ctrl-C.
        let _ = sender.blocking_send(read.map(|_| bytes));
    });
    receiver.recv().await.unwrap_or_else(|| Ok(Vec::new()))
}
