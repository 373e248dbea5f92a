//! Leaves the terminal as it was found.
//!
//! The line editor switches it to raw mode while it reads, and back when it is done. When SIGTERM
//! ends the shell in between it never is.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Puts the terminal's mode back when it is dropped.
pub(crate) struct TerminalMode {
    saved: Option<Termios>,
}

impl TerminalMode {
    /// Remembers the mode of the terminal that is standard input, if it is one.
    pub(crate) fn save() -> Self {
        TerminalMode { saved: tcgetattr(std::io::stdin()).ok() }
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            // The terminal may be gone, which is why we end.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }
}
