//! One connection to one server, from the handshake's end until it breaks.
//!
//! In: the session's queue, bytes from the server, time. Out: bytes to the server, answers to
//! callers, events to watches. Requests are answered in the order they were sent; an answer out of
//! order means that we do not understand each other, and ends the connection.
//!
//! A server that says nothing for two thirds of the session timeout is given up, so that a third is
//! left to find another one. Apache: `ClientCnxn.SendThread`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use herdsman_proto::event::WatchedEvent;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::request::ReadRequest;
use herdsman_proto::{ErrorCode, OpCode, Reader, Request, Xid, Zxid};
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
    /// The session may go on elsewhere.
    Broken(String),
    /// The server has confirmed the goodbye.
    Closed,
    /// The server does not believe who we are.
    AuthFailed,
}

/// A planned change to another server: the connection is left once everything sent is answered.
#[derive(Clone, Copy)]
struct PlannedMove {
    /// It is left at this moment at the latest.
    at: Instant,
    why: &'static str,
}

/// Room for what is read next: a new buffer has this much,
const READ_BYTES: usize = 64 << 10;
/// and is replaced when less than this is left.
const READ_BYTES_MIN: usize = 8 << 10;

/// A connection in use.
pub(super) struct Connection {
    transport: Option<Transport>,
    protocol: ProtocolState,
    timer: Pin<Box<Sleep>>,
    search: Option<ServerSearch>,
    serves_as: ConnectionState,
}

/// What was said and is not answered yet.
struct ProtocolState {
    shared: Arc<SessionShared>,
    inbox: BytesMut,
    outbox: Vec<u8>,
    written: usize,
    /// Bytes were written that the transport may still hold back.
    unflushed: bool,
    in_flight: VecDeque<PendingRequest>,
    /// Credentials are answered out of turn.
    auths: VecDeque<PendingRequest>,
    set_watches_pending: usize,
    last_zxid: Zxid,
    /// When requests were taken from the queue, and the last of each batch.
    batches: VecDeque<(Xid, Instant)>,
    heard: Instant,
    sent: Instant,
    /// When the oldest ping was sent that is not answered.
    pinged: Option<Instant>,
    /// Bytes to come of a reply that is too large.
    to_skip: usize,
    timeout: Duration,
}

impl Connection {
    /// Prepares what goes before all requests: credentials and the watches of earlier connections.
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
            sent: now,
            pinged: None,
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

    /// Serves until the connection ends.
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
                        Err(ConnectionEnd::Broken("a server that takes writes was found".to_owned()))
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

    /// Tells everybody who still waits that no answer will come.
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

/// What was done for bytes to get out.
enum Sending {
    Wrote(usize),
    Flushed,
}

/// Writes some of these bytes; if there are none, sees to it that earlier ones go out. Cancel-safe.
async fn send(
    write: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> std::io::Result<Sending> {
    if bytes.is_empty() {
        write.flush().await.map(|()| Sending::Flushed)
    } else {
        write.write(bytes).await.map(Sending::Wrote)
    }
}

fn must_move(task: &mut SessionTask) -> bool {
    match task.hosts.replace(&task.servers.borrow_and_update()) {
        MoveDecision::Stay => false,
        MoveDecision::MoveFromRemoved | MoveDecision::MoveForBalance => true,
    }
}

/// Resolves when a move cannot wait any longer; never, if there is none.
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

    /// Nobody waits for anything that was sent.
    fn is_answered(&self) -> bool {
        self.in_flight.is_empty() && self.auths.is_empty()
    }

    /// Takes what has been queued.
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
        sent: std::io::Result<Sending>,
        needs_flush: bool,
    ) -> Result<(), ConnectionEnd> {
        match sent {
            Ok(Sending::Wrote(0)) => {
                Err(ConnectionEnd::Broken("the server takes no more".to_owned()))
            }
            Ok(Sending::Wrote(bytes)) => {
                self.written += bytes;
                self.unflushed = needs_flush;
                self.sent = Instant::now();
                Ok(())
            }
            Ok(Sending::Flushed) => {
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
                self.heard = Instant::now();
                self.receive()
            }
            Err(error) => Err(ConnectionEnd::Broken(error.to_string())),
        }
    }

