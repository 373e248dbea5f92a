//! One connection to one server, from the handshake's end until it breaks.
//!
//! In: the session's queue, bytes from the server, time. Out: bytes to the server, replies to
//! callers, events to watches. Servers reply in the order in which requests were sent; a reply out of
//! order is a protocol error and ends the connection.
//!
//! The connection is closed when the server has sent no part of a reply for two thirds of the session
//! timeout, so that a third is left to find another server. Events do not count, as they do in Apache's
//! `ClientCnxn.SendThread`: they also arrive from a server that no longer receives from us.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use herdsman_proto::event::WatchedEvent;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::request::ReadRequest;
use herdsman_proto::{ErrorCode, JuteReader, OpCode, Request, Xid, Zxid};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until};

use super::SessionShared;
use super::attach::Attached;
use super::search::ServerSearch;
use super::task::SessionTask;
use super::transport::Transport;
use crate::error::{Error, ErrorKind, Outcome};
use crate::hosts::MoveDecision;
use crate::request_queue::{self, Answer, PendingRequest, ReplyTo, Sent};
use crate::state::ConnectionState;
use crate::watches::{Existence, WatchTable};

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The connection is lost; the session may continue on another one.
    Broken(String),
    /// The server has confirmed the end of the session.
    Closed,
    /// The server has rejected credentials.
    AuthFailed,
}

/// A planned change to another server: the connection is closed once all replies have arrived.
#[derive(Clone, Copy)]
struct PlannedMove {
    /// The connection is closed at this moment at the latest.
    at: Instant,
    why: &'static str,
}

/// The size of a new read buffer.
const READ_BYTES: usize = 64 << 10;
/// A buffer with less free space than this is replaced.
const READ_BYTES_MIN: usize = 8 << 10;

/// A connection in use.
pub(super) struct Connection {
    transport: Option<Transport>,
    protocol: ProtocolState,
    timer: Pin<Box<Sleep>>,
    search: Option<ServerSearch>,
    serves_as: ConnectionState,
}

/// The state of the protocol: buffers, requests without a reply, and timers.
struct ProtocolState {
    shared: Arc<SessionShared>,
    inbox: BytesMut,
    outbox: Vec<u8>,
    written: usize,
    /// Bytes were written that the transport may still buffer.
    unflushed: bool,
    in_flight: VecDeque<PendingRequest>,
    /// Replies to credentials are not in the order of the other replies.
    auths: VecDeque<PendingRequest>,
    set_watches_pending: usize,
    last_zxid: Zxid,
    /// The last request of each batch taken from the queue, and when it was taken.
    batches: VecDeque<(Xid, Instant)>,
    /// When bytes of a reply were last received.
    heard: Instant,
    /// Whether a reply was received since this was last reset.
    has_replied: bool,
    sent: Instant,
    /// When the pings without a reply were sent.
    pings: VecDeque<Instant>,
    /// Whether replies prove that the session is alive. A server without a quorum does not know what the
    /// others have decided.
    has_quorum: bool,
    /// Bytes still to come of a reply that is too large.
    to_skip: usize,
    timeout: Duration,
}

impl Connection {
    /// Prepares what is sent before all requests: credentials and the watches of earlier connections.
    pub(super) fn new(task: &SessionTask, attached: Attached) -> Self {
        let now = Instant::now();
        let mut protocol = ProtocolState {
            timeout: task.shared.identity().timeout,
            shared: task.shared.clone(),
            inbox: attached.received,
            outbox: Vec::new(),
            written: 0,
            unflushed: false,
            in_flight: VecDeque::new(),
            auths: VecDeque::new(),
            set_watches_pending: 0,
            last_zxid: task.last_zxid,
            batches: VecDeque::new(),
            heard: now,
            has_replied: false,
            sent: now,
            pings: VecDeque::new(),
            has_quorum: attached.response.read_only != Some(true),
            to_skip: 0,
        };
        protocol.present_credentials();
        protocol.set_watches_again();
        let serves_as = match attached.response.read_only {
            Some(true) => ConnectionState::ReadOnly,
            _ => ConnectionState::Connected,
        };
        let search = task.search(serves_as);
        let timer = Box::pin(sleep_until(protocol.next_deadline()));
        Connection { transport: Some(attached.transport), protocol, timer, search, serves_as }
    }

