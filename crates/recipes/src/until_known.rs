//! Writes that may be repeated until their outcome is known.
//!
//! In: a write that is harmless when applied twice, such as the deletion of a node. Out: its result, whose outcome is
//! never unknown as long as a server can be reached. Deliberately not here: writes that must be applied once; see
//! [`crate::witness`].

use crate::retrying::reply_lost;
use herdsman_client::{ErrorKind, Result};

/// Repeats the write while its outcome is unknown. Returns when the client can no longer reach a server, when its
/// session has ended or the client is closed, or when a call's deadline has passed.
pub(crate) async fn until_known<T, F>(mut write: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    loop {
        match write().await {
            Err(error) if reply_lost(&error) => {
                tracing::debug!(%error, "the reply was lost; sending the write again");
            }
            known => return known,
        }
    }
}

/// Returns the result, where an error of this kind counts as success: it means that the desired state exists already.
pub(crate) fn unless<T: Default>(result: Result<T>, fine: &ErrorKind) -> Result<T> {
    match result {
        Err(error) if error.kind() == fine => Ok(T::default()),
        other => other,
    }
}
