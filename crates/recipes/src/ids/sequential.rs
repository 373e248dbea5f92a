//! Ids that are the numbers of sequential nodes.
//!
//! ```text
//! <path>                            persistent; counts its children
//! <path>/_c_<uuid>-id-<sequence>    ephemeral; deleted as soon as its number is known
//! ```
//! The server assigns each number once, so ids are unique and in the order in which they were assigned, over all
//! processes. A number whose reply was lost is found again by the node's unique name, or is lost for ever; it is
//! never issued twice.
//!
//! The count belongs to the directory: deleting it starts the count again at 0, which is why it is persistent and not
//! a container. It ends after 2³¹ numbers with [`Error::Full`]; use another directory then, or segments from the
//! beginning.

use bytes::Bytes;
use herdsman_client::{Client, Created};

use super::IdGenerator;
use crate::error::{Error, Result};
use crate::path::child;
use crate::sequence::split_name;

/// The number of sequence numbers of a directory.
const NUMBERS: usize = 1 << 31;
const MARKER: &str = "id-";

/// Ids from the numbers of sequential nodes: 0, 1, 2, … over all processes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::ids::{IdGenerator, SequentialIds};
///
/// let tickets = SequentialIds::new(&zk, "/ids/tickets");
/// let (first, second) = (tickets.next().await?, tickets.next().await?);
/// assert!(first < second);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SequentialIds {
    client: Client,
    path: String,
}

impl SequentialIds {
    /// Creates a generator of ids from the directory `path`, without any request.
    #[must_use]
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        SequentialIds { client: client.clone(), path: path.into() }
    }
}

impl IdGenerator for SequentialIds {
    type Id = u64;

    async fn next(&self) -> Result<u64> {
        // Bound to a session, so that a node of an earlier session is not taken for ours.
        let session = self.client.connected_session().await?;
        let client = self.client.bound_to(&session);
        let path = child(&self.path, MARKER);
        let create = client.create(&path, Bytes::new()).ephemeral().sequential();
        let created = create.parents().protected().await?;
        client.delete(&created.path).in_background();
        number(&created)
    }
}

fn number(created: &Created) -> Result<u64> {
    let name = split_name(created.name(), MARKER).ok_or_else(|| Error::Codec {
        path: created.path.clone(),
        reason: "the name does not end with a sequence number".to_owned(),
    })?;
    u64::try_from(name.sequence).map_err(|_| Error::Full { limit: NUMBERS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_client::Stat;

    fn numbered(sequence: &str) -> Result<u64> {
        let path = format!("/ids/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-id-{sequence}");
        number(&Created { path, stat: Stat::default() })
    }

    #[test]
    fn the_numbers_end_with_31_bits() {
        assert_eq!(numbered("0000000000"), Ok(0));
        assert_eq!(numbered("2147483647"), Ok(2_147_483_647));
        assert_eq!(numbered("-2147483648"), Err(Error::Full { limit: 1 << 31 }));
        assert_eq!(numbered("-000000001"), Err(Error::Full { limit: 1 << 31 }));
        assert!(matches!(numbered("x"), Err(Error::Codec { .. })));
    }
}
