//! Carries out commands, each once and in order, and acknowledges them.
//!
//! In: the commands that name this client. Out: acknowledgements. The position of the client is stored in a separate
//! node, which is advanced in the same transaction that acknowledges: so a command that was acknowledged is not
//! carried out again, not even after a restart, and a lost reply changes nothing. Between carrying out and
//! acknowledging, the program may die, or another client with the same id may take its place: it stops when it has
//! not heard from a server for a session timeout, or its node was deleted. [`Repetition`] sets what to do about the
//! command that was in progress.

use std::collections::BTreeSet;
use std::future::Future;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op, Optional, Session, Watch};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::commands::{Ack, Address, CommandId, Paths, Position, check_client};
use super::envelope::{decode_envelope, from_json, to_json};
use crate::contact::{live_session, session_lost};
use crate::error::{Error, Result};
use crate::persistent_node::{OnForeignNode, PersistentNode};
use crate::retrying::{must_restart, retrying};
use crate::until_known::{unless, until_known};

/// The maximum size of an answer; a larger one becomes a failure.
const BYTES_MAX: usize = 1_000_000;

/// What to do about a command that was begun and not acknowledged when the program died or another client took its
/// place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repetition {
    /// It is carried out again: at least once.
    #[default]
    Repeat,
    /// It is acknowledged as failed: at most once. Costs one more write for each command.
    GiveUp,
}

/// A command that a client carries out.
#[derive(Clone, Debug)]
pub struct Command {
    id: CommandId,
    payload: Bytes,
}

impl Command {
    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &CommandId {
        &self.id
    }

    /// Returns the payload that was sent.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the payload as JSON. With `?` in a handler whose error is a `String`, use `.map_err(|error|
    /// error.to_string())`: the command is then acknowledged as failed.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        from_json(&format!("command {}", self.id), &self.payload)
    }
}

/// A receiver of commands. See [`Dispatcher`](super::Dispatcher) for an example.
#[derive(Debug)]
#[must_use = "commands are only carried out by `run`"]
pub struct CommandClient {
    executor: Executor,
    presence: PersistentNode,
}

impl CommandClient {
    /// Joins as `id`, and waits until the node exists: commands sent to all clients from now on are for this client
    /// too. If the id is taken by another session, waits until it is free.
    pub async fn join(client: &Client, root: &str, id: &str) -> Result<Self> {
        let client = retrying(client);
        let paths = Paths::new(root)?;
        let id = check_client(&paths, id)?.to_owned();
        let options = PersistentNode::at(&client, &paths.client(&id), "");
        let presence = options.on_foreign_node(OnForeignNode::Wait).start()?;
        presence.wait_until_present().await?;
        let executor = Executor { client, paths, id, repetition: Repetition::default() };
        Ok(CommandClient { executor, presence })
    }

    /// Sets what to do about a command that was begun and not acknowledged when the program died or another client
    /// took its place.
    pub fn repetition(mut self, repetition: Repetition) -> Self {
        self.executor.repetition = repetition;
        self
    }

    /// Carries out commands, one after the other, until the client is closed. Dropping the future leaves. If the
    /// handler fails or panics, the command is acknowledged as failed.
    ///
    /// The handler is dropped when no server was heard from for a session timeout, the session has ended, or the node
    /// that shows this client's presence was deleted: another client with the same id may then do its work. When the
    /// node is this client's again, it continues; [`Repetition`] sets what to do about the command.
    pub async fn run<F, W, R>(self, handle: F) -> Result<()>
    where
        F: Fn(Command) -> W + Send + Sync + 'static,
        W: Future<Output = std::result::Result<R, String>> + Send + 'static,
        R: Into<Bytes>,
    {
        let CommandClient { executor, presence: _presence } = self;
        executor.make_nodes().await?;
        loop {
            let session = live_session(&executor.client).await?;
            match executor.run_in(&session, &handle).await {
                Err(error) if must_restart(&executor.client, &error) => {
                    tracing::info!(id = executor.id, %error, "commands wait until this client is present again");
                }
                ended => ended?,
            }
        }
    }

