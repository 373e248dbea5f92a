//! Standard output, a line at a time.
//!
//! `println!` panics when the reader has gone, as in `herdsman recipe discover web --watch | head`.
//! A panic would skip the goodbye to the server, and what was held would stay until the session
//! times out.

use std::fmt::Display;
use std::io::{Error, ErrorKind, Write};

use anyhow::Result;

/// Nobody reads standard output any more.
#[derive(Debug)]
pub(super) struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints a line.
pub(super) fn say(line: impl Display) -> Result<()> {
    say_bytes(line.to_string().as_bytes())
}

/// Prints bytes as they are, and a line end.
pub(super) fn say_bytes(line: &[u8]) -> Result<()> {
    write_line(line).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("writing to standard output"),
    })
}

fn write_line(line: &[u8]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(line)?;
    out.write_all(b"\n")?;
    out.flush()
}
