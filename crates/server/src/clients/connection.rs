//! One client's connection: a task on the I/O thread that accepted it, from the first byte to the
//! last. Apache: `NIOServerCnxn`.
//!
//! Each iteration does everything that can be done without waiting: it takes output from the core,
//! serves the complete frames, and writes once. Reads are answered immediately from the shared tree;
//! requests that need the log go to the core, and so do reads that follow them: see `submit`.
//!
//! Limits: a frame (`jute.maxbuffer`, and far less before there is a session), replies not read by the client
//! (`OUTPUT_BYTES_MAX` stops serving, [`Outbox`](crate::clients::outbox) closes), requests in flight and their bytes
//! (stop reading, see `read_pause`), the time without a session.

mod credentials;
mod end_reason;
mod handshake;
mod read_pause;
mod reads;
mod sasl;
mod serve;
mod submit;
mod submitted;
mod wait;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use herdsman_node::Input;
use herdsman_proto::limits::ids_fit;
use herdsman_proto::{Id, SessionId};
use herdsman_tree::{StepLimit, Watcher, auth};
use tokio::sync::watch;
use tokio::time::Sleep;
use tracing::debug;

use crate::clients::Client;
use crate::clients::buffer_pool;
use crate::clients::intake::Intake;
use crate::clients::io_threads::ServerContext;
use crate::clients::outbox::{CloseCause, TakenOutput};
use crate::clients::unread_bytes::STEP_BYTES;
use crate::clients::wire::Wire;
use end_reason::EndReason;
use read_pause::{ReadPause, Share};
use sasl::SaslLogin;
use submitted::SubmittedQueue;

/// Unsent reply bytes beyond which no further request is served.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Limit of the first frame. A connect request has 45 bytes, or a little more with a longer password; a client that
/// has no session yet gets no more memory. (Apache applies no separate limit.)
const FIRST_FRAME_BYTES_MAX: usize = 4096;
/// How long a closing connection may take to send its last replies.
const LINGER: Duration = Duration::from_secs(5);
/// Watches of an ended connection that are removed at a time, and bytes of their paths: a fraction of a millisecond.
const WATCHES_PER_TURN: StepLimit = StepLimit { znodes: 1000, bytes: 128 << 10 };

/// The stage of a connection, named for what it awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first frame, or a four-letter word, is expected.
    AwaitingConnect,
    /// A connect request waits until the server has a role.
    AwaitingRole,
    /// The core decides about the session.
    AwaitingSession,
    /// Requests are served.
    Serving,
    /// Nothing more is read; the last replies are sent.
    Closing,
}

/// A connection and its state.
pub(crate) struct Connection {
    shared: Arc<ServerContext>,
    client: Arc<Client>,
    wire: Wire,
    intake: Intake,
    output: Vec<u8>,
    /// The bytes of `output` that are written.
    written: usize,
    /// Requests in flight in the core; while there are any, reads must go through the core too.
    in_flight: usize,
    /// Metadata of the requests in flight.
    submitted: SubmittedQueue,
    ids: Arc<[Id]>,
    /// Only authentication requests are accepted so far.
    must_log_in: bool,
    sasl_login: SaslLogin,
    session: SessionId,
    stage: Stage,
    ended: Option<EndReason>,
    /// Notified when the server gets a role, while a connect request waits for one.
    role_changes: Option<watch::Receiver<Option<u64>>>,
    /// Deadline of the current stage: for a session, a role, or the last replies.
    deadline: Option<Pin<Box<Sleep>>>,
    touched_ms: u64,
    /// The first request of the intake waits for the replies to earlier ones.
    held: bool,
    /// When requests began to wait in the intake, if `throttled_op_wait_time` is set.
    waiting_since_us: Option<u64>,
    /// Bytes of large requests in flight, see `largeRequestMaxBytes`.
    large_bytes: u64,
    /// Its share of the global request byte budget.
    share: Share,
    /// The limit that pauses reading, if any.
    read_pause: Option<ReadPause>,
    /// Watch events in the output, and when the oldest of them happened.
    events: (u64, u64),
}

/// Removes the watches of a connection that ended a few at a time, because the tree is blocked meanwhile. Watches that
/// are set at the same time through the core are removed when the connection ends there.
async fn remove_watches(shared: Arc<ServerContext>, watcher: Watcher) {
    while shared.core.tree().watches().remove_some(watcher, WATCHES_PER_TURN) {
        tokio::task::yield_now().await;
    }
}

