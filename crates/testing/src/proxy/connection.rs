//! One client connection through a proxy: two sockets, and for each direction one part that reads and
//! inspects frames and one that writes them when they are due.
//!
//! All four run in one task, so when one of them ends the connection, nothing passes in the others.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::Xid;
use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Direction;
use super::frames::{Piece, SeenAnswer, SeenRequest, Splitter};
use super::queue::{Item, Pass, QueueReceiver, QueueSender, queue};
use super::rule::Fault;
use super::shared::{Ending, ProxyState, Verdict};

/// Limit of outstanding requests per connection. Beyond it, the client is not read until the server has
/// answered.
const OUTSTANDING_MAX: usize = 1 << 16;
/// Size of a read.
const READ_BYTES: usize = 64 << 10;
/// Longer than any test runs.
const FAR_AHEAD: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A request that the server has not answered yet.
struct Outstanding {
    /// `None` for the handshake.
    xid: Option<Xid>,
    /// The fault that applies to the reply.
    verdict: Option<Verdict>,
}

/// A connection opened by a client.
pub(super) struct Connection {
    shared: Arc<ProxyState>,
    /// Starts at 1.
    number: usize,
    /// The number of cuts when the connection started.
    cuts_before: usize,
    outstanding: Mutex<VecDeque<Outstanding>>,
    /// Signals that something was removed from `outstanding`.
    answered: Notify,
    /// Do not parse frames: the client started with something else, so the response is not a frame either;
    /// or the protocol has no frames at all.
    is_raw: AtomicBool,
}

impl Connection {
    pub fn new(shared: Arc<ProxyState>, number: usize, cuts_before: usize) -> Self {
        let is_raw = AtomicBool::new(shared.carries_bytes);
        Connection {
            shared,
            number,
            cuts_before,
            outstanding: Mutex::default(),
            answered: Notify::new(),
            is_raw,
        }
    }

    /// Forwards bytes until either side or the test ends the connection.
    pub async fn run(self, client: TcpStream) {
        let server = tokio::select! {
            server = self.reach_server() => server.ok(),
            _ = self.until_cut() => None,
        };
        let Some(server) = server else {
            return reset(&client);
        };
        for stream in [&client, &server] {
            // Failure only makes a test slower.
            _ = stream.set_nodelay(true);
        }
        let ending = tokio::select! {
            ending = self.carry(&client, &server) => ending,
            ending = self.until_cut() => ending,
        };
        if ending == Ending::Reset {
            reset(&client);
            reset(&server);
        }
    }

    /// Connects to the server; during a partition it is unreachable.
    async fn reach_server(&self) -> io::Result<TcpStream> {
        self.until_open(Direction::ToServer).await;
        let upstream = self.shared.read(|state| state.upstream);
        TcpStream::connect(upstream).await
    }

    async fn until_cut(&self) -> Ending {
        self.shared.until_configured(|state| state.cuts != self.cuts_before).await;
        self.shared.read(|state| state.last_cut)
    }

    async fn until_open(&self, direction: Direction) {
        self.shared.until_configured(|state| !state.blocks(direction)).await;
    }

    async fn carry(&self, client: &TcpStream, server: &TcpStream) -> Ending {
        let (requests, requests_out) = queue();
        let (answers, answers_out) = queue();
        let reading = async {
            tokio::join!(self.read_requests(client, requests), self.read_answers(server, answers));
            Ok(())
        };
        let ended = tokio::try_join!(
            reading,
            self.write(Direction::ToServer, requests_out, server),
            self.write(Direction::ToClient, answers_out, client),
        );
        ended.err().unwrap_or(Ending::Close)
    }

    async fn read_requests(&self, client: &TcpStream, out: QueueSender) {
        let is_raw = self.shared.carries_bytes;
        let mut splitter = Splitter { is_raw, ..Splitter::default() };
        let mut is_first = true;
        while self.read(Direction::ToServer, client, &mut splitter, &out).await {
            while let Some(piece) = splitter.next() {
                match piece {
                    Piece::Frame(frame) => {
                        let request = if is_first {
                            SeenRequest::handshake()
                        } else {
                            SeenRequest::decode(&frame)
                        };
                        if self.take_request(frame, &request, &out).await.is_break() {
                            return;
                        }
                    }
                    Piece::Raw(bytes) => {
                        if is_first {
                            self.is_raw.store(true, Ordering::Release);
                        }
                        out.pass(bytes, self.due(Direction::ToServer, None), None).await;
                    }
                }
                is_first = false;
            }
        }
    }

    /// Returns `Break` if the connection ends with this request.
    async fn take_request(
        &self,
        frame: Bytes,
        request: &SeenRequest,
        out: &QueueSender,
    ) -> ControlFlow<()> {
        let verdict = self.shared.judge(self.number, request);
        let (mut for_request, mut for_reply) = (None, None);
        match verdict {
            Some(Verdict { fault: Fault::CutBeforeRequest, progress }) => {
                out.end(Ending::Close, Some(progress));
                return ControlFlow::Break(());
            }
            Some(verdict) => match verdict.fault {
                Fault::HoldRequest | Fault::DelayRequest(_) => for_request = Some(verdict),
                _ => for_reply = Some(verdict),
            },
            None => {}
        }
        while self.outstanding.lock().len() >= OUTSTANDING_MAX {
            self.answered.notified().await;
        }
        let outstanding = Outstanding { xid: request.xid, verdict: for_reply };
        self.outstanding.lock().push_back(outstanding);
        out.pass(frame, self.due(Direction::ToServer, for_request.as_ref()), for_request).await;
        ControlFlow::Continue(())
    }

