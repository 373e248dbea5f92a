//! Creates a name's node, and recognizes it after a lost reply.

use bytes::Bytes;
use herdsman_client::{Client, Created, Error, ErrorKind, Lifetime, Outcome};

use crate::error::Result;

/// Creates the node with data that no other write has. [`ErrorKind::NodeExists`] if the name is taken; its outcome is
/// unknown if a reply was lost before, and another client's node exists by now.
pub(super) async fn create(
    client: &Client,
    path: &str,
    data: &Bytes,
    lifetime: Lifetime,
) -> Result<Created> {
    let mut is_in_doubt = false;
    loop {
        let create = client.create(path, data.clone()).lifetime(lifetime).container_parents();
        let error = match create.await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        match error.kind() {
            _ if error.outcome() == Outcome::Unknown && error.is_retriable() => is_in_doubt = true,
            ErrorKind::NodeExists if is_in_doubt => {
                // This may be a different server, which is behind.
                client.sync(path).await?;
                return match client.get(path).await {
                    Ok(node) if node.data == *data => {
                        Ok(Created { path: path.to_owned(), stat: node.stat })
                    }
                    Err(error) if !error.is_no_node() => Err(error.into()),
                    _ => Err(Error::unknown(ErrorKind::NodeExists).into()),
                };
            }
            _ if is_in_doubt => return Err(Error::unknown(error.kind().clone()).into()),
            _ => return Err(error.into()),
        }
    }
}
