//! The transactions of a queue (an item added or removed), whose outcome is always found out.
//!
//! In: writes. Out: whether they were applied, which is exactly once or not at all: see [`crate::witness`]. Witnesses
//! of a queue are called receipts; several are kept, so that a transaction seldom has to create and delete one.
//!
//! A deadline of the client must not cause doubts, because an item whose deletion is in doubt is lost to all
//! consumers: it does not apply here.
//!
//! Nodes: `<queue>-receipts/<uuid>`, ephemeral, no data, one for each transaction that is in flight at the same time
//! and a few in reserve. They are beside the queue and not in it, because Curator complains about unexpected children
//! there.

use herdsman_client::{Client, Error, Op, OpResult, Outcome, Session};
use parking_lot::Mutex;

use crate::retrying::retrying;
use crate::witness::{Committed, Witness};

/// Receipts kept for later transactions.
const RESERVE_MAX: usize = 8;

/// The receipts of one queue.
#[derive(Debug)]
pub(super) struct Receipts {
    /// The client, with endless retries.
    client: Client,
    directory: String,
    reserve: Mutex<Vec<Witness>>,
}

impl Receipts {
    pub(super) fn new(client: &Client, queue: &str) -> Self {
        let directory = format!("{queue}-receipts");
        Receipts { client: retrying(client), directory, reserve: Mutex::default() }
    }

    /// Applies all of these writes once, or none. Returns the clock of the server at that time, if its reply arrived.
    pub(super) async fn commit(&self, ops: &[Op]) -> Result<Option<i64>, Error> {
        loop {
            let session = self.client.connected_session().await?;
            let mut receipt = self.take_receipt(&session);
            let committed = receipt.commit(ops).await;
            self.keep(receipt, &session);
            match committed {
                // Nothing was applied in the session that has ended; the next one can do it.
                Err(error)
                    if error.is_session_expired()
                        && error.outcome() == Outcome::NotApplied
                        && self.client.is_managed() => {}
                committed => return committed.map(|committed| server_time_ms(&committed)),
            }
        }
    }

    fn take_receipt(&self, session: &Session) -> Witness {
        let mut reserve = self.reserve.lock();
        reserve.retain(|receipt| receipt.is_reusable_in(session));
        let receipt = reserve.pop();
        drop(reserve);
        receipt.unwrap_or_else(|| {
            Witness::new(&self.client.bound_to(session), session, &self.directory)
        })
    }

    fn keep(&self, receipt: Witness, session: &Session) {
        let mut reserve = self.reserve.lock();
        if receipt.is_reusable_in(session) && reserve.len() < RESERVE_MAX {
            reserve.push(receipt);
        }
    }
}

fn server_time_ms(committed: &Committed) -> Option<i64> {
    let Committed::Now(results) = committed else {
        return None;
    };
    match results.first()? {
        OpResult::Created(created) => Some(created.stat.ctime),
        OpResult::Set(stat) => Some(stat.mtime),
        _ => None,
    }
}