impl Connection {
    /// `subject` is the subject of the client's certificate.
    pub fn new(
        shared: Arc<ServerContext>,
        client: Arc<Client>,
        wire: Wire,
        subject: Option<&str>,
    ) -> Self {
        let sessionless = Duration::from_millis(shared.settings.sessionless_timeout_ms);
        let mut ids = vec![auth::ip_id(client.peer.ip())];
        if let Some(subject) = subject {
            ids.extend(shared.settings.schemes.of_certificate(subject));
        }
        let ids_fit = ids_fit(&ids);
        let mut connection = Connection {
            intake: Intake::new(FIRST_FRAME_BYTES_MAX),
            output: Vec::new(),
            written: 0,
            in_flight: 0,
            submitted: SubmittedQueue::default(),
            must_log_in: shared.settings.asks_for_login(&ids),
            sasl_login: SaslLogin::NotStarted,
            ids: ids.into(),
            session: SessionId::NONE,
            stage: Stage::AwaitingConnect,
            ended: None,
            role_changes: None,
            deadline: Some(Box::pin(tokio::time::sleep(sessionless))),
            touched_ms: 0,
            held: false,
            waiting_since_us: None,
            large_bytes: 0,
            share: Share::default(),
            read_pause: None,
            events: (0, 0),
            shared,
            client,
            wire,
        };
        if !ids_fit {
            let peer = connection.client.peer;
            connection.shared.core.stats.auth_failed.add(1);
            connection.shared.failed_logins.warn(format_args!(
                "connection from {peer} closed: the subject of its certificate is too long"
            ));
            connection.close(EndReason::Refused("the subject of its certificate is too long"));
        }
        connection
    }

    /// Serves the connection until it ends.
    pub async fn run(mut self) {
        let ended = match self.serve_until_closed().await {
            Ok(ended) | Err(ended) => ended,
        };
        debug!(peer = %self.client.peer, session = %self.session, "connection ended: {ended}");
        if self.stage != Stage::Closing {
            self.note_end(&ended);
        }
        self.drop_output();
        self.release_all_room();
        remove_watches(Arc::clone(&self.shared), self.client.id.watcher()).await;
        self.await_last_answers(&ended).await;
        // A learner answers only connections that it knows.
        self.shared.core.step(Input::Disconnected { conn: self.client.id });
        self.give_up_submitted();
        self.count_submitted_bytes();
        self.shared.core.clients.remove(&self.client);
        self.release_outstanding(self.in_flight);
        self.shared.large_bytes.fetch_sub(self.large_bytes, Ordering::Relaxed);
    }

    async fn serve_until_closed(&mut self) -> Result<EndReason, EndReason> {
        loop {
            self.work()?;
            if self.stage == Stage::Closing && !self.has_unsent() {
                self.wire.shut_down();
                return Err(self.ended.take().unwrap_or(EndReason::ByClient));
            }
            if self.can_go_on() {
                // Yields to the other connections of this thread.
                tokio::task::yield_now().await;
            } else {
                self.wait().await?;
            }
        }
    }

    /// Does everything that can be done without waiting.
    fn work(&mut self) -> Result<(), EndReason> {
        if self.output.is_empty() {
            self.output = buffer_pool::take_output();
        }
        self.take_outbox();
        if let Err(ended) = self.advance() {
            self.close(ended);
        }
        self.note_answers();
        self.write()?;
        self.count_unsent();
        self.note_read_pause();
        Ok(())
    }

    /// Whether serving stopped because the output was full, the output was sent, and there is more to serve.
    fn can_go_on(&self) -> bool {
        self.stage == Stage::Serving
            && !self.is_output_full()
            && !self.held
            && !self.is_throttled()
            && !matches!(self.intake.peek(), Ok(None))
    }

    /// Serves the received bytes as far as possible.
    fn advance(&mut self) -> Result<(), EndReason> {
        if self.stage == Stage::AwaitingConnect {
            self.handshake()?;
        }
        if self.stage == Stage::AwaitingRole {
            self.connect()?;
        }
        if self.stage == Stage::Serving {
            self.serve()?;
        }
        Ok(())
    }

