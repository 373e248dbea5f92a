//! The streams of a shell: those of the process, or of a test.

use std::io::{BufRead, BufReader, IsTerminal, Write};

/// Standard input, output and error of a shell.
pub struct Streams {
    pub(crate) input: Box<dyn BufRead + Send>,
    pub(crate) output: Box<dyn Write + Send>,
    pub(crate) errors: Box<dyn Write + Send>,
    pub(crate) terminal: Terminal,
}

/// Which of the streams are a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) input: bool,
    pub(crate) output: bool,
    pub(crate) errors: bool,
}

impl Streams {
    /// The standard streams of the process.
    #[must_use]
    pub fn standard() -> Self {
        Streams {
            input: Box::new(BufReader::new(std::io::stdin())),
            output: Box::new(std::io::stdout()),
            errors: Box::new(std::io::stderr()),
            terminal: Terminal {
                input: std::io::stdin().is_terminal(),
                output: std::io::stdout().is_terminal(),
                errors: std::io::stderr().is_terminal(),
            },
        }
    }

    /// Other streams, none of which is a terminal.
    pub fn new(
        input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
        errors: impl Write + Send + 'static,
    ) -> Self {
        Streams {
            input: Box::new(input),
            output: Box::new(output),
            errors: Box::new(errors),
            terminal: Terminal::default(),
        }
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}
