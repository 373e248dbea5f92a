//! Standard input, read in a thread of its own: it may be silent for long, and meanwhile the session must be kept and
//! Ctrl-C be heard.

use std::io::{BufRead as _, Result};

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