    /// Stops reading; pending output is still sent, unless the connection ends for its size.
    fn close(&mut self, ended: EndReason) {
        if matches!(ended, EndReason::ByServer(CloseCause::MostUnread)) {
            self.drop_output();
        }
        if self.stage != Stage::Closing {
            self.note_end(&ended);
            self.stage = Stage::Closing;
            self.ended = Some(ended);
            self.deadline = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
    }

    /// Takes output from the core, unless the client has enough to read: then it stays in the outbox,
    /// which has a limit.
    fn take_outbox(&mut self) {
        if self.is_output_full() && !self.client.outbox.has_close() {
            return;
        }
        let before = self.output.len();
        let Some(taken) = self.client.outbox.take(&mut self.output) else { return };
        self.submitted.answers_taken(&taken, before..self.output.len());
        self.accept(&taken);
    }

    fn accept(&mut self, taken: &TakenOutput) {
        if taken.answered > 0 {
            let (before, answered) = (self.in_flight, taken.answered);
            assert!(answered <= before, "{answered} answers to {before} requests");
            self.in_flight = before - answered;
            self.release_outstanding(taken.answered);
            self.release_large();
        }
        if let Some((session, timeout_ms)) = taken.attached {
            self.session = session;
            self.consume_connect_request();
            self.stage = Stage::Serving;
            self.intake.set_frame_bytes_max(self.shared.settings.sizes.frame_bytes_max());
            self.deadline = None;
            let mut stats = self.client.stats.lock();
            stats.session = session;
            stats.timeout_ms = timeout_ms;
        }
        if taken.events > 0 {
            let since_us = if self.events.0 == 0 { taken.events_since_us } else { self.events.1 };
            self.events = (self.events.0 + taken.events, since_us);
        }
        let stats = &self.shared.core.stats;
        stats.packets_sent.add(taken.frames);
        self.client.stats.lock().sent += taken.frames;
        match taken.closing {
            Some(why) if self.may_connect_again(why) => self.stage = Stage::AwaitingRole,
            Some(why) => self.close(EndReason::ByServer(why)),
            None => {}
        }
    }

    fn release_outstanding(&self, count: usize) {
        self.shared.core.stats.outstanding.fetch_sub(count as u64, Ordering::Relaxed);
    }

    fn release_large(&mut self) {
        if self.in_flight == 0 && self.large_bytes > 0 {
            self.shared.large_bytes.fetch_sub(self.large_bytes, Ordering::Relaxed);
            self.large_bytes = 0;
        }
    }

    /// Writes once, as much as the socket accepts.
    fn write(&mut self) -> Result<(), EndReason> {
        match self.write_output() {
            Ok(()) => {
                self.written = 0;
                buffer_pool::return_output(std::mem::take(&mut self.output));
                self.note_delivered();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.forget_written(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn write_output(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            let count = self.wire.try_write(&self.output[self.written..])?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += count;
            self.shared.core.stats.bytes_sent.add(count as u64);
        }
        self.wire.flush()
    }

    /// All events from the outbox were written to the socket.
    fn note_delivered(&mut self) {
        let (events, since_us) = std::mem::take(&mut self.events);
        if events > 0 {
            let core = &self.shared.core;
            let took_us = core.clock.monotonic_us().saturating_sub(since_us);
            core.stats.durations.watch.add_us(took_us, events);
        }
    }

    fn forget_written(&mut self) {
        forget_written(&mut self.output, &mut self.written);
    }

    /// Counts unsent bytes: the memory of all clients that do not read has a limit.
    fn count_unsent(&self) {
        let now = self.unsent() as u64;
        let before = self.client.unsent_bytes.load(Ordering::Relaxed);
        if now != before {
            self.client.unsent_bytes.store(now, Ordering::Relaxed);
            let clients = &self.shared.core.clients;
            clients.unread.change(before, now);
            // Not if it is less: an output may be dropped while the tree is locked.
            if now > before {
                clients.note_more_unread();
            }
        }
    }

    fn drop_output(&mut self) {
        self.output = Vec::new();
        self.written = 0;
        self.count_unsent();
    }

    fn unsent(&self) -> usize {
        self.output.len() - self.written
    }

    /// Whether the client must read before it is served again.
    fn is_output_full(&self) -> bool {
        self.unsent() >= OUTPUT_BYTES_MAX
    }

    /// Whether there is unsent output.
    fn has_unsent(&self) -> bool {
        self.unsent() > 0 || !self.wire.is_flushed()
    }

    /// Whether more should be read: it can be served soon.
    fn may_read(&self) -> bool {
        match self.stage {
            Stage::AwaitingConnect => true,
            Stage::Serving => !self.is_output_full() && !self.held && !self.is_throttled(),
            Stage::AwaitingRole | Stage::AwaitingSession | Stage::Closing => false,
        }
    }
}

/// Frees sent bytes even if the client never catches up, and the capacity of a large
/// reply that was read or rejected: only unsent bytes count as unread.
fn forget_written(output: &mut Vec<u8>, written: &mut usize) {
    let unsent = output.len() - *written;
    let has_room = output.capacity() > 2 * unsent + STEP_BYTES;
    if *written > unsent || has_room {
        output.drain(..*written);
        *written = 0;
    }
    if has_room {
        output.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_output_follows_what_is_unsent() {
        let check = |capacity: usize, len: usize, mut written: usize| {
            let mut output = Vec::with_capacity(capacity);
            output.extend((0..len).map(|i| i as u8));
            let unsent = output[written..].to_vec();
            forget_written(&mut output, &mut written);
            assert_eq!(output[written..], unsent);
            let room = output.capacity();
            assert!(room <= 2 * unsent.len() + STEP_BYTES, "{room} for {}", unsent.len());
        };
        // A large reply was refused.
        check(64 << 20, 16, 0);
        check(64 << 20, 1 << 20, 1000);
        // A large reply is read but for its end.
        check(8 << 20, 8 << 20, (8 << 20) - 100);
        check(1 << 20, 1 << 20, (1 << 20) - 100);
        check(3 << 20, 2 << 20, 1 << 20);
    }
}
