//! Writes that may be repeated until it is known what came of them.
//!
//! In: a write that does no harm when it happens twice, such as "this node shall not be there".
//! Out: its result, never an unknown one as long as a server can be reached. Deliberately not here:
//! writes that must happen once; see [`crate::marked`].

use herdsman_client::{ErrorKind, Outcome, Result};

/// Makes the write again as long as nobody knows what came of it. Ends when the client can no longer
/// reach a server, when its session or itself has ended, or when a call's deadline has passed.
pub(crate) async fn until_known<T, F>(mut write: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    loop {
        match write().await {
            Err(error) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                tracing::debug!(%error, "the reply was lost; making the write again");
            }
            known => return known,
        }
    }
}

/// The result without the error that says that things are already as they should be.
pub(crate) fn unless<T: Default>(result: Result<T>, fine: &ErrorKind) -> Result<T> {
    match result {
        Err(error) if error.kind() == fine => Ok(T::default()),
        other => other,
    }
}
