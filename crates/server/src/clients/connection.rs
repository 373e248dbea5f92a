//! One client's connection: a task on the I/O thread that accepted it, from the first byte to the
//! last. Apache: `NIOServerCnxn`.
//!
//! Every turn of its loop does all that can be done without waiting: take what the core has for it,
//! serve the frames that are here, write once. Reads are answered on the spot from the shared tree;
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
use herdsman_tree::{Watcher, auth};
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

/// Replies that may wait for a client before its next request is served.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// A first frame may be so long. A connect request takes 45 bytes, or some more with a longer password; who
/// has no session yet gets no more of our memory. (In Apache a first frame may be as long as any.)
const FIRST_FRAME_BYTES_MAX: usize = 4096;
/// How long a closing connection may take to send its last replies.
const LINGER: Duration = Duration::from_secs(5);
/// Watches of a connection that ended which are removed at a time: a fraction of a millisecond.
const WATCHES_PER_TURN: usize = 1000;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first frame, or a four-letter word, is expected.
    AwaitingConnect,
    /// A connect request is here, and the server is looking for a leader.
    AwaitingRole,
    /// The core decides about the session.
    AwaitingSession,
    /// Requests are served.
    Serving,
    /// Nothing more is read; the last replies go out.
    Closing,
}

/// A connection and all it owns.
pub(crate) struct Connection {
    shared: Arc<ServerContext>,
    client: Arc<Client>,
    wire: Wire,
    intake: Intake,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    /// Requests that are with the core: as long as there are any, the tree is not ours to answer from.
    in_flight: usize,
    /// What is known of them.
    submitted: SubmittedQueue,
    ids: Arc<[Id]>,
    /// What it has proven is not enough for anything but a login.
    must_log_in: bool,
    sasl_login: SaslLogin,
    session: SessionId,
    stage: Stage,
    ended: Option<EndReason>,
    /// Hears when the server gets a role, while the client waits for that.
    role_changes: Option<watch::Receiver<Option<u64>>>,
    /// When it ends for want of a session, or of a client that reads its last replies, or no longer waits for a role.
    deadline: Option<Pin<Box<Sleep>>>,
    touched_ms: u64,
    /// The request at the front of the intake waits for the answers to those before it.
    held: bool,
    /// Since when requests wait in the intake, if `throttled_op_wait_time` is set.
    waiting_since_us: Option<u64>,
    /// Large requests in flight, see `largeRequestMaxBytes`.
    large_bytes: u64,
    /// What it has of the bytes that all connections share.
    share: Share,
    /// The limit because of which it is not read.
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
    /// `subject` is whose certificate the other end has shown.
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

    /// Serves the connection to its end.
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
        self.shared.core.step(Input::Disconnected { conn: self.client.id });
        self.await_last_answers().await;
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
                // A pause for the other connections of this thread.
                tokio::task::yield_now().await;
            } else {
                self.wait().await?;
            }
        }
    }

    /// All that can be done without waiting.
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

    /// Serving stopped because the output was full, the output is out, and there is more to serve.
    fn can_go_on(&self) -> bool {
        self.stage == Stage::Serving
            && !self.is_output_full()
            && !self.held
            && !self.is_throttled()
            && !matches!(self.intake.peek(), Ok(None))
    }

    /// Does all that can be done with the bytes that are here.
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

    /// Stops reading; what is in the output still goes out, unless the connection ends for its size.
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

    /// Takes what the core has for the client, unless that has enough to read: then it waits in the outbox,
    /// which knows when it is too much.
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

    /// One write, as much as the socket takes.
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

    /// All events that were taken from the outbox are with the socket.
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

    /// The memory of all clients that do not read has a limit.
    fn count_unsent(&self) {
        let now = self.unsent() as u64;
        let before = self.client.unsent_bytes.load(Ordering::Relaxed);
        if now != before {
            self.client.unsent_bytes.store(now, Ordering::Relaxed);
            let clients = &self.shared.core.clients;
            clients.unread.change(before, now);
            // Not if it is less: an output may be dropped while the tree is held.
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

    /// The client has to read before it is served again.
    fn is_output_full(&self) -> bool {
        self.unsent() >= OUTPUT_BYTES_MAX
    }

    /// Something waits for the socket to take it.
    fn has_unsent(&self) -> bool {
        self.unsent() > 0 || !self.wire.is_flushed()
    }

    /// Reading more makes sense: somebody will serve it soon.
    fn may_read(&self) -> bool {
        match self.stage {
            Stage::AwaitingConnect => true,
            Stage::Serving => !self.is_output_full() && !self.held && !self.is_throttled(),
            Stage::AwaitingRole | Stage::AwaitingSession | Stage::Closing => false,
        }
    }
}

/// A client that never quite catches up must not keep what it has read in our memory, nor the room of a large
/// reply that it has read or that was refused: only what is unsent counts as unread.
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
