//! A name that is bound for as long as a session lives.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime, Session};

use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::LostWhen;
use crate::retrying::retrying;
use crate::tagged_node::create;

/// A name that is bound until this is dropped or the session ends. Dropping it unbinds the name in the
/// background.
#[derive(Debug)]
#[must_use = "the name is unbound when this is dropped"]
pub struct SessionName {
    name: String,
    hold: Hold,
}

impl SessionName {
    /// Binds the name in the current session. Once it was sent, it runs to its end even if the caller no longer
    /// waits: then the name is unbound again.
    pub(super) async fn bind(
        client: &Client,
        name: &str,
        path: String,
        data: Bytes,
    ) -> Result<SessionName> {
        let session = client.connected_session().await?;
        let bound = client.bound_to(&session);
        let hold = async move { hold(bound, session, &path, &data).await };
        // A hold that is not received is dropped, and thereby released.
        let hold = client.spawn(hold).await.unwrap_or(Err(Error::Lost))?;
        Ok(SessionName { name: name.to_owned(), hold })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether, as far as this process can know, the name is still bound. Does not ask the server.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.hold.is_trusted()
    }

    /// Resolves when another client may have the name: no server was heard from for a session timeout, the session
    /// has ended, or the name was unbound. Cancel-safe; costs a watch while awaited.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Returns a number that only grows from holder to holder of the name.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.hold.token()
    }

    /// Unbinds the name, and waits until the server has confirmed that, through an outage if necessary.
    /// [`Error::Lost`] if it was not bound any more.
    pub async fn unbind(self) -> Result<()> {
        self.hold.release().await
    }
}

async fn hold(client: Client, session: Session, path: &str, data: &Bytes) -> Result<Hold> {
    let created = create(&retrying(&client), path, data, Lifetime::Ephemeral).await?;
    Ok(Hold::at_reused_path(client, session, &created, LostWhen::SessionTimedOut))
}