    /// Runs until the connection ends.
    pub(super) async fn run(&mut self, task: &mut SessionTask) -> ConnectionEnd {
        let end = match self.transport.take() {
            Some(mut transport) => {
                let end = self.exchange(&mut transport, task).await;
                transport.shutdown().await;
                end
            }
            None => ConnectionEnd::Broken("used twice".to_owned()),
        };
        task.last_zxid = self.protocol.last_zxid;
        end
    }

    async fn exchange(
        &mut self,
        transport: &mut Transport,
        task: &mut SessionTask,
    ) -> ConnectionEnd {
        let Transport { read, write, needs_flush, .. } = transport;
        let Connection { protocol, timer, search, serves_as, .. } = self;
        let shared = protocol.shared.clone();
        if let Err(end) = protocol.receive() {
            return end;
        }
        let mut moving: Option<PlannedMove> = None;
        loop {
            if protocol.written == protocol.outbox.len() && moving.is_none() {
                protocol.take_queued();
            }
            let has_output = protocol.written < protocol.outbox.len();
            if let Some(PlannedMove { why, .. }) = moving
                && !has_output
                && protocol.is_answered()
            {
                return ConnectionEnd::Broken(why.to_owned());
            }
            let step = tokio::select! {
                received = read.read_buf(&mut protocol.inbox) => protocol.on_read(received),
                sent = send(write, &protocol.outbox[protocol.written..]),
                    if has_output || protocol.unflushed =>
                {
                    protocol.on_sent(sent, *needs_flush)
                }
                () = shared.queue.ready(), if !has_output && moving.is_none() => Ok(()),
                why = overdue(moving) => Err(ConnectionEnd::Broken(why.to_owned())),
                () = timer.as_mut() => {
                    let step = protocol.on_timer();
                    timer.as_mut().reset(protocol.next_deadline());
                    step
                }
                changed = task.servers.changed() => {
                    if changed.is_ok() {
                        if must_move(task) {
                            moving.get_or_insert(protocol.plan_move("the list of servers has changed"));
                        } else if moving.is_none() {
                            *search = task.search(*serves_as);
                        }
                    }
                    Ok(())
                }
                host = ServerSearch::found(search), if moving.is_none() => {
                    task.found = Some(host);
                    if *serves_as == ConnectionState::ReadOnly {
                        Err(ConnectionEnd::Broken("a server that accepts writes was found".to_owned()))
                    } else {
                        moving = Some(protocol.plan_move("a preferred server was found"));
                        Ok(())
                    }
                }
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Fails all requests that have no reply.
    pub(super) fn fail_all(self, end: &ConnectionEnd) {
        let kind = match end {
            ConnectionEnd::Broken(_) => ErrorKind::ConnectionLoss,
            ConnectionEnd::Closed => ErrorKind::Closed,
            ConnectionEnd::AuthFailed => ErrorKind::AuthFailed,
        };
        let ProtocolState { in_flight, auths, .. } = self.protocol;
        for pending in in_flight.into_iter().chain(auths) {
            pending.fail(kind.clone(), Sent::Yes);
        }
    }
}

/// The result of [`send`].
enum SendProgress {
    Wrote(usize),
    Flushed,
}

/// Writes some of these bytes; if there are none, flushes earlier ones. Cancel-safe.
async fn send(
    write: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> std::io::Result<SendProgress> {
    if bytes.is_empty() {
        write.flush().await.map(|()| SendProgress::Flushed)
    } else {
        write.write(bytes).await.map(SendProgress::Wrote)
    }
}

fn must_move(task: &mut SessionTask) -> bool {
    match task.hosts.replace(&task.servers.borrow_and_update()) {
        MoveDecision::Stay => false,
        MoveDecision::MoveFromRemoved | MoveDecision::MoveForBalance => true,
    }
}

/// Resolves when a planned move is due; never, if none is planned.
async fn overdue(moving: Option<PlannedMove>) -> &'static str {
    let Some(PlannedMove { at, why }) = moving else {
        return std::future::pending().await;
    };
    sleep_until(at).await;
    why
}

impl ProtocolState {
    fn present_credentials(&mut self) {
        for credentials in self.shared.client_shared.credentials.lock().iter() {
            let request = Request::Auth {
                scheme: credentials.scheme.as_str().into(),
                credentials: Some(&credentials.secret),
            };
            if request_queue::encode(&mut self.outbox, Xid::AUTH, &request, usize::MAX).is_ok() {
                self.auths.push_back(PendingRequest::unattended(Xid::AUTH, OpCode::Auth));
            }
        }
    }

    fn set_watches_again(&mut self) {
        for batch in self.shared.client_shared.watches.set_again(self.last_zxid) {
            let request = Request::Read(ReadRequest::SetWatches(batch));
            if request_queue::encode(&mut self.outbox, Xid::SET_WATCHES, &request, usize::MAX)
                .is_ok()
            {
                self.set_watches_pending += 1;
            }
        }
    }

    fn plan_move(&self, why: &'static str) -> PlannedMove {
        PlannedMove { at: Instant::now() + self.timeout / 3, why }
    }

    /// Whether all replies have arrived.
    fn is_answered(&self) -> bool {
        self.in_flight.is_empty() && self.auths.is_empty()
    }

    /// Takes all requests from the queue.
    fn take_queued(&mut self) {
        self.written = 0;
        let before = self.in_flight.len();
        self.shared.queue.take(&mut self.outbox, &mut self.in_flight);
        if self.in_flight.iter().skip(before).any(|pending| pending.xid == Xid::AUTH) {
            let (auths, others) = self
                .in_flight
                .drain(..)
                .partition(|pending: &PendingRequest| pending.xid == Xid::AUTH);
            self.in_flight = others;
            self.auths.extend::<VecDeque<PendingRequest>>(auths);
        }
        if let Some(last) = self.in_flight.back().filter(|_| self.in_flight.len() > before) {
            self.batches.push_back((last.xid, Instant::now()));
        }
    }

    fn on_sent(
        &mut self,
        sent: std::io::Result<SendProgress>,
        needs_flush: bool,
    ) -> Result<(), ConnectionEnd> {
        match sent {
            Ok(SendProgress::Wrote(0)) => {
                Err(ConnectionEnd::Broken("cannot write any more".to_owned()))
            }
            Ok(SendProgress::Wrote(bytes)) => {
                self.written += bytes;
                self.unflushed = needs_flush;
                self.sent = Instant::now();
                Ok(())
            }
            Ok(SendProgress::Flushed) => {
                self.unflushed = false;
                Ok(())
            }
            Err(error) => Err(ConnectionEnd::Broken(error.to_string())),
        }
    }

    fn on_read(&mut self, received: std::io::Result<usize>) -> Result<(), ConnectionEnd> {
        match received {
            Ok(0) => Err(ConnectionEnd::Broken("the server closed the connection".to_owned())),
            Ok(_) => {
                self.receive()?;
                if std::mem::take(&mut self.has_replied) || self.is_receiving_reply() {
                    self.heard = Instant::now();
                }
                Ok(())
            }
            Err(error) => Err(ConnectionEnd::Broken(error.to_string())),
        }
    }

    /// Whether part of a reply has been received.
    fn is_receiving_reply(&self) -> bool {
        let xid = self.inbox.get(4..8);
        self.to_skip > 0 || xid.is_some_and(|xid| xid != Xid::NOTIFICATION.0.to_be_bytes())
    }

    /// When the timer fires next: for a ping after a third of the timeout without a request, and to give
    /// up after two thirds of it without a byte of a reply.
    fn next_deadline(&self) -> Instant {
        (self.sent + self.timeout / 3).min(self.heard + self.timeout * 2 / 3)
    }

    fn on_timer(&mut self) -> Result<(), ConnectionEnd> {
        let now = Instant::now();
        if now >= self.heard + self.timeout * 2 / 3 {
            return Err(ConnectionEnd::Broken(
                "timed out: the server has replied to nothing".to_owned(),
            ));
        }
        if now >= self.sent + self.timeout / 3 {
            self.sent = now;
            self.pings.push_back(now);
            // After the bytes that are being written, before queued requests.
            return request_queue::encode(&mut self.outbox, Xid::PING, &Request::Ping, usize::MAX)
                .map_err(|error| ConnectionEnd::Broken(error.to_string()));
        }
        Ok(())
    }

    /// Handles every complete frame of the inbox.
    fn receive(&mut self) -> Result<(), ConnectionEnd> {
        self.skip();
        while let Some(length) = self.inbox.first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let Ok(bytes) = usize::try_from(length) else {
                return Err(ConnectionEnd::Broken(format!("a reply of {length} bytes")));
            };
            if bytes > self.shared.options.reply_bytes_max {
                if self.inbox.len() < 4 + ReplyHeader::BYTES {
                    break;
                }
                self.on_oversized(bytes)?;
                continue;
            }
            if self.inbox.len() < 4 + bytes {
                self.inbox.reserve(4 + bytes - self.inbox.len());
                return Ok(());
            }
            self.inbox.advance(4);
            let frame = self.inbox.split_to(bytes).freeze();
            self.on_frame(frame)?;
        }
        // Frames that callers still hold keep their buffer alive, so asking for the full size each
        // time would mean a new buffer each time.
        if self.inbox.capacity() - self.inbox.len() < READ_BYTES_MIN {
            self.inbox.reserve(READ_BYTES);
        }
        Ok(())
    }

    /// Fails the request of a reply that is too large, and skips the rest of the reply.
    fn on_oversized(&mut self, bytes: usize) -> Result<(), ConnectionEnd> {
        let limit = self.shared.options.reply_bytes_max;
        self.has_replied = true;
        self.inbox.advance(4);
        let header = self.inbox.split_to(ReplyHeader::BYTES);
        self.to_skip = bytes.saturating_sub(ReplyHeader::BYTES);
        self.skip();
        let Ok((xid, zxid, error)) = ReplyHeader::decode(&mut JuteReader::new(&header)) else {
            return Err(ConnectionEnd::Broken("a reply without a header".to_owned()));
        };
        let mut pending = self.take_pending(xid)?;
        self.note_answer(xid, zxid);
        // The server has set the watch nevertheless; confirming and dropping it removes it again.
        drop(pending.expected.take().map(|expected| expected.confirm(Existence::Present)));
        let outcome = if error == 0 { Outcome::Applied } else { Outcome::NotApplied };
        pending.answer(Err(Error::new(ErrorKind::TooLarge { bytes, limit }, outcome)));
        Ok(())
    }

    fn skip(&mut self) {
        let here = self.to_skip.min(self.inbox.len());
        self.inbox.advance(here);
        self.to_skip -= here;
    }

    fn on_frame(&mut self, mut frame: Bytes) -> Result<(), ConnectionEnd> {
        let header = ReplyHeader::decode(&mut JuteReader::new(&frame));
        let Ok((xid, zxid, error)) = header else {
            return Err(ConnectionEnd::Broken("a reply without a header".to_owned()));
        };
        frame.advance(ReplyHeader::BYTES);
        self.has_replied |= xid != Xid::NOTIFICATION;
        match xid {
            Xid::NOTIFICATION => self.on_event(zxid, &frame),
            Xid::PING => {
                if let Some(sent) = self.pings.pop_front() {
                    self.confirm_alive(sent);
                }
            }
            Xid::SET_WATCHES => self.on_watches_set(),
            Xid::AUTH => return self.on_auth(error),
            _ => return self.on_reply(xid, zxid, error, frame),
        }
        Ok(())
    }

    fn on_event(&self, zxid: Zxid, body: &[u8]) {
        match WatchedEvent::decode(&mut JuteReader::new(body)) {
            Ok((kind, path)) => self.shared.client_shared.watches.dispatch(kind, &path, zxid),
            Err(error) => tracing::warn!(%error, "cannot decode a watch event"),
        }
    }

    /// Reports a gap once all watches are set again: what is read from now on, together with the watches, misses no
    /// change.
    fn on_watches_set(&mut self) {
        self.set_watches_pending = self.set_watches_pending.saturating_sub(1);
        if self.set_watches_pending == 0 {
            self.shared.client_shared.watches.report_gap();
        }
    }

    fn on_auth(&mut self, error: i32) -> Result<(), ConnectionEnd> {
        let pending = self.auths.pop_front();
        if error != 0 {
            if let Some(pending) = pending {
                pending.answer(Err(Error::not_applied(ErrorKind::AuthFailed)));
            }
            return Err(ConnectionEnd::AuthFailed);
        }
        if let Some(pending) = pending {
            pending.answer(Ok(Answer { body: Bytes::new(), watch: None }));
        }
        Ok(())
    }

    fn on_reply(
        &mut self,
        xid: Xid,
        zxid: Zxid,
        error: i32,
        body: Bytes,
    ) -> Result<(), ConnectionEnd> {
        let pending = self.take_pending(xid)?;
        self.note_answer(xid, zxid);
        if pending.op == OpCode::CloseSession {
            pending.answer(Ok(Answer { body, watch: None }));
            return Err(ConnectionEnd::Closed);
        }
        self.settle(pending, error, body);
        Ok(())
    }

    /// Takes the request that a reply belongs to, which must be the oldest.
    fn take_pending(&mut self, xid: Xid) -> Result<PendingRequest, ConnectionEnd> {
        match self.in_flight.pop_front() {
            Some(pending) if pending.xid == xid => Ok(pending),
            Some(pending) => {
                let text = format!("reply to request {} instead of {}", xid.0, pending.xid.0);
                // The oldest request was sent, too; its outcome is as unknown as that of the others.
                self.in_flight.push_front(pending);
                Err(ConnectionEnd::Broken(text))
            }
            None => Err(ConnectionEnd::Broken(format!(
                "reply to request {}, which was never sent",
                xid.0
            ))),
        }
    }

    fn note_answer(&mut self, xid: Xid, zxid: Zxid) {
        self.last_zxid = self.last_zxid.max(zxid);
        if let Some((_, taken)) = self.batches.pop_front_if(|(last, _)| *last == xid) {
            self.confirm_alive(taken);
        }
    }

    /// Records that a request sent at this moment got a reply, so the session was alive then. The arrival of
    /// the reply would be too late: the server counts from the request.
    fn confirm_alive(&self, sent: Instant) {
        if self.has_quorum {
            let mut identity = self.shared.identity.lock();
            identity.last_confirmed = identity.last_confirmed.max(sent);
        }
    }

    fn settle(&self, mut pending: PendingRequest, error: i32, body: Bytes) {
        // For `exists`, a missing znode is not an error, and the watch is set nevertheless.
        let is_missing = pending.op == OpCode::Exists && error == ErrorCode::NoNode.code();
        if error == 0 || is_missing {
            let existence = if is_missing { Existence::Missing } else { Existence::Present };
            let watch = pending.expected.take().map(|expected| expected.confirm(existence));
            let body = if is_missing { Bytes::new() } else { body };
            return pending.answer(Ok(Answer { body, watch }));
        }
        if let ReplyTo::WatchRemoval { path, table } = &pending.to {
            self.remove_all_on_old_server(path, *table, error);
        }
        // After an internal error of the server, the change may or may not have been applied.
        let outcome = match ErrorCode::from_code(error) {
            Some(
                ErrorCode::SystemError | ErrorCode::ConnectionLoss | ErrorCode::OperationTimeout,
            ) => Outcome::Unknown,
            _ => Outcome::NotApplied,
        };
        pending.answer(Err(Error::new(ErrorKind::from_code(error), outcome)));
    }

    fn remove_all_on_old_server(&self, path: &str, table: WatchTable, error: i32) {
        let is_persistent = matches!(table, WatchTable::Persistent | WatchTable::Recursive);
        let not_understood = error != ErrorCode::NoWatcher.code();
        if is_persistent && not_understood && !self.shared.client_shared.watches.is_watched(path) {
            self.shared.queue.remove_all_watches(path);
        }
    }
}
