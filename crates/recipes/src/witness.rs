//! Transactions that are applied once or not at all, whatever replies are lost.
//!
//! In: writes. Out: whether they were applied, known for certain as long as the session lives. Deliberately not here:
//! writes that are harmless when applied twice; see [`crate::until_known`].
//!
//! The first operation of each transaction creates a *witness*, an ephemeral node with a unique name, or writes to it
//! at the version that it had before. If the reply is lost, the very same transaction is sent again. If the first one
//! was applied, the witness has changed and the second one is rejected; otherwise the second one is applied in its
//! place. So it does not matter when the first one is carried out, and since both go through the leader, it does not
//! matter either whether the server that answers is behind. This costs no round trip, only a small write beside the
//! intended ones and its deletion.
//!
//! One doubt remains: the session ends while the reply is missing. Its witnesses end with it, and the error is
//! [`Outcome::Unknown`].

use herdsman_client::{Client, ErrorKind, Lifetime, Op, OpResult, Outcome, Result, Session};
use uuid::Uuid;

use crate::path::child;
use crate::retrying::{reply_lost, retrying, unknown};

/// The operation of each transaction that creates or changes the witness.
const WITNESS: usize = 0;

/// A node that shows whether a transaction was applied. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(crate) struct Witness {
    /// Bound to the session.
    client: Client,
    session: Session,
    directory: String,
    /// The directory is created if it is missing.
    makes_directory: bool,
    path: String,
    /// `None`: the node does not exist yet.
    version: Option<i32>,
    /// The version is certain.
    is_settled: bool,
}

/// A transaction that was applied.
#[derive(Debug)]
pub(crate) enum Committed {
    /// Now: the results, the first of which is that of the witness.
    Now(Vec<OpResult>),
    /// By an attempt whose reply was lost, or did not contain the results.
    Before,
}

impl Witness {
    /// Creates a witness below `directory`, a container that is created if it is missing. `client` is bound to
    /// `session`.
    pub(crate) fn new(client: &Client, session: &Session, directory: &str) -> Self {
        let name = Uuid::new_v4().to_string();
        Witness::named(client, session, directory, &name, true)
    }

    /// Creates a witness below a node that the transactions write to. If that does not exist, they are rejected.
    pub(crate) fn below_node(client: &Client, session: &Session, node: &str) -> Self {
        let name = format!("_op_{}", Uuid::new_v4());
        Witness::named(client, session, node, &name, false)
    }

    fn named(
        client: &Client,
        session: &Session,
        directory: &str,
        name: &str,
        makes_directory: bool,
    ) -> Self {
        Witness {
            client: client.clone(),
            session: session.clone(),
            directory: directory.to_owned(),
            makes_directory,
            path: child(directory, name),
            version: None,
            is_settled: true,
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether it can be the witness of another transaction in this session without being created.
    pub(crate) fn is_reusable_in(&self, session: &Session) -> bool {
        self.is_settled && self.version.is_some() && self.session.id() == session.id()
    }

    /// Leaves the node to other code: dropping this does not delete it any more.
    pub(crate) fn disarm(&mut self) {
        (self.version, self.is_settled) = (None, true);
    }

    /// Applies all of these writes once, or none. An error that names another failed operation than that of
    /// the witness means that none was applied, in this attempt or before.
    pub(crate) async fn commit(&mut self, ops: &[Op]) -> Result<Committed> {
        self.is_settled = false;
        let mut is_in_doubt = false;
        loop {
            let all = std::iter::once(self.op()).chain(ops.iter().cloned());
            let error = match self.client.transaction(all).await {
                Ok(results) => return Ok(self.settle(Committed::Now(results))),
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(WITNESS), ErrorKind::NodeExists | ErrorKind::BadVersion) if is_in_doubt => {
                    return Ok(self.settle(Committed::Before));
                }
                (Some(WITNESS), ErrorKind::NoNode) if self.can_be_made(is_in_doubt) => {
                    match self.make().await {
                        Err(error) if is_in_doubt => return Err(unknown(&error)),
                        made => made?,
                    }
                }
                // The witness was as expected, so nothing of this transaction was applied before.
                (Some(op), _) if op != WITNESS => {
                    self.is_settled = true;
                    return Err(error);
                }
                (Some(_), _) if !is_in_doubt => {
                    self.is_settled = self.version.is_none();
                    return Err(error);
                }
                (None, _) if reply_lost(&error) => {
                    tracing::debug!(%error, "the reply was lost; sending the transaction again");
                    is_in_doubt = true;
                }
                // Servers before 3.7 do not return the stat of the witness, and it could not be read.
                (None, _) if error.outcome() == Outcome::Applied => {
                    return Ok(self.settle(Committed::Before));
                }
                _ if is_in_doubt => return Err(unknown(&error)),
                _ => return Err(error),
            }
        }
    }

    /// Returns the operation whose success or failure shows whether an earlier attempt was applied.
    fn op(&self) -> Op {
        match self.version {
            None => Op::create(&self.path, "").ephemeral(),
            Some(version) => Op::set(&self.path, "").version(version),
        }
    }

    fn settle(&mut self, committed: Committed) -> Committed {
        self.version = Some(self.version.map_or(0, |version| version + 1));
        self.is_settled = true;
        committed
    }

    /// Returns whether a missing node proves nothing: its directory is missing, or it was deleted by hand before it
    /// was needed.
    fn can_be_made(&self, is_in_doubt: bool) -> bool {
        self.makes_directory && (self.version.is_none() || !is_in_doubt)
    }

    async fn make(&mut self) -> Result<()> {
        if self.version.take().is_some() {
            self.path = child(&self.directory, &Uuid::new_v4().to_string());
        }
        // A reply lost here does not matter, and must not be reported as an unknown outcome of the transaction.
        retrying(&self.client).ensure(&self.directory, Lifetime::Container).await
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let may_exist = self.version.is_some() || !self.is_settled;
        if may_exist && !self.session.state().is_final() {
            self.client.delete(&self.path).in_background();
        }
    }
}
