//! A hold on something through an ephemeral node: a lock, a leadership, a lease.
//!
//! In: a node that was created in a session and is known to be ours. Out: whether the hold can still be trusted, a
//! fencing token, a client whose writes fail once the node has been deleted, and the release. Deliberately not here:
//! how a client acquires the hold.
//!
//! There is always a delay between the loss of a session and the moment the client learns of it. During it a [`Hold`]
//! is wrong about itself; only what carries its token, or goes through [`Hold::fenced`], is safe then.
//!
//! Invariant: whatever happens to a hold and to the connection, its node is deleted, or ends with the session. No
//! other node is ever deleted.

use herdsman_client::{Client, Created, Fenced, Op, Session, Zxid};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::contact::silent;
use crate::error::{Error, Result};
use crate::guard::run_until;
use crate::hold_options::LostWhen;
use crate::owned_node::{Incarnation, OwnedNode};
use crate::retrying::retrying;

/// An ephemeral node that is ours. Dropping it deletes the node in the background.
#[derive(Debug)]
#[must_use = "dropping this releases it"]
pub struct Hold {
    session: Session,
    node: OwnedNode,
    lost_when: LostWhen,
    /// The moment from which on other clients may take it over, if there is one.
    expires_at: Option<Mutex<Instant>>,
    released: bool,
}

impl Hold {
    /// Creates a hold. `client` is bound to `session`, in which the node was created under a unique name.
    pub(crate) fn new(
        client: Client,
        session: Session,
        created: Created,
        lost_when: LostWhen,
    ) -> Self {
        Hold::of_node(OwnedNode::new(client, created), session, lost_when)
    }

    /// Does the same for a node whose name may be reused when the directory is deleted and created again.
    pub(crate) fn at_reused_path(
        client: Client,
        session: Session,
        created: &Created,
        lost_when: LostWhen,
    ) -> Self {
        let node = OwnedNode::at_reused_path(client, &created.path, created.stat.czxid);
        Hold::of_node(node, session, lost_when)
    }

    /// Does the same for a node whose path other clients use, too: `incarnation` distinguishes it from theirs.
    pub(crate) fn of_incarnation(
        client: Client,
        session: Session,
        created: Created,
        incarnation: Incarnation,
        lost_when: LostWhen,
    ) -> Self {
        let node = OwnedNode::new(client, created).with_incarnation(incarnation);
        Hold::of_node(node, session, lost_when)
    }

    fn of_node(node: OwnedNode, session: Session, lost_when: LostWhen) -> Self {
        Hold { session, node, lost_when, expires_at: None, released: false }
    }

    /// Distinguishes the node from those of others at the same path from now on.
    pub(crate) fn with_incarnation(mut self, incarnation: Incarnation) -> Self {
        self.node = self.node.clone().with_incarnation(incarnation);
        self
    }

    /// See [`OwnedNode::check`].
    pub(crate) fn check(&self) -> Op {
        self.node.check()
    }

    /// See [`OwnedNode::is_there`].
    pub(crate) async fn is_there(&self) -> Result<bool> {
        self.node.is_there().await
    }

    /// Makes it untrusted from this moment on, unless it is [extended](Hold::extend).
    pub(crate) fn expiring(mut self, at: Instant) -> Self {
        self.expires_at = Some(Mutex::new(at));
        self
    }

    /// Moves the moment at which it expires to `until`, if that is later.
    pub(crate) fn extend(&self, until: Instant) {
        if let Some(at) = &self.expires_at {
            let mut at = at.lock();
            *at = (*at).max(until);
        }
    }

    /// Returns the moment from which on other clients may take it over.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.expires_at.as_ref().map(|at| *at.lock())
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.node.path
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or(self.path())
    }

    /// Returns a number that only grows from holder to holder: the position of the node's creation in the order of
    /// all changes. A store that rejects tokens below the highest it has seen is safe from holders that do not know
    /// yet that they have lost the hold.
    #[must_use]
    pub fn token(&self) -> u64 {
        u64::try_from(self.node.czxid.0).unwrap_or_default()
    }

    /// Returns what distinguishes the node from all others that had or will have its path.
    pub(crate) fn czxid(&self) -> Zxid {
        self.node.czxid
    }

    /// Returns the session that it depends on.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the client, bound to that session.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.node.client
    }

    /// Returns a client whose writes fail with [`ErrorKind::Deposed`] once the node has been deleted, even if its
    /// path exists again, and with [`ErrorKind::SessionExpired`] once the client knows that the session has expired:
    /// in either case nothing was written. With [`Layout::Apache`](crate::Layout::Apache), a node of the same name
    /// counts as this one if the same session creates it after the directory was deleted and created again.
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        self.node.fenced()
    }

    /// Returns whether, as far as this process can know, it is still held. Does not ask the server.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.lost_when.trusts(&self.session)
            && self.expires_at().is_none_or(|at| Instant::now() < at)
    }

    /// Resolves when it can no longer be trusted: the connection or session is lost, depending on [`LostWhen`], its
    /// lease has expired (of a [`LeaseLock`](crate::LeaseLock)), or the node was deleted. Cancel-safe; costs a watch
    /// while awaited.
    pub async fn lost(&self) {
        tokio::select! {
            () = self.session_lost() => {}
            () = self.expired() => {}
            () = self.node_deleted() => {}
        }
    }

    /// Runs `work` while it is held: [`Error::Lost`] if it was lost before the work was done; the work is then
    /// dropped at its current await point.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        run_until(self.lost(), work).await
    }

    /// Releases it, and waits until the server has confirmed that, through an outage if necessary. If the future or
    /// the hold itself is dropped, this continues in the background.
    ///
    /// [`Error::Lost`] means that it was not held any more, because the session has ended or the node was deleted; it
    /// is certainly released now.
    pub async fn release(mut self) -> Result<()> {
        let removed = self.node.clone().remove().await;
        // Otherwise there is another attempt in the background.
        self.released = matches!(removed, Ok(()) | Err(Error::Lost));
        removed
    }

    /// Leaves the node to other code: dropping this does not delete it from now on.
    pub(crate) fn disarm(&mut self) {
        self.released = true;
    }

    async fn session_lost(&self) {
        let is_lost = |state| self.lost_when.is_loss(state);
        tokio::select! {
            () = silent(&self.session) => {}
            _ = self.session.wait_for(is_lost) => {}
        }
    }

    async fn expired(&self) {
        loop {
            let Some(at) = self.expires_at() else {
                return std::future::pending().await;
            };
            sleep_until(at).await;
            if self.expires_at() == Some(at) {
                return;
            }
        }
    }

    async fn node_deleted(&self) {
        let retrying = retrying(self.client());
        loop {
            match retrying.get(self.path()).watch().await {
                Ok((node, watch)) if node.stat.czxid == self.node.czxid => {
                    // Whatever happened, the next read shows whether the node still exists.
                    let _ = watch.await;
                }
                Ok(_) => return,
                Err(error) if error.is_no_node() => return,
                // The end of the session is noticed by `session_lost`.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.released {
            self.node.clone().remove_in_background();
        }
    }
}
