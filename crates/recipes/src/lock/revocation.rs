//! Requests to a holder to release its lock.
//!
//! The request is the data of the holder's node: ten bytes that replace the previous data. Curator: `Revoker`,
//! `RevocationSpec`.

use herdsman_client::{Client, ErrorKind};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::retrying::retrying;
use crate::until_known::until_known;

/// The data that is the request.
pub(super) const REQUEST: &[u8] = b"__REVOKE__";

/// Sends the request; returns false if the node does not exist any more.
pub(super) async fn request(client: &Client, path: &str) -> Result<bool> {
    // Sending it twice has the same effect as once.
    match until_known(async || client.set(path, REQUEST).await).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_no_node() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the node holds a request.
pub(super) async fn requested(hold: &Hold) -> Result<()> {
    let retrying = retrying(hold.client());
    loop {
        let (node, watch) = match retrying.get(hold.path()).watch().await {
            Err(error) if is_lost(error.kind()) => return Err(Error::Lost),
            read => read?,
        };
        if node.data == REQUEST {
            return Ok(());
        }
        if watch.await.is_err_and(|error| is_lost(error.kind())) {
            return Err(Error::Lost);
        }
    }
}

fn is_lost(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::NoNode | ErrorKind::SessionExpired)
}
