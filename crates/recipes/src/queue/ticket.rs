//! The ticket queue: take a number, wait until it is called.
//!
//! Layout: `<queue>/_c_<uuid>-ticket-N`, ephemeral, in a container. There is no such recipe in
//! Curator; the names are those of its locks with another marker.
//!
//! Each ticket watches only the one before it. To know one's position means to list the queue, so
//! that is done when asked for, or at an interval of the caller's own; a watch that tells everybody
//! of everything would be the herd.

use std::time::Duration;

use futures_core::Stream;
use herdsman_client::{Client, ErrorKind};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::intake::check_path;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::line::{Layout, Line, Standing, after_predecessor};
use crate::patient::begins_again;
use crate::sequence::split_name;

const TICKET: &str = "ticket-";

/// A queue of those who wait for their turn.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::queue::TicketQueue;
///
/// let counter = TicketQueue::new(&zk, "/counter")?;
/// let (mine, yours) = (counter.take_number().await?, counter.take_number().await?);
/// mine.turn().await?;
/// assert_eq!(yours.position().await?, 1);
/// mine.leave().await?;
/// yours.turn().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TicketQueue {
    line: Line,
}

impl TicketQueue {
    /// The queue at `path`. Nothing is made before the first ticket.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        let line = Line {
            holder: Holder::new(client, "").until_session_timeout(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            markers: &[TICKET],
        };
        Ok(TicketQueue { line })
    }

    /// When a ticket counts as lost, what others read about its holder, and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.line.holder.set(options);
        self
    }

    /// A place at the end of the queue, kept as long as the session.
    pub async fn take_number(&self) -> Result<Ticket> {
        loop {
            let session = self.line.holder.client.connected_session().await?;
            match self.line.join(&session, TICKET).await {
                Err(error) if begins_again(&self.line.holder.client, &error) => {}
                hold => return Ok(Ticket { line: self.line.clone(), hold: hold? }),
            }
        }
    }

    /// How many tickets are out, the one whose turn it is included.
    pub async fn len(&self) -> Result<usize> {
        Ok(self.line.places(&self.line.holder.client).await?.len())
    }

    /// Whether no ticket is out.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }
}

/// A place in a [`TicketQueue`]; see [`Hold`] for all that it can do. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "the place is given up when the ticket is dropped"]
pub struct Ticket {
    line: Line,
    hold: Hold,
}

impl Ticket {
    /// The number on it. Those in front have smaller ones.
    #[must_use]
    pub fn number(&self) -> i32 {
        split_name(self.hold.name(), TICKET).map_or(0, |name| name.sequence)
    }

    /// How many are in front; 0 if it is this one's turn. [`Error::Lost`] if the place is lost.
    pub async fn position(&self) -> Result<usize> {
        position(&self.line, self.hold.client(), self.hold.name()).await
    }

    /// Every change of the position, looked at so often, which must not be zero; first of all the
    /// position of now. Ends behind position 0, or behind an error.
    pub fn positions(
        &self,
        every: Duration,
    ) -> Result<impl Stream<Item = Result<usize>> + Unpin + Send + use<>> {
        if every.is_zero() {
            return Err(Error::invalid("positions need an interval that is not zero"));
        }
        // One waits for a slow reader; then the queue is not looked at.
        let (send, receive) = mpsc::channel(1);
        let (line, client) = (self.line.clone(), self.hold.client().clone());
        let name = self.hold.name().to_owned();
        client.clone().spawn(async move {
            tokio::select! {
                () = report_positions(&line, &client, &name, every, &send) => {}
                () = send.closed() => {}
            }
        });
        Ok(ReceiverStream::new(receive))
    }

    /// Waits until nobody is in front. [`Error::Lost`] if the place is lost: the session is over, or
    /// somebody has deleted it.
    pub async fn turn(&self) -> Result<()> {
        match self.line.wait_for_turn(&self.hold, &after_predecessor).await {
            Ok(Standing::Turn) => Ok(()),
            Ok(Standing::NotInLine) => Err(Error::Lost),
            Err(error) => Err(lost_with_session(error)),
        }
    }

    /// Leaves the queue, and waits until the server knows.
    pub async fn leave(self) -> Result<()> {
        self.hold.release().await
    }
}

guard!(Ticket, hold, leave);

async fn report_positions(
    line: &Line,
    client: &Client,
    name: &str,
    every: Duration,
    send: &mpsc::Sender<Result<usize>>,
) {
    let mut known = None;
    let mut looks = tokio::time::interval(every);
    loop {
        looks.tick().await;
        let now = position(line, client, name).await;
        let is_last = matches!(now, Ok(0) | Err(_));
        if known.as_ref() != Some(&now) && send.send(now.clone()).await.is_err() {
            return;
        }
        if is_last {
            return;
        }
        known = Some(now);
    }
}

async fn position(line: &Line, client: &Client, name: &str) -> Result<usize> {
    let places = line.places(client).await.map_err(lost_with_session)?;
    places.iter().position(|place| place.name == name).ok_or(Error::Lost)
}

fn lost_with_session(error: Error) -> Error {
    match error.client_kind() {
        Some(ErrorKind::SessionExpired) => Error::Lost,
        _ => error,
    }
}
