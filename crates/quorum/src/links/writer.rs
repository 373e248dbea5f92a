//! Writes what is queued on one link: trees and parts of the log, in chunks, and the packets that the socket did not
//! accept when they were flushed, all that were queued with one call.

use std::io;
use std::time::Duration;

use super::link::{Link, Loss, Piece, Written};
use crate::receiver::{StreamSource, StreamStep};
use crate::threads::Threads;
use herdsman_runtime::millis;

/// How often a waiting writer checks whether it should stop.
const LOOK: Duration = Duration::from_millis(250);
/// Bytes of a stream that are written together.
pub(super) const STREAM_CHUNK_BYTES: usize = 64 * 1024;

/// Writes until the link is closed or lost.
pub(super) fn run(link: &Link, threads: &Threads) {
    match write_all_pieces(link, threads) {
        // Everything queued is written. The peer reads it and then the end, and the reader waits for the peer's
        // end in turn: closing immediately could discard what is still in transit.
        Ok(()) => link.stream.end_writing(),
        Err(loss) => link.lose(loss),
    }
    drop(link.take_rest());
}

fn write_all_pieces(link: &Link, threads: &Threads) -> Result<(), Loss> {
    limit_waits(link)?;
    let mut written = Written::Nothing;
    while let Some(piece) = link.next_piece(written, threads) {
        written = match piece {
            Piece::Packets(bytes) => {
                write(link, threads, &bytes)?;
                Written::Packets(bytes)
            }
            Piece::Stream(source) => {
                write_stream(link, threads, source)?;
                Written::Stream
            }
        }
    }
    Ok(())
}

/// Sets a write timeout, so that the writer can check whether it should stop.
pub(super) fn limit_waits(link: &Link) -> io::Result<()> {
    link.stream.socket().set_write_timeout(Some(LOOK))
}

fn write_stream(
    link: &Link,
    threads: &Threads,
    mut source: Box<dyn StreamSource>,
) -> Result<(), Loss> {
    let mut buffer = Vec::with_capacity(2 * STREAM_CHUNK_BYTES);
    let is_wanted = || !threads.is_stopping() && !link.is_overdue();
    loop {
        let step = source.fill(&mut buffer, &is_wanted);
        if step == StreamStep::Broken {
            return Err(Loss::StreamGone);
        }
        if step == StreamStep::Done || buffer.len() >= STREAM_CHUNK_BYTES {
            write(link, threads, &buffer)?;
            buffer.clear();
        }
        if step == StreamStep::Done {
            return Ok(());
        }
    }
}

/// Writes all bytes, unless the link is closed or the peer reads nothing for too long.
pub(super) fn write(link: &Link, threads: &Threads, mut bytes: &[u8]) -> Result<(), Loss> {
    let mut stuck = Duration::ZERO;
    loop {
        let written = match bytes {
            [] => link.stream.flush().map(|()| 0),
            bytes => link.stream.write(bytes),
        };
        match written {
            Ok(0) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(count) => {
                bytes = &bytes[count..];
                stuck = Duration::ZERO;
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    stuck += LOOK;
                    if stuck >= link.idle_limit() {
                        return Err(Loss::NotReading(millis(stuck)));
                    }
                }
                _ => return Err(error.into()),
            },
        }
        if threads.is_stopping() || link.is_overdue() {
            return Err(Loss::Closed);
        }
    }
}
