//! Transactions whose outcome is always found out.
//!
//! In: the writes of a queue (an item added or removed). Out: whether they were applied, which is exactly once or not
//! at all; a lost reply leaves no doubt.
//!
//! Every transaction also sets a *receipt*: an ephemeral node of ours, at the version that it had before. If the
//! reply is lost, the very same transaction is sent again. If the first one was applied, the version of the receipt
//! has changed and the second one is rejected; otherwise the second one is applied in its place. So it does not
//! matter when the first one is carried out. This costs no round trip, only a small write beside the intended one.
//!
//! One doubt remains: the session ends while the reply is missing. Its receipts end with it, and the error is
//! [`Outcome::Unknown`]. A deadline of the client must not cause further doubts, because an item whose deletion is in
//! doubt is lost to all consumers: it does not apply here.
//!
//! Nodes: `<queue>-receipts/<uuid>`, ephemeral, no data, one for each transaction that is in flight at the same time
//! and a few in reserve. They are beside the queue and not in it, because Curator complains about unexpected children
//! there.

use herdsman_client::{Client, Error, ErrorKind, Lifetime, Op, OpResult, Outcome, Session};
use parking_lot::Mutex;
use uuid::Uuid;

use super::ensure;
use crate::retrying::retrying;

/// Receipts kept for later transactions.
const RESERVE_MAX: usize = 8;

/// The receipts of one queue.
#[derive(Debug)]
pub(super) struct Receipts {
    /// The client, with endless retries.
    client: Client,
    directory: String,
    reserve: Mutex<Vec<Receipt>>,
}

/// A transaction that was applied.
#[derive(Debug)]
pub(super) struct Committed {
    /// The clock of the server when it was applied, if its reply arrived.
    pub(super) server_time_ms: Option<i64>,
}

#[derive(Debug)]
struct Receipt {
    path: String,
    session: Session,
    /// `None`: the node does not exist yet.
    version: Option<i32>,
}

impl Receipts {
    pub(super) fn new(client: &Client, queue: &str) -> Self {
        let directory = format!("{queue}-receipts");
        Receipts { client: retrying(client), directory, reserve: Mutex::default() }
    }

    /// Applies all of these writes once, or none.
    pub(super) async fn commit(&self, ops: &[Op]) -> Result<Committed, Error> {
        loop {
            let mut receipt = self.take_receipt().await?;
            match receipt.commit(ops).await {
                // Nothing was applied in the session that has ended; the next one can do it.
                Err(error)
                    if *error.kind() == ErrorKind::SessionExpired
                        && error.outcome() == Outcome::NotApplied
                        && self.client.is_managed() => {}
                done => return done,
            }
        }
    }

    async fn take_receipt(&self) -> Result<ReceiptInUse<'_>, Error> {
        let session = self.client.connected_session().await?;
        let receipt = self.reserved_or_new(&session);
        Ok(ReceiptInUse { receipts: self, receipt, is_settled: false })
    }

    fn reserved_or_new(&self, session: &Session) -> Receipt {
        let mut reserve = self.reserve.lock();
        reserve.retain(|receipt| receipt.session.id() == session.id());
        reserve.pop().unwrap_or_else(|| self.new_receipt(session))
    }

    fn new_receipt(&self, session: &Session) -> Receipt {
        let path = format!("{}/{}", self.directory, Uuid::new_v4());
        Receipt { path, session: session.clone(), version: None }
    }

    fn discard(&self, receipt: &Receipt) {
        if !receipt.session.state().is_final() {
            self.client.bound_to(&receipt.session).delete(&receipt.path).in_background();
        }
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        let reserve = std::mem::take(&mut *self.reserve.lock());
        for receipt in &reserve {
            self.discard(receipt);
        }
    }
}

/// A receipt in use.
struct ReceiptInUse<'r> {
    receipts: &'r Receipts,
    receipt: Receipt,
    /// The receipt's version is known, so it can be used again.
    is_settled: bool,
}

impl ReceiptInUse<'_> {
    async fn commit(&mut self, ops: &[Op]) -> Result<Committed, Error> {
        let client = self.receipts.client.bound_to(&self.receipt.session);
        let mut doubt = None;
        loop {
            let all = std::iter::once(self.proof()).chain(ops.iter().cloned());
            let error = match client.transaction(all).await {
                Ok(results) => return Ok(self.settle(results.first())),
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(0), ErrorKind::NodeExists | ErrorKind::BadVersion) if doubt.is_some() => {
                    return Ok(self.settle(None));
                }
                (Some(0), ErrorKind::NoNode) => self.repair(&client, doubt.as_ref()).await?,
                (Some(0), _) => return Err(doubt.unwrap_or(error)),
                // The receipt was as expected, so nothing of this transaction was applied before.
                (Some(_), _) => {
                    self.is_settled = true;
                    return Err(error);
                }
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                    doubt.get_or_insert(error);
                }
                // Servers before 3.7 do not return the stat of the receipt, and it could not be read.
                (None, _) if error.outcome() == Outcome::Applied => return Ok(self.settle(None)),
                (None, _) => return Err(doubt.unwrap_or(error)),
            }
        }
    }

    /// Returns an operation whose own success or failure shows whether an earlier attempt was applied.
    fn proof(&self) -> Op {
        match self.receipt.version {
            None => Op::create(&self.receipt.path, "").ephemeral(),
            Some(version) => Op::set(&self.receipt.path, "").version(version),
        }
    }

    fn settle(&mut self, proof: Option<&OpResult>) -> Committed {
        self.receipt.version = Some(self.receipt.version.map_or(0, |version| version + 1));
        self.is_settled = true;
        let server_time_ms = match proof {
            Some(OpResult::Created(created)) => Some(created.stat.ctime),
            Some(OpResult::Set(stat)) => Some(stat.mtime),
            _ => None,
        };
        Committed { server_time_ms }
    }

    /// Handles a missing directory, or a receipt that was deleted by hand.
    async fn repair(&mut self, client: &Client, doubt: Option<&Error>) -> Result<(), Error> {
        if self.receipt.version.is_some() {
            if let Some(doubt) = doubt {
                return Err(doubt.clone());
            }
            self.receipt = self.receipts.new_receipt(&self.receipt.session);
        }
        let made = ensure(client, &self.receipts.directory, Lifetime::Container).await;
        made.map_err(|error| doubt.cloned().unwrap_or(error))
    }
}

impl Drop for ReceiptInUse<'_> {
    fn drop(&mut self) {
        let mut reserve = self.receipts.reserve.lock();
        let is_wanted = self.is_settled && reserve.len() < RESERVE_MAX;
        if is_wanted && self.receipt.version.is_some() {
            let session = self.receipt.session.clone();
            let spent = Receipt { path: String::new(), session, version: None };
            reserve.push(std::mem::replace(&mut self.receipt, spent));
            return;
        }
        drop(reserve);
        let was_sent = !self.is_settled || self.receipt.version.is_some();
        if was_sent {
            self.receipts.discard(&self.receipt);
        }
    }
}
