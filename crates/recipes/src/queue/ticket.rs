//! The ticket queue: take a number, and wait for its turn.
//!
//! Layout: `<queue>/_c_<uuid>-ticket-N`, ephemeral, in a container. There is no such recipe in Curator; the names are
//! those of its locks with another marker.
//!
//! Each ticket watches only the one before it. Finding the position requires a listing of the queue, so it is only
//! done on request, or at an interval that the caller chooses; a watch that reports everything to every ticket would
//! be a herd effect.

use std::time::Duration;

use futures_core::Stream;
use herdsman_client::{Client, ErrorKind};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::item_store::check_path;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::hold::Hold;
use crate::hold_options::{HoldOptions, Holder};
use crate::line::{Layout, Line, WaitResult, after_predecessor};
use crate::retrying::must_restart;
use crate::sequence::split_name;

const TICKET: &str = "ticket-";

/// A queue of tickets that wait for their turn.
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
    /// Creates a handle for the queue at `path`. No node is created before the first ticket.
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

    /// Sets when a ticket counts as lost, the owner text that other clients read, and the ACL of its nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.line.holder.set(options);
        self
    }

    /// Takes a place at the end of the queue, which is kept as long as the session lives.
    pub async fn take_number(&self) -> Result<Ticket> {
        loop {
            let session = self.line.holder.client.connected_session().await?;
            match self.line.join(&session, TICKET).await {
                Err(error) if must_restart(&self.line.holder.client, &error) => {}
                hold => return Ok(Ticket { line: self.line.clone(), hold: hold? }),
            }
        }
    }

    /// Returns how many tickets there are, including the one whose turn it is.
    pub async fn len(&self) -> Result<usize> {
        Ok(self.line.places(&self.line.holder.client).await?.len())
    }

    /// Returns whether there is no ticket.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }
}

/// A place in a [`TicketQueue`]; see [`Hold`] for all that it can do. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "the ticket leaves the queue when it is dropped"]
pub struct Ticket {
    line: Line,
    hold: Hold,
}

impl Ticket {
    /// Returns its number. Tickets before it have smaller ones.
    #[must_use]
    pub fn number(&self) -> i32 {
        split_name(self.hold.name(), TICKET).map_or(0, |name| name.sequence)
    }

    /// Returns how many tickets are before it; 0 if it is its turn. [`Error::Lost`] if the place is lost.
    pub async fn position(&self) -> Result<usize> {
        position(&self.line, self.hold.client(), self.hold.name()).await
    }

    /// Returns the current position and every change of it, read at this interval, which must not be zero. Ends after
    /// position 0, or after an error.
    pub fn positions(
        &self,
        every: Duration,
    ) -> Result<impl Stream<Item = Result<usize>> + Unpin + Send + use<>> {
        if every.is_zero() {
            return Err(Error::invalid("positions need an interval that is not zero"));
        }
        // One position waits for a slow reader; until it is read, the queue is not listed.
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

    /// Waits until there is no ticket before it. [`Error::Lost`] if the place is lost: the session has ended, or the
    /// node was deleted.
    pub async fn turn(&self) -> Result<()> {
        match self.line.wait_for_turn(&self.hold, &after_predecessor).await {
            Ok(WaitResult::Turn) => Ok(()),
            Ok(WaitResult::NotInLine) => Err(Error::Lost),
            Err(error) => Err(lost_with_session(error)),
        }
    }

    /// Leaves the queue, and waits until the server has confirmed that.
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
