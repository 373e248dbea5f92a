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
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints a line.
pub(super) fn say(line: impl Display) -> Result<()> {
    say_bytes(line.to_string().as_bytes())
}

/// Prints bytes as they are, and a line end.
pub(super) fn say_bytes(line: &[u8]) -> Result<()> {
    write(&[line, b"\n"])
}

/// Prints bytes as they are, and a line end if they have none.
pub(super) fn write_out(bytes: &[u8]) -> Result<()> {
    if bytes.ends_with(b"\n") { write(&[bytes]) } else { say_bytes(bytes) }
}

/// What others have written, as a part of a line: without the space at its end, and with control characters escaped,
/// which a terminal would obey.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = String::with_capacity(text.len());
    for symbol in text.trim_end().chars() {
        if symbol.is_control() {
            line.extend(symbol.escape_default());
        } else {
            line.push(symbol);
        }
    }
    line
}

fn write(pieces: &[&[u8]]) -> Result<()> {
    try_write(pieces).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("writing to standard output"),
    })
}

fn try_write(pieces: &[&[u8]]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    pieces.iter().try_for_each(|piece| out.write_all(piece))?;
    out.flush()
}
