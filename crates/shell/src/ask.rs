//! Questions to the user at the terminal.

use std::io::{self, BufRead, Write};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::failure::Failure;

/// Asks the user questions.
pub(crate) trait Ask: Send {
    /// Asks a question. Returns the answer without its line end, empty if there is none.
    fn ask(&mut self, question: String) -> BoxFuture<'_, Result<String, Failure>>;
}

/// Asks on standard error and reads a line of standard input.
pub(crate) struct AskOnTerminal;

impl Ask for AskOnTerminal {
    /// Waits on another thread, because the session must be kept alive meanwhile.
    fn ask(&mut self, question: String) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            let asked = tokio::task::spawn_blocking(move || ask_and_wait(&question)).await;
            asked
                .unwrap_or_else(|error| Err(io::Error::other(error)))
                .map_err(|error| Failure::failed(format!("reading the answer: {error}")))
        }
        .boxed()
    }
}

fn ask_and_wait(question: &str) -> io::Result<String> {
    let mut errors = io::stderr().lock();
    errors.write_all(question.as_bytes())?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

/// Whether an answer means yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
