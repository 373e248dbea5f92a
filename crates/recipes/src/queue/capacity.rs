//! The gate of a bounded queue: no more items than so many, however many producers there are.
//!
//! The node `<queue>-capacity` holds the capacity as decimal text, and its version counts the items
//! that were ever put in. A producer reads that version *before* it counts the items, and puts its
//! item in with a transaction that demands the very same version. If any other producer was faster
//! the transaction is refused and everything is looked at again; consumers only make the count
//! smaller. So the count that was seen is an upper bound of the count at the moment of the
//! transaction, and the capacity is never exceeded by producers that use this gate. Curator's
//! producers do not: theirs is a wait without a guarantee.
//!
//! Every child of the queue counts, foreign ones too.

use herdsman_client::{Client, Op, Outcome};

use crate::error::{Error, Result};
use crate::patient::patient;

/// The gate of one queue.
#[derive(Debug)]
pub(super) struct Gate {
    /// Patient, as all of an offer.
    client: Client,
    queue: String,
    node: String,
    capacity: usize,
}

impl Gate {
    pub(super) fn new(client: &Client, queue: &str, capacity: usize) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::invalid("a queue's capacity must be at least 1"));
        }
        let node = format!("{queue}-capacity");
        Ok(Gate { client: patient(client), queue: queue.to_owned(), node, capacity })
    }

    /// What must hold, and be done, for one more item to fit.
    pub(super) async fn admit(&self) -> Result<Op> {
        loop {
            // Sent in this order, and answered by the same server in this order.
            let gate = self.client.get(&self.node).send();
            let queue = self.client.exists(&self.queue).send();
            let gate = match gate.await {
                Err(error) if error.is_no_node() => {
                    self.make().await?;
                    continue;
                }
                gate => gate?,
            };
            self.check_agreement(&gate.data)?;
            let items = queue.await?.map_or(0, |stat| stat.num_children);
            if usize::try_from(items).is_ok_and(|items| items >= self.capacity) {
                return Err(Error::Full { limit: self.capacity });
            }
            return Ok(Op::set(&self.node, gate.data).version(gate.stat.version));
        }
    }

    async fn make(&self) -> Result<()> {
        match self.client.create(&self.node, self.capacity.to_string()).parents().await {
            Err(error) if error.is_node_exists() => Ok(()),
            // The next look tells whether it was made.
            Err(error) if error.outcome() == Outcome::Unknown && error.is_retriable() => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }

    /// Producers that disagree would fill the queue up to the largest of their capacities.
    fn check_agreement(&self, stored: &[u8]) -> Result<()> {
        if stored == self.capacity.to_string().as_bytes() {
            return Ok(());
        }
        let stored = String::from_utf8_lossy(stored);
        let ours = self.capacity;
        Err(Error::InvalidArgument(format!(
            "{} says that the capacity is {stored}, not {ours}",
            self.node
        )))
    }
}
