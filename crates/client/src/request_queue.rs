//! The queue of requests for the connection, in the order in which they were made.
//!
//! In: requests from any task, encoded at the moment of the call: that moment decides their order.
//! Out: bytes for the connection and, for each request, a [`PendingRequest`] that waits for the reply.
//!
//! Limit: a request holds a permit from the call to its reply, so at most `in_flight_max` are in the
//! queue and on the wire together. Callers wait for a permit, or get [`ErrorKind::Busy`].

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::request::{ReadRequest, RequestHeader, WatcherType};
use herdsman_proto::{OpCode, Request, Xid, reply};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::watches::{ConfirmedWatch, ExpectedWatch, WatchTable};

/// A successful reply.
#[derive(Debug)]
pub struct Answer {
    /// The bytes after the header.
    pub(crate) body: Bytes,
    /// The watch that the request has set.
    pub(crate) watch: Option<ConfirmedWatch>,
}

/// What to do with a reply.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Caller(oneshot::Sender<Result<Answer>>),
    /// The reply is not needed, for example to credentials sent again.
    Discard,
    /// A watch was removed; older servers need a second request, which removes all watches of the path.
    WatchRemoval {
        path: String,
        table: WatchTable,
    },
}

/// A request that waits for its reply.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) to: ReplyTo,
    pub(crate) expected: Option<ExpectedWatch>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PendingRequest {
    /// Creates a request of the connection itself.
    pub(crate) fn unattended(xid: Xid, op: OpCode) -> Self {
        PendingRequest { xid, op, to: ReplyTo::Discard, expected: None, _permit: None }
    }

    /// Fails the request. `sent`: the server may have received it.
    pub(crate) fn fail(self, kind: ErrorKind, sent: Sent) {
        let outcome = match sent {
            Sent::Yes if changes_tree(self.op) => Outcome::Unknown,
            _ => Outcome::NotApplied,
        };
        self.answer(Err(Error::new(kind, outcome)));
    }

    pub(crate) fn answer(self, answer: Result<Answer>) {
        if let ReplyTo::Caller(send) = self.to {
            // If the caller no longer waits, the reply is dropped, and with it a watch.
            let _ = send.send(answer);
        }
    }
}

/// Whether bytes of a request may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    No,
}

fn changes_tree(op: OpCode) -> bool {
    use OpCode::{
        CloseSession, Create, Create2, CreateContainer, CreateTtl, Delete, Multi, Reconfig, SetAcl,
        SetData,
    };
    matches!(
        op,
        Create
            | Create2
            | CreateContainer
            | CreateTtl
            | Delete
            | SetData
            | SetAcl
            | Multi
            | Reconfig
            | CloseSession
    )
}

/// The queue of a session's requests.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    inner: Mutex<Inner>,
    /// Notified when a request is added to an empty queue.
    ready: Notify,
    permits: Arc<Semaphore>,
    request_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    bytes: Vec<u8>,
    requests: VecDeque<PendingRequest>,
    last_xid: i32,
    /// Set once: the queue accepts no more requests.
    closed: Option<ErrorKind>,
}

impl Inner {
    fn next_xid(&mut self) -> Xid {
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        Xid(self.last_xid)
    }
}

impl RequestQueue {
    pub(crate) fn new(in_flight_max: usize, request_bytes_max: usize) -> Self {
        RequestQueue {
            inner: Mutex::default(),
            ready: Notify::new(),
            permits: Arc::new(Semaphore::new(in_flight_max.min(Semaphore::MAX_PERMITS))),
            request_bytes_max,
        }
    }

