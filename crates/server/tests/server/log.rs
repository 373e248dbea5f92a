//! The log lines of the servers in this process. All tests share the log; lines are recognised by the address of a
//! connection.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

use tracing_subscriber::filter::LevelFilter;

static LINES: Mutex<String> = Mutex::new(String::new());

/// Set up by the first test that uses it.
static LISTENING: LazyLock<()> = LazyLock::new(|| {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_ansi(false)
        .with_writer(|| Lines)
        .init();
});

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures lines from now on. Must be called before the server starts.
pub fn listen() {
    LazyLock::force(&LISTENING);
}

/// The lines that contain a text, for example an address.
pub fn lines_with(text: &impl Display) -> Vec<String> {
    let text = text.to_string();
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.lines().filter(|line| line.contains(&text)).map(str::to_owned).collect()
}