    /// When something is due: a ping after a third of the timeout without a word from us, giving
    /// up after two thirds without a word from the server.
    fn next_deadline(&self) -> Instant {
        (self.sent + self.timeout / 3).min(self.heard + self.timeout * 2 / 3)
    }

    fn on_timer(&mut self) -> Result<(), ConnectionEnd> {
        let now = Instant::now();
        if now >= self.heard + self.timeout * 2 / 3 {
            return Err(ConnectionEnd::Broken("the server has fallen silent".to_owned()));
        }
        if now >= self.sent + self.timeout / 3 {
            self.sent = now;
            self.pinged.get_or_insert(now);
            // Behind what is being written, in front of what is queued.
            return request_queue::encode(&mut self.outbox, Xid::PING, &Request::Ping, usize::MAX)
                .map_err(|error| ConnectionEnd::Broken(error.to_string()));
        }
        Ok(())
    }

    /// Handles every whole frame of the inbox.
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

    /// A reply that is too large to be kept: its request fails, and the rest of it is skipped.
    fn on_oversized(&mut self, bytes: usize) -> Result<(), ConnectionEnd> {
        let limit = self.shared.options.reply_bytes_max;
        self.inbox.advance(4);
        let header = self.inbox.split_to(ReplyHeader::BYTES);
        self.to_skip = bytes.saturating_sub(ReplyHeader::BYTES);
        self.skip();
        let Ok((xid, zxid, error)) = ReplyHeader::decode(&mut Reader::new(&header)) else {
            return Err(ConnectionEnd::Broken("a reply without a header".to_owned()));
        };
        let mut pending = self.take_pending(xid)?;
        self.note_answer(xid, zxid);
        // The watch is set all the same; confirmed and dropped, it is removed again.
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
        let header = ReplyHeader::decode(&mut Reader::new(&frame));
        let Ok((xid, zxid, error)) = header else {
            return Err(ConnectionEnd::Broken("a reply without a header".to_owned()));
        };
        frame.advance(ReplyHeader::BYTES);
        match xid {
            Xid::NOTIFICATION => self.on_event(zxid, &frame),
            Xid::PING => {
                if let Some(pinged) = self.pinged.take() {
                    self.confirm_alive(pinged);
                }
            }
            Xid::SET_WATCHES => self.on_watches_set(),
            Xid::AUTH => return self.on_auth(error),
            _ => return self.on_reply(xid, zxid, error, frame),
        }
        Ok(())
    }

    fn on_event(&self, zxid: Zxid, body: &[u8]) {
        match WatchedEvent::decode(&mut Reader::new(body)) {
            Ok((kind, path)) => self.shared.client_shared.watches.dispatch(kind, &path, zxid),
            Err(error) => tracing::warn!(%error, "an event that we do not know"),
        }
    }

    /// What is read from now on misses nothing that the watches will report.
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

    /// The request that is answered, which must be the oldest.
    fn take_pending(&mut self, xid: Xid) -> Result<PendingRequest, ConnectionEnd> {
        match self.in_flight.pop_front() {
            Some(pending) if pending.xid == xid => Ok(pending),
            Some(pending) => {
                let text = format!("answer to request {} instead of {}", xid.0, pending.xid.0);
                // The request that waits was sent; its fate is as unknown as that of the others.
                self.in_flight.push_front(pending);
                Err(ConnectionEnd::Broken(text))
            }
            None => Err(ConnectionEnd::Broken(format!("answer to request {}, never made", xid.0))),
        }
    }

    fn note_answer(&mut self, xid: Xid, zxid: Zxid) {
        self.last_zxid = self.last_zxid.max(zxid);
        if let Some((_, taken)) = self.batches.pop_front_if(|(last, _)| *last == xid) {
            self.confirm_alive(taken);
        }
    }

    /// What was sent at this moment has been answered, so the session was alive then. The arrival of
    /// the answer would not do: the server counts from the request.
    fn confirm_alive(&self, sent: Instant) {
        self.shared.identity.lock().last_confirmed = sent;
    }

    fn settle(&self, mut pending: PendingRequest, error: i32, body: Bytes) {
        // A znode that does not exist is an answer to exists, and its watch is set all the same.
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
        // A server that failed inside may have failed before or after the change.
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