    /// Returns a permit for one request, if one is free and no other task waits for it.
    pub(crate) fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Waits for a permit for one request; first come, first served.
    pub(crate) async fn permit(&self) -> OwnedSemaphorePermit {
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Adds a request at the end.
    pub(crate) fn push(
        &self,
        request: &Request<'_>,
        expected: Option<ExpectedWatch>,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Result<Answer>>> {
        let (send, receive) = oneshot::channel();
        self.put(request, ReplyTo::Caller(send), expected, Some(permit))?;
        Ok(receive)
    }

    /// Adds the request that closes the session, after which the queue accepts no more requests.
    pub(crate) fn push_close_session(&self) -> Result<oneshot::Receiver<Result<Answer>>> {
        let (send, receive) = oneshot::channel();
        self.put(&Request::CloseSession, ReplyTo::Caller(send), None, None)?;
        Ok(receive)
    }

    /// Adds the removal of a watch. It needs no permit: there are never more removals than there were watches.
    pub(crate) fn remove_watch(&self, path: &str, table: WatchTable) {
        let to = ReplyTo::WatchRemoval { path: path.to_owned(), table };
        self.put_removal(path, table.watcher_type(), to);
    }

    /// Adds the removal of all watches of a path: servers before 3.9 have no type for persistent watches alone.
    pub(crate) fn remove_all_watches(&self, path: &str) {
        self.put_removal(path, WatcherType::Any, ReplyTo::Discard);
    }

    fn put_removal(&self, path: &str, kind: WatcherType, to: ReplyTo) {
        let request = Request::Read(ReadRequest::RemoveWatches { path: path.into(), kind });
        // A closed queue means that the watches no longer exist.
        let _ = self.put(&request, to, None, None);
    }

    fn put(
        &self,
        request: &Request<'_>,
        to: ReplyTo,
        expected: Option<ExpectedWatch>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<()> {
        let op = request.op();
        let mut inner = self.inner.lock();
        if let Some(kind) = &inner.closed {
            return Err(Error::not_applied(kind.clone()));
        }
        let xid = if op == OpCode::Auth { Xid::AUTH } else { inner.next_xid() };
        let was_empty = inner.bytes.is_empty();
        encode(&mut inner.bytes, xid, request, self.request_bytes_max)?;
        inner.requests.push_back(PendingRequest { xid, op, to, expected, _permit: permit });
        if op == OpCode::CloseSession {
            // Under the same lock: no request may follow this one.
            inner.closed = Some(ErrorKind::Closed);
        }
        drop(inner);
        if was_empty {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Whether the queue accepts no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed.is_some()
    }

    /// Resolves when there may be requests to take. Cancel-safe.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Moves all bytes to `bytes` and their requests to `requests`.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>, requests: &mut VecDeque<PendingRequest>) {
        let mut inner = self.inner.lock();
        bytes.clear();
        std::mem::swap(bytes, &mut inner.bytes);
        requests.append(&mut inner.requests);
    }

    /// Fails all queued requests, none of which was sent.
    pub(crate) fn fail_all(&self, kind: &ErrorKind) {
        let requests = self.empty(None);
        fail_unsent(requests, kind);
    }

    /// Fails all queued requests and all later ones.
    pub(crate) fn close(&self, kind: &ErrorKind) {
        let requests = self.empty(Some(kind));
        fail_unsent(requests, kind);
    }

    fn empty(&self, closed: Option<&ErrorKind>) -> VecDeque<PendingRequest> {
        let mut inner = self.inner.lock();
        inner.bytes.clear();
        if let Some(kind) = closed {
            inner.closed.get_or_insert_with(|| kind.clone());
        }
        std::mem::take(&mut inner.requests)
    }
}

/// Called without the queue's lock: dropping a request may add a watch removal to the queue.
fn fail_unsent(requests: VecDeque<PendingRequest>, kind: &ErrorKind) {
    for pending in requests {
        pending.fail(kind.clone(), Sent::No);
    }
}

/// Appends a request's frame, or nothing if it is too large. As in servers, the limit does not include
/// the length field of the frame.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    xid: Xid,
    request: &Request<'_>,
    bytes_max: usize,
) -> Result<()> {
    let start = out.len();
    reply::frame(out, |out| {
        RequestHeader { xid, op: request.op().code() }.encode(out);
        request.encode(out);
    });
    let bytes = out.len() - start - size_of::<i32>();
    if bytes > bytes_max {
        out.truncate(start);
        return Err(Error::not_applied(ErrorKind::TooLarge { bytes, limit: bytes_max }));
    }
    Ok(())
}
