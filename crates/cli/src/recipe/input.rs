//! Standard input, read in a thread of its own: it may be silent for long, and meanwhile the session must be kept and
//! Ctrl-C be heard.

use std::io::{BufRead as _, Read as _, Result};

use tokio::sync::mpsc;

/// How many lines are read before they are needed; the reader waits then.
const LINES_AHEAD_MAX: usize = 16;

/// The lines, without their ends.
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

/// All of it, as it is; one byte more than `bytes_max` if there is more.
pub(super) async fn all_of_stdin(bytes_max: u64) -> Result<Vec<u8>> {
    let (sender, mut receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(bytes_max + 1).read_to_end(&mut bytes);
        // Nobody waits for it after Ctrl-C.
        let _ = sender.blocking_send(read.map(|_| bytes));
    });
    receiver.recv().await.unwrap_or_else(|| Ok(Vec::new()))
}