    /// Leaves, and waits until other clients can see that.
    pub async fn leave(self) -> Result<()> {
        self.presence.close().await
    }
}

/// Carries out commands as one of the clients.
#[derive(Clone, Debug)]
struct Executor {
    client: Client,
    paths: Paths,
    id: String,
    repetition: Repetition,
}

impl Executor {
    /// Carries out commands in this session as long as this client is present.
    async fn run_in<F, W, R>(&self, session: &Session, handle: &F) -> Result<()>
    where
        F: Fn(Command) -> W,
        W: Future<Output = std::result::Result<R, String>> + Send + 'static,
        R: Into<Bytes>,
    {
        let bound = Executor { client: self.client.bound_to(session), ..self.clone() };
        let work = async {
            let (is_present, changed) = bound.watch_presence(session).await?;
            if !is_present {
                // It was lost a moment ago, or another client has the node.
                return Ok(changed.await.map(drop)?);
            }
            tokio::select! {
                worked = bound.work(handle) => worked,
                lost = bound.presence_lost(session, changed) => lost,
            }
        };
        tokio::select! {
            worked = work => worked,
            () = session_lost(session) => Err(Error::Lost),
        }
    }

    /// Returns whether this client is present in this session, and a watch on that.
    async fn watch_presence(&self, session: &Session) -> Result<(bool, Watch)> {
        let (stat, watch) = self.client.exists(&self.paths.client(&self.id)).watch().await?;
        let is_ours = stat.is_some_and(|stat| stat.ephemeral_owner == session.id().0);
        Ok((is_ours, watch))
    }

    /// Resolves when this client is no longer present; fails when the session has ended.
    async fn presence_lost(&self, session: &Session, mut changed: Watch) -> Result<()> {
        loop {
            changed.await?;
            match self.watch_presence(session).await? {
                (true, next) => changed = next,
                (false, _) => return Err(Error::Lost),
            }
        }
    }

    async fn work<F, W, R>(&self, handle: &F) -> Result<()>
    where
        F: Fn(Command) -> W,
        W: Future<Output = std::result::Result<R, String>> + Send + 'static,
        R: Into<Bytes>,
    {
        let directory = self.paths.commands();
        let mut updates = self.client.watch(&directory).await?;
        let mut settled = BTreeSet::new();
        loop {
            let ids = self.commands().await?;
            settled.retain(|id| ids.contains(id));
            for id in ids {
                if !settled.contains(&id) {
                    self.process(&id, handle).await?;
                    settled.insert(id);
                }
            }
            if updates.next().await.is_none() {
                // The session has ended, or the client is closed: the next call returns the error.
                return Ok(self.client.exists(&directory).await.map(drop)?);
            }
        }
    }

    async fn make_nodes(&self) -> Result<()> {
        for (path, data) in [
            (self.paths.commands(), Bytes::new()),
            (self.paths.position(&self.id), to_json(&Position::default())),
        ] {
            let made = until_known(async || {
                self.client.create(&path, data.clone()).parents().await.map(drop)
            });
            unless(made.await, &ErrorKind::NodeExists)?;
        }
        Ok(())
    }

    async fn commands(&self) -> Result<BTreeSet<CommandId>> {
        match self.client.children(&self.paths.commands()).await {
            Err(error) if error.is_no_node() => Ok(BTreeSet::new()),
            children => {
                let names = children?.names;
                Ok(names.iter().filter_map(|name| CommandId::from_name(name)).collect())
            }
        }
    }

