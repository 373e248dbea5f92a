//! Asking a holder to let go.
//!
//! The request is the data of the holder's node: ten bytes that replace whatever was there. Curator:
//! `Revoker`, `RevocationSpec`.

use herdsman_client::{Client, ErrorKind};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::patient::patient;
use crate::until_known::until_known;

/// The data that asks.
pub(super) const REQUEST: &[u8] = b"__REVOKE__";

/// Asks; false if the node has gone.
pub(super) async fn request(client: &Client, path: &str) -> Result<bool> {
    // Asking twice is as good as asking once.
    match until_known(async || client.set(path, REQUEST).await).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_no_node() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until somebody has asked.
pub(super) async fn requested(hold: &Hold) -> Result<()> {
    let patient = patient(hold.client());
    loop {
        let (node, watch) = match patient.get(hold.path()).watch().await {
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
