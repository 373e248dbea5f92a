//! The limit of a bounded queue: never more items than the capacity, however many producers there are.
//!
//! The node `<queue>-capacity` holds the capacity as decimal text, and its version counts the items that were ever
//! put in. A producer reads that version *before* it counts the items, and puts its item in with a transaction that
//! demands the very same version. If any other producer was faster, the transaction is rejected and everything is
//! read again; consumers only make the count smaller. So the count that was read is an upper bound of the count at
//! the moment of the transaction, and the capacity is never exceeded by producers that use this check. Curator's
//! producers do not: they wait, without a guarantee.
//!
//! Every child of the queue counts, including those that are not items.

use herdsman_client::{Client, Op};

use crate::error::{Error, Result};
use crate::retrying::{reply_lost, retrying};

/// The capacity check of one queue.
#[derive(Debug)]
pub(super) struct CapacityCheck {
    /// The client, with endless retries like all requests of an offer.
    client: Client,
    queue: String,
    node: String,
    capacity: usize,
}

impl CapacityCheck {
    pub(super) fn new(client: &Client, queue: &str, capacity: usize) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::invalid("a queue's capacity must be at least 1"));
        }
        let node = format!("{queue}-capacity");
        Ok(CapacityCheck { client: retrying(client), queue: queue.to_owned(), node, capacity })
    }

    /// Returns the operation with which one more item may be added.
    pub(super) async fn check(&self) -> Result<Op> {
        loop {
            // Sent in this order, and answered by the same server in this order.
            let stored = self.client.get(&self.node).send();
            let queue = self.client.exists(&self.queue).send();
            let stored = match stored.await {
                Err(error) if error.is_no_node() => {
                    self.make().await?;
                    continue;
                }
                stored => stored?,
            };
            self.check_agreement(&stored.data)?;
            let items = queue.await?.map_or(0, |stat| stat.num_children);
            if usize::try_from(items).is_ok_and(|items| items >= self.capacity) {
                return Err(Error::Full { limit: self.capacity });
            }
            return Ok(Op::set(&self.node, stored.data).version(stored.stat.version));
        }
    }

    async fn make(&self) -> Result<()> {
        match self.client.create(&self.node, self.capacity.to_string()).parents().await {
            Err(error) if error.is_node_exists() => Ok(()),
            // The next read shows whether it was created.
            Err(error) if reply_lost(&error) => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }

    /// Fails if the stored capacity differs: producers that disagree would fill the queue up to the largest of their
    /// capacities.
    fn check_agreement(&self, stored: &[u8]) -> Result<()> {
        if stored == self.capacity.to_string().as_bytes() {
            return Ok(());
        }
        let stored = String::from_utf8_lossy(stored);
        let ours = self.capacity;
        Err(Error::InvalidArgument(format!("{}: the capacity is {stored}, not {ours}", self.node)))
    }
}