    /// Carries a command out if it is for this client and was not carried out before.
    async fn process<F, W, R>(&self, id: &CommandId, handle: &F) -> Result<()>
    where
        F: Fn(Command) -> W,
        W: Future<Output = std::result::Result<R, String>> + Send + 'static,
        R: Into<Bytes>,
    {
        let path = self.paths.command(id);
        let Some(node) = self.client.get(&path).await.optional()? else {
            return Ok(());
        };
        let (address, payload) = match decode_envelope::<Address>(&path, &node.data) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "not a command; ignored");
                return Ok(());
            }
        };
        let (position, version) = self.position().await?;
        let czxid = node.stat.czxid.0;
        if czxid <= position.done || !address.to.contains(&self.id) {
            return Ok(());
        }
        let mut current = CurrentCommand { czxid, position, version };
        let outcome = match self.begin(&mut current).await? {
            Beginning::Interrupted => Err("interrupted: begun, and perhaps done".to_owned()),
            Beginning::First => run_handler(handle(Command { id: id.clone(), payload })).await,
        };
        self.acknowledge(id, &current, &outcome).await
    }

    async fn position(&self) -> Result<(Position, i32)> {
        let path = self.paths.position(&self.id);
        let node = self.client.get(&path).await?;
        Ok((from_json(&path, &node.data)?, node.stat.version))
    }

    /// Records that the command was begun, if `repetition` requires that.
    async fn begin(&self, current: &mut CurrentCommand) -> Result<Beginning> {
        if self.repetition == Repetition::Repeat {
            return Ok(Beginning::First);
        }
        if current.position.started == current.czxid {
            return Ok(Beginning::Interrupted);
        }
        let begun = Position { started: current.czxid, ..current.position };
        let path = self.paths.position(&self.id);
        let set = until_known(async || {
            self.client.set(&path, to_json(&begun)).version(current.version).await.map(drop)
        });
        match set.await {
            Ok(()) => {}
            // This client's own write, whose reply was lost: no other client writes here while this one is present.
            Err(error) if *error.kind() == ErrorKind::BadVersion => {
                let (found, _) = self.position().await?;
                if found != begun {
                    return Err(Error::Lost);
                }
            }
            Err(error) => return Err(error.into()),
        }
        *current = CurrentCommand { position: begun, version: current.version + 1, ..*current };
        Ok(Beginning::First)
    }

    /// Acknowledges the command and advances the position, in one transaction.
    async fn acknowledge(
        &self,
        id: &CommandId,
        current: &CurrentCommand,
        outcome: &std::result::Result<Bytes, String>,
    ) -> Result<()> {
        let next = Position { done: current.czxid, ..current.position };
        let position =
            Op::set(&self.paths.position(&self.id), to_json(&next)).version(current.version);
        let ack = Op::create(&self.paths.ack(id, &self.id), Ack::encode(outcome));
        let ops = [position.clone(), ack];
        let done = until_known(async || self.client.transaction(ops.clone()).await);
        match done.await {
            // The position had been advanced by the attempt whose reply was lost.
            Err(error) if *error.kind() == ErrorKind::BadVersion => self.check_done(current).await,
            // There was an acknowledgement although the position is before it: the position was reset by hand.
            Err(error) if error.is_node_exists() => self.advance(position).await,
            // The command was cleaned up meanwhile.
            Err(error) if error.is_no_node() => self.advance(position).await,
            done => Ok(done.map(drop)?),
        }
    }

    async fn advance(&self, position: Op) -> Result<()> {
        let moved = until_known(async || self.client.transaction([position.clone()]).await);
        Ok(unless(moved.await.map(drop), &ErrorKind::BadVersion)?)
    }

    async fn check_done(&self, current: &CurrentCommand) -> Result<()> {
        let (position, _) = self.position().await?;
        // Otherwise another client with the same id has taken this one's place.
        if position.done >= current.czxid { Ok(()) } else { Err(Error::Lost) }
    }
}

/// The state of the client when it is about to carry out a command.
#[derive(Clone, Copy, Debug)]
struct CurrentCommand {
    czxid: i64,
    position: Position,
    version: i32,
}

enum Beginning {
    First,
    Interrupted,
}

/// Runs the handler in a separate task, because a handler that panics must not end the client.
async fn run_handler<R: Into<Bytes>>(
    handling: impl Future<Output = std::result::Result<R, String>> + Send + 'static,
) -> std::result::Result<Bytes, String> {
    let mut handler = JoinSet::new();
    handler.spawn(async move { handling.await.map(Into::into) });
    match handler.join_next().await {
        Some(Ok(Ok(answer))) if answer.len() > BYTES_MAX => {
            Err(format!("done, but the answer of {} bytes is too large", answer.len()))
        }
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(format!("the handler died: {error}")),
        None => Err("the handler did not run".to_owned()),
    }
}
