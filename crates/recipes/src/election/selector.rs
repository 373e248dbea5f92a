//! Work that only the leader does.
//!
//! In: an election and the work. Out: the work runs while its candidate leads, is dropped where it
//! stands when the leadership is lost, and begins again as [`Requeue`] says. Deliberately not here:
//! threads to interrupt; to stop, drop the future, which resigns.
//!
//! Curator: `LeaderSelector`, whose nodes an [`Election`] uses unless told otherwise.

use super::{Election, Term};
use crate::error::{Error, Result};

/// Whether a candidate stands for election again after its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requeue {
    /// One term, whatever its end.
    Never,
    /// Until the work has been done once: again if the leadership was lost before.
    #[default]
    AfterLoss,
    /// Always, at the end of the line: also when the work is done.
    Always,
}

/// Runs work while leading.
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
    /// Work of the leader of this election.
    #[must_use]
    pub fn new(election: Election) -> Self {
        Selector { election, requeue: Requeue::default() }
    }

    /// Whether to stand for election again after a term.
    #[must_use]
    pub fn requeue(mut self, requeue: Requeue) -> Self {
        self.requeue = requeue;
        self
    }

    /// Stands for election and runs `work` in each term. Returns what the work returned in the last
    /// term; [`Error::Lost`] if that was lost. With [`Requeue::Always`] it returns only when the
    /// client is closed, or its session over if it has but one. Dropping the future resigns.
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
