//! `restore`: replaces the whole state of a standalone server by a snapshot. Apache: `RestoreCommand`.
//!
//! In: the body of a `POST`, as `snapshot` streams it, or compressed. Out: the snapshot's `last_zxid`. The
//! body is written to a file in the data directory and checked completely before it replaces the state; see
//! `herdsman_server::log::snapshots`. How we differ: Apache also restores a single member of an ensemble, whose
//! tree then differs from the others'; we reject that with an explanation.
//!
//! Limits: half of the free disk space, one at a time, one per interval; a request whose body stalls for the
//! idle timeout is ended. After a failure nothing has changed, unless the error says otherwise.

use std::time::Instant;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use herdsman_server::ServerHandle;
use herdsman_server::log::snapshots::{IncomingError, IncomingSnapshot, RestoreError, Restored};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{info, warn};

use super::rate_limit::TooSoon;
use super::{Answer, Call, CommandContext};

/// Most pieces of the body that wait for the disk.
const PIECES_MAX: usize = 16;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("restores are disabled (admin.restore.enabled)")]
    SwitchedOff,
    #[error("{0}")]
    TooSoon(TooSoon),
    #[error("the body is empty; send a snapshot as `application/octet-stream`")]
    Empty,
    #[error("timed out: the body stalled for {0:?} (admin.idleTimeout); nothing was changed")]
    StoodStill(std::time::Duration),
    #[error("the body ended early; nothing was changed")]
    BrokeOff,
    #[error("{0}; nothing was changed")]
    Incoming(#[from] IncomingError),
    #[error("{0}")]
    Restore(#[from] RestoreError),
    #[error("the restore ended early; see the server's log")]
    Ended,
}

impl Failure {
    /// The beginning of the log line.
    fn headline(&self) -> &'static str {
        match self {
            Failure::Restore(RestoreError::Broken | RestoreError::Stopping) | Failure::Ended => {
                "a restore through the admin port failed, but may have been applied"
            }
            _ => "a restore through the admin port failed, nothing was restored",
        }
    }

    fn status(&self) -> StatusCode {
        use RestoreError::{
            Broken, Digest, Fuzzy, InEnsemble, Install, NoSnapshot, NoTree, NoZxid,
        };
        match self {
            Failure::SwitchedOff => StatusCode::SERVICE_UNAVAILABLE,
            Failure::TooSoon(_) | Failure::Incoming(IncomingError::Busy) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Failure::Empty | Failure::BrokeOff => StatusCode::BAD_REQUEST,
            Failure::StoodStill(_) => StatusCode::REQUEST_TIMEOUT,
            Failure::Incoming(IncomingError::TooLarge(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            Failure::Restore(InEnsemble) => StatusCode::CONFLICT,
            Failure::Restore(
                RestoreError::Unreadable(_)
                | NoSnapshot
                | NoZxid
                | Digest { .. }
                | NoTree(_)
                | Fuzzy { .. },
            ) => StatusCode::BAD_REQUEST,
            Failure::Restore(RestoreError::NotWritable | RestoreError::Stopping) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Failure::Restore(Install(_) | Broken)
            | Failure::Incoming(IncomingError::Io(_))
            | Failure::Ended => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

pub(super) async fn run(call: Call) -> Response {
    let answer = Answer::of(call.command.names[0]);
    let (server, start) = (call.context.server.clone(), Instant::now());
    let stats = &server.core().stats;
    match receive_and_restore(call).await {
        Ok(restored) => {
            stats.restore.add(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
            // A plain number, unlike the header of `snapshot`: as Apache has it.
            answer.put("last_zxid", restored.zxid.0).into_response()
        }
        Err(failure) => {
            let is_too_soon = matches!(failure, Failure::TooSoon(_));
            let count = if is_too_soon { &stats.restores_too_soon } else { &stats.restore_errors };
            count.add(1);
            warn!("{}: {failure}", failure.headline());
            let answer = answer.with_error(failure.status(), failure.to_string());
            match &failure {
                Failure::TooSoon(too_soon) => {
                    answer.header("retry-after", too_soon.seconds().to_string())
                }
                _ => answer,
            }
            .into_response()
        }
    }
}

async fn receive_and_restore(call: Call) -> Result<Restored, Failure> {
    let Call { context, body, .. } = call;
    if !context.settings.restores {
        return Err(Failure::SwitchedOff);
    }
    context.server.check_restorable()?;
    context.restores.admit().map_err(Failure::TooSoon)?;
    let restored = receive(&context, body).await;
    if restored.as_ref().is_err_and(|failure| failure.status().is_client_error()) {
        context.restores.refund();
    }
    restored
}

async fn receive(context: &CommandContext, body: Body) -> Result<Restored, Failure> {
    let (pieces, received) = mpsc::channel(PIECES_MAX);
    let server = context.server.clone();
    let work = tokio::task::spawn_blocking(move || restore(&server, received));
    let idle = context.settings.idle_timeout;
    let mut body = body.into_data_stream();
    let sent = async {
        loop {
            let next = body.next();
            let next = match idle.is_zero() {
                true => next.await,
                false => timeout(idle, next).await.map_err(|_| Failure::StoodStill(idle))?,
            };
            let piece = match next {
                None => return Ok(()),
                Some(Err(_)) => return Err(Failure::BrokeOff),
                Some(Ok(piece)) => piece,
            };
            if pieces.send(Piece::Bytes(piece)).await.is_err() {
                // The disk failed; its own error is more precise.
                return Ok(());
            }
        }
    };
    let sent = sent.await;
    if sent.is_ok() {
        _ = pieces.send(Piece::End).await;
    }
    drop(pieces);
    let restored = work.await.map_err(|_| Failure::Ended)?;
    sent?;
    restored
}

/// A piece of the body. A body that ends early has no `End`.
enum Piece {
    Bytes(Bytes),
    End,
}

/// Receives and restores a snapshot, on a blocking thread.
fn restore(server: &ServerHandle, mut pieces: mpsc::Receiver<Piece>) -> Result<Restored, Failure> {
    let mut incoming = server.receive_snapshot()?;
    let mut bytes = 0;
    loop {
        match pieces.blocking_recv() {
            None => return Err(Failure::BrokeOff),
            Some(Piece::End) => break,
            Some(Piece::Bytes(piece)) => {
                incoming.append(&piece)?;
                bytes += piece.len();
            }
        }
    }
    drop(pieces);
    if bytes == 0 {
        return Err(Failure::Empty);
    }
    put_in_place(server, &incoming)
}

fn put_in_place(server: &ServerHandle, incoming: &IncomingSnapshot) -> Result<Restored, Failure> {
    let snapshot = server.verify_snapshot(incoming)?;
    info!("received a complete snapshot of txn {} with {} znodes", snapshot.zxid, snapshot.znodes);
    Ok(server.restore(snapshot)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_does_not_deny_a_restore_with_unknown_outcome() {
        for failure in [Failure::Restore(RestoreError::Broken), Failure::Ended] {
            assert!(failure.headline().contains("may have been applied"), "{failure}");
        }
        for failure in [Failure::BrokeOff, Failure::Restore(RestoreError::NotWritable)] {
            assert!(failure.headline().contains("nothing was restored"), "{failure}");
        }
    }
}
