//! Restores the mode of the terminal.
//!
//! The line editor switches the terminal to raw mode while it reads, and back afterwards. If SIGTERM
//! ends the shell in between, it cannot.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Restores the terminal's mode when it is dropped.
pub(crate) struct TerminalMode {
    saved: Option<Termios>,
}

impl TerminalMode {
    /// Saves the terminal's mode, if standard input is a terminal.
    pub(crate) fn save() -> Self {
        TerminalMode { saved: tcgetattr(std::io::stdin()).ok() }
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            // The terminal may be gone, which may be why the shell ends.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }
}
