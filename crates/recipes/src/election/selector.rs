//! Work that only the leader does.
//!
//! In: an election and the work. Out: the work runs while its candidate leads, is dropped at its current await point
//! when the leadership is lost, and begins again as [`Requeue`] says. Deliberately not here: threads to interrupt; to
//! stop, drop the future, which resigns.
//!
//! Curator: `LeaderSelector`, whose nodes an [`Election`] uses by default.

use super::{Election, Term};
use crate::error::{Error, Result};

/// Whether a candidate campaigns again after its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requeue {
    /// One term, however it ends.
    Never,
    /// Until the work has been done once: again if the leadership was lost before.
    #[default]
    AfterLoss,
    /// Always, from the end of the line, even when the work is done.
    Always,
}

/// Runs work while it leads.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let client = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::election::{Election, Selector};
///
/// let election = Election::new(&client, "/app/leader", "host-1")?;
/// let token = Selector::new(election).run(|term| async move { term.token() }).await?;
/// assert!(token > 0);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Selector {
    election: Election,
    requeue: Requeue,
}

impl Selector {
    /// Creates a selector that runs work as the leader of this election.
    #[must_use]
    pub fn new(election: Election) -> Self {
        Selector { election, requeue: Requeue::default() }
    }

    /// Sets whether to campaign again after a term.
    #[must_use]
    pub fn requeue(mut self, requeue: Requeue) -> Self {
        self.requeue = requeue;
        self
    }

    /// Campaigns and runs `work` in each term. Returns the result of `work` in the last term; [`Error::Lost`] if that
    /// was lost. With [`Requeue::Always`] it returns only when the client is closed, or when its session has ended if
    /// it is bound to one. Dropping the future resigns.
    pub async fn run<T, F>(&self, mut work: impl FnMut(Term) -> F) -> Result<T>
    where
        F: Future<Output = T>,
    {
        loop {
            match (self.election.lead(&mut work).await, self.requeue) {
                (Ok(_), Requeue::Always)
                | (Err(Error::Lost), Requeue::Always | Requeue::AfterLoss) => {}
                (ended, _) => return ended,
            }
        }
    }
}
