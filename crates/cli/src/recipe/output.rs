//! Standard output, a line at a time.
//!
//! `println!` panics when the reader has closed the pipe, as in `herdsman recipe discover web --watch | head`. A panic
//! would skip closing the session, and what was held would stay until the session times out.

use std::fmt::Display;
use std::io::{Error, ErrorKind, Write};

use anyhow::Result;

/// The reader of standard output has closed it.
#[derive(Debug)]
pub(super) struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}

/// Prints a line.
pub(super) fn print_line(line: impl Display) -> Result<()> {
    print_bytes(line.to_string().as_bytes())
}

/// Prints bytes as they are, and a line end.
pub(super) fn print_bytes(line: &[u8]) -> Result<()> {
    write(&[line, b"\n"])
}

/// Prints bytes as they are, and a line end if they have none.
pub(super) fn write_out(bytes: &[u8]) -> Result<()> {
    if bytes.ends_with(b"\n") { write(&[bytes]) } else { print_bytes(bytes) }
}

/// Makes data of other clients safe to print within a line: trims the white space at its end and escapes control
/// characters.
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
        ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("writing to standard output"),
    })
}

fn try_write(pieces: &[&[u8]]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    pieces.iter().try_for_each(|piece| out.write_all(piece))?;
    out.flush()
}
