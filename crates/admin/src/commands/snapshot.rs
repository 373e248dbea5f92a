//! `snapshot`: a copy of everything for callers with all permissions on the root. Apache: `SnapshotCommand`.
//!
//! Out: the file as a stream of bytes, or with `?streaming=false` a snapshot in the server's own data
//! directory; in both cases the headers `last_zxid` and `snapshot_size`. How we differ: a streamed snapshot is
//! exact, Apache's is fuzzy; and it is never compressed, because Apache's `restore` would not decompress it.
//!
//! Limits: one copy at a time, one per interval; a client that does not read loses its connection (see
//! `admin`), and the copy is dropped. Memory: some pieces of the file.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use herdsman_proto::Zxid;
use herdsman_server::log::snapshots::{CopyError, TreeCopy};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};

use super::{Answer, Call};

const LAST_ZXID: &str = "last_zxid";
const SNAPSHOT_SIZE: &str = "snapshot_size";
/// Bytes of the file that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Most pieces that wait for the client.
const PIECES_MAX: usize = 8;

pub(super) async fn run(call: Call) -> Response {
    let answer = Answer::of(call.command.names[0]);
    if !call.context.settings.snapshots {
        let why = "snapshots are disabled (admin.snapshot.enabled)";
        return answer.with_error(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    if let Err(too_soon) = call.context.snapshots.admit() {
        call.context.server.core().stats.snapshots_too_soon.add(1);
        let answer = answer.with_error(StatusCode::TOO_MANY_REQUESTS, too_soon.to_string());
        return answer.header("retry-after", too_soon.seconds().to_string()).into_response();
    }
    let context = Arc::clone(&call.context);
    let streaming =
        call.arguments.get("streaming").is_none_or(|word| word.eq_ignore_ascii_case("true"));
    let response = if streaming { stream(call, answer).await } else { write(call, answer).await };
    if response.status().is_client_error() {
        context.snapshots.refund();
    }
    response
}

/// Writes a snapshot into the data directory.
async fn write(call: Call, answer: Answer) -> Response {
    let written = tokio::task::spawn_blocking(move || call.context.server.write_snapshot()).await;
    let answer = match written {
        Ok(Ok(file)) => with_headers(answer, file.name.zxid, file.bytes),
        Ok(Err(why)) => answer.failed(why),
        Err(_) => answer.failed("the snapshot ended early"),
    };
    answer.into_response()
}

fn with_headers(answer: Answer, zxid: Zxid, bytes: u64) -> Answer {
    answer.header(LAST_ZXID, zxid.to_string()).header(SNAPSHOT_SIZE, bytes.to_string())
}

async fn stream(call: Call, answer: Answer) -> Response {
    let copied = tokio::task::spawn_blocking(move || call.context.server.copy_tree()).await;
    match copied {
        Ok(Ok(copy)) => stream_copy(copy),
        Ok(Err(error @ CopyError::Busy)) => {
            answer.with_error(StatusCode::TOO_MANY_REQUESTS, error.to_string()).into_response()
        }
        Ok(Err(error @ (CopyError::Replaced | CopyError::TooManyChanges(_)))) => {
            answer.with_error(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
        Ok(Err(error)) => {
            warn!("a snapshot for the admin port failed: {error}");
            answer.failed(error.to_string()).into_response()
        }
        Err(_) => answer.failed("the snapshot ended early").into_response(),
    }
}

fn stream_copy(copy: TreeCopy) -> Response {
    info!("sending a snapshot of txn {}, {} bytes, through the admin port", copy.zxid, copy.bytes);
    let headers = [
        (HeaderName::from_static(LAST_ZXID), copy.zxid.to_string()),
        (HeaderName::from_static(SNAPSHOT_SIZE), copy.bytes.to_string()),
        (CONTENT_LENGTH, copy.bytes.to_string()),
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
    ];
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    tokio::task::spawn_blocking(move || send_pieces(copy, &sender));
    (headers, Body::from_stream(ReceiverStream::new(receiver))).into_response()
}

/// Sends the copy to its end, or until the client has left. The copy is dropped before the last piece is sent, so
/// that a client that has the whole file may request the next one at once.
fn send_pieces(copy: TreeCopy, sender: &mpsc::Sender<std::io::Result<Bytes>>) {
    let mut offset = 0;
    let last = loop {
        let piece = read_piece(&copy, offset);
        let count = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        offset += count;
        if count == 0 || offset >= copy.bytes {
            break piece;
        }
        if sender.blocking_send(piece).is_err() {
            return;
        }
    };
    drop(copy);
    _ = sender.blocking_send(last);
}

fn read_piece(copy: &TreeCopy, offset: u64) -> std::io::Result<Bytes> {
    let mut piece = vec![0; PIECE_BYTES];
    match copy.read_at(offset, &mut piece)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        count => {
            piece.truncate(count);
            Ok(Bytes::from(piece))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_testing::TestServer;

    /// The last piece waits for room in the channel, as for a slow client. By then the copy must be
    /// dropped, so that the next one can be made.
    #[test]
    fn the_next_copy_need_not_wait_for_the_last_piece_of_this_one() {
        let server = TestServer::start();
        let copy = server.handle().copy_tree().expect("there is no other copy");
        assert!(copy.bytes <= PIECE_BYTES as u64, "the first piece is the last");
        let (sender, mut receiver) = mpsc::channel(1);
        sender.blocking_send(Ok(Bytes::new())).expect("there is context for one");
        std::thread::scope(|scope| {
            scope.spawn(|| send_pieces(copy, &sender));
            while let Err(CopyError::Busy) = server.handle().copy_tree() {
                std::thread::yield_now();
            }
            assert_eq!(receiver.blocking_recv().map(|piece| piece.is_ok()), Some(true));
            assert!(receiver.blocking_recv().is_some_and(|piece| piece.is_ok()));
        });
    }
}