    async fn read_answers(&self, server: &TcpStream, out: QueueSender) {
        let mut splitter = Splitter::default();
        let mut is_first = true;
        while self.read(Direction::ToClient, server, &mut splitter, &out).await {
            splitter.is_raw |= self.is_raw.load(Ordering::Acquire);
            while let Some(piece) = splitter.next() {
                let (bytes, verdict) = match piece {
                    Piece::Frame(frame) => {
                        let verdict = self.take_answer(&frame, is_first);
                        (frame, verdict)
                    }
                    Piece::Raw(bytes) => (bytes, None),
                };
                is_first = false;
                if let Some(Verdict { fault: Fault::CutBeforeReply, progress }) = verdict {
                    return out.end(Ending::Close, Some(progress));
                }
                let due = self.due(Direction::ToClient, verdict.as_ref());
                out.pass(bytes, due, verdict).await;
            }
        }
    }

    /// Determines what happens to a frame from the server.
    fn take_answer(&self, frame: &[u8], is_first: bool) -> Option<Verdict> {
        let xid = if is_first {
            None
        } else {
            match SeenAnswer::decode(frame) {
                SeenAnswer::Reply(xid) => Some(xid),
                SeenAnswer::Event(event) => {
                    self.shared.event(self.number, event);
                    return None;
                }
                SeenAnswer::Unknown => return None,
            }
        };
        let mut outstanding = self.outstanding.lock();
        let place = outstanding.iter().position(|request| request.xid == xid)?;
        self.answered.notify_one();
        outstanding.remove(place)?.verdict
    }

    /// Reads what is available; false at the end of the stream.
    async fn read(
        &self,
        direction: Direction,
        from: &TcpStream,
        splitter: &mut Splitter,
        out: &QueueSender,
    ) -> bool {
        splitter.buffer.reserve(READ_BYTES);
        let read = || from.try_read_buf(&mut splitter.buffer);
        match self.when_open(direction, from, Interest::READABLE, read).await {
            Ok(0) => {
                out.pass(splitter.rest(), self.due(direction, None), None).await;
                false
            }
            Ok(_) => true,
            Err(_) => {
                out.end(Ending::Reset, None);
                false
            }
        }
    }

    fn due(&self, direction: Direction, verdict: Option<&Verdict>) -> Instant {
        let delay = self.shared.read(|state| state.delay(direction));
        let further = match verdict.map(|verdict| verdict.fault) {
            Some(Fault::DelayRequest(further) | Fault::DelayReply(further)) => further,
            _ => Duration::ZERO,
        };
        let now = Instant::now();
        // A time that the clock cannot express is later than the end of this test.
        now.checked_add(delay.saturating_add(further)).unwrap_or(now + FAR_AHEAD)
    }

    async fn write(
        &self,
        direction: Direction,
        mut items: QueueReceiver,
        to: &TcpStream,
    ) -> Result<(), Ending> {
        while let Some(item) = items.recv().await {
            match item {
                Item::Pass(pass) => {
                    self.until_may_pass(&pass).await;
                    self.write_all(direction, to, &pass.bytes).await?;
                }
                Item::End(ending, progress) => {
                    if let Some(progress) = progress {
                        self.shared.fired(&progress);
                    }
                    return Err(ending);
                }
            }
        }
        let shut_down = || SockRef::from(to).shutdown(Shutdown::Write);
        // It fails if the other side has closed, and then it is shut down anyway.
        _ = self.when_open(direction, to, Interest::WRITABLE, shut_down).await;
        Ok(())
    }

    async fn until_may_pass(&self, pass: &Pass) {
        let fault = pass.verdict.as_ref().map(|verdict| (verdict.fault, &verdict.progress));
        if let Some((Fault::DelayRequest(_) | Fault::DelayReply(_), progress)) = fault {
            self.shared.fired(progress);
        }
        sleep_until(pass.due).await;
        if let Some((Fault::HoldRequest | Fault::HoldReply, progress)) = fault {
            self.shared.fired(progress);
            self.shared.until_configured(|_| progress.is_released.load(Ordering::Acquire)).await;
        }
    }

    async fn write_all(
        &self,
        direction: Direction,
        to: &TcpStream,
        mut bytes: &[u8],
    ) -> Result<(), Ending> {
        while !bytes.is_empty() {
            let write = || to.try_write(bytes);
            let written = self.when_open(direction, to, Interest::WRITABLE, write).await;
            bytes = &bytes[written.map_err(|_| Ending::Reset)?..];
        }
        Ok(())
    }

    /// Performs an operation on a socket as soon as the socket is ready and traffic is not blocked.
    async fn when_open<T>(
        &self,
        direction: Direction,
        stream: &TcpStream,
        interest: Interest,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            self.until_open(direction).await;
            stream.ready(interest).await?;
            // Under the lock, so that nothing passes after an order to stop.
            let done = self.shared.read(|state| {
                let may_pass = !state.blocks(direction) && state.cuts == self.cuts_before;
                may_pass.then(&mut attempt)
            });
            match done {
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Some(done) => return done,
                None if self.shared.read(|state| state.cuts != self.cuts_before) => {
                    // The task that waits for the cut ends this too.
                    std::future::pending::<()>().await;
                }
                None => {}
            }
        }
    }
}

/// Turns the next close into a reset.
pub(super) fn reset(stream: &TcpStream) {
    // It fails only for a closed socket.
    _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
