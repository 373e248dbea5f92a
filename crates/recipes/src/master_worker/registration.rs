//! A worker's registration: an ephemeral node under a name of the worker's choice.
//!
//! In: a session. Out: the node, known to be of this very registration. If the name is taken by another registration,
//! this one waits for it to end: that may be an earlier session of this worker, which the servers have not ended yet,
//! and as long as it lives its tasks belong to it.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime, Optional, Session};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::LostWhen;
use crate::tagged_node::create;

/// Registers in this session, to which `client` is bound; waits while the name is taken. No other registration has
/// the same `data`. Dropping the future withdraws the registration, if it was made.
pub(super) async fn register(
    client: &Client,
    session: &Session,
    path: &str,
    data: Bytes,
) -> Result<Hold> {
    loop {
        let creation = create_hold(client.clone(), session.clone(), path.to_owned(), data.clone());
        // A hold that is not received is dropped, and its node deleted.
        match client.spawn(creation).await.map_err(|_| Error::Lost)? {
            Err(error) if error.is_node_exists() => {}
            registered => return Ok(registered?),
        }
        if let Some((_, watch)) = client.get(path).watch().await.optional()? {
            tracing::info!(path, "another session is registered under this name; waiting");
            watch.await?;
        }
    }
}

async fn create_hold(
    client: Client,
    session: Session,
    path: String,
    data: Bytes,
) -> herdsman_client::Result<Hold> {
    let created = create(&client, &path, &data, Lifetime::Ephemeral).await?;
    Ok(Hold::at_reused_path(client, session, &created, LostWhen::SessionTimedOut))
}
