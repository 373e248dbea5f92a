//! Sends commands to many clients and collects their acknowledgements.
//!
//! In: a payload, and its recipients. Out: the acknowledgements as they arrive, which ones are missing, and which
//! clients have left without one. The number of commands that are kept is bounded; the oldest are deleted with their
//! acknowledgements, whether they were answered or not. Needs ZooKeeper 3.6.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, PersistentWatch};
use serde::Serialize;

use super::commands::{Ack, Address, CommandId, Paths, check_client};
use super::envelope::{encode_envelope, user_json};
use crate::error::{Error, Result};
use crate::retrying::retrying;

/// Commands that are kept by default.
const HISTORY_MAX: usize = 64;
/// The maximum number of recipients of a command.
const RECIPIENTS_MAX: usize = 10_000;
/// The maximum size of a command, including its recipients: less than a znode's limit.
const BYTES_MAX: usize = 1_000_000;
/// A console that sends commands.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::messaging::{Answer, CommandClient, Dispatcher};
///
/// let client = CommandClient::join(&zk, "/fleet", "node-1").await?;
/// tokio::spawn(client.run(|command| async move {
///     Ok::<_, String>(format!("did {}", String::from_utf8_lossy(command.payload())))
/// }));
///
/// let console = Dispatcher::new(&zk, "/fleet")?;
/// let mut dispatched = console.dispatch("reload").await?;
/// assert_eq!(dispatched.missing(), ["node-1"]);
/// let Some(Ok(Answer::Acked(ack))) = dispatched.next().await else { panic!() };
/// assert_eq!((ack.client.as_str(), ack.outcome), ("node-1", Ok("did reload".into())));
/// assert!(dispatched.next().await.is_none());
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Dispatcher {
    client: Client,
    paths: Paths,
    history_max: usize,
}

impl Dispatcher {
    /// Creates a dispatcher for the clients at `root`.
    pub fn new(client: &Client, root: &str) -> Result<Self> {
        let client = retrying(client);
        Ok(Dispatcher { paths: Paths::new(root)?, client, history_max: HISTORY_MAX })
    }

    /// Sets how many commands are kept; default 64, at least one. A client that is absent while more are sent misses
    /// the oldest.
    #[must_use]
    pub fn history_max(mut self, commands: usize) -> Self {
        self.history_max = commands.max(1);
        self
    }

    /// Returns the clients that are present at this moment.
    pub async fn clients(&self) -> Result<Vec<String>> {
        Ok(present(&self.client, &self.paths).await?.into_iter().collect())
    }

    /// Sends a command to all clients that are present at this moment. It is sent once, even if a reply is lost; if
    /// this future is dropped before it is done, the command is withdrawn if possible.
    pub async fn dispatch(&self, payload: impl Into<Bytes>) -> Result<Dispatched> {
        let to = present(&self.client, &self.paths).await?;
        self.send(to, payload.into()).await
    }

    /// Like [`Dispatcher::dispatch`], with a value as JSON.
    pub async fn dispatch_json(&self, payload: &impl Serialize) -> Result<Dispatched> {
        self.dispatch(user_json(payload)?).await
    }

    /// Sends a command to these clients. Those that are absent get it when they join again, if it has not been
    /// cleaned up until then.
    pub async fn dispatch_to<'n>(
        &self,
        clients: impl IntoIterator<Item = &'n str>,
        payload: impl Into<Bytes>,
    ) -> Result<Dispatched> {
        let named = clients.into_iter().map(|name| check_client(&self.paths, name));
        let to = named.map(|name| Ok(name?.to_owned())).collect::<Result<_>>()?;
        self.send(to, payload.into()).await
    }

    async fn send(&self, to: BTreeSet<String>, payload: Bytes) -> Result<Dispatched> {
        if to.len() > RECIPIENTS_MAX {
            let text =
                format!("{} recipients are too many, the limit is {RECIPIENTS_MAX}", to.len());
            return Err(Error::invalid(text));
        }
        let address = Address { to: to.iter().cloned().collect() };
        let data = encode_envelope(&address, &payload);
        if data.len() > BYTES_MAX {
            return Err(Error::invalid(format!("a command of {} bytes is too large", data.len())));
        }
        let create = self.client.create(&self.paths.new_command(), data);
        let created = create.sequential().parents().protected().await?;
        let id = CommandId::from_name(created.name()).ok_or_else(|| Error::Codec {
            path: created.path.clone(),
            reason: "the server gave the command an unexpected name".to_owned(),
        })?;
        self.clean_up(&id).await?;
        Dispatched::start(self, id, to).await
    }

    /// Deletes the oldest commands, but never the one just sent.
    async fn clean_up(&self, newest: &CommandId) -> Result<()> {
        let names = self.client.children(&self.paths.commands()).await?.names;
        let mut ids: Vec<_> = names.iter().filter_map(|name| CommandId::from_name(name)).collect();
        ids.sort();
        let surplus = ids.len().saturating_sub(self.history_max);
        for old in ids.iter().take(surplus).filter(|old| *old != newest) {
            self.client.delete(&self.paths.command(old)).recursive().await?;
        }
        Ok(())
    }
}

async fn present(client: &Client, paths: &Paths) -> Result<BTreeSet<String>> {
    match client.children(&paths.clients()).await {
        Err(error) if error.is_no_node() => Ok(BTreeSet::new()),
        children => Ok(children?.names.into_iter().collect()),
    }
}

/// What a recipient did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It has acknowledged the command.
    Acked(Ack),
    /// It has left without an acknowledgement. It may still acknowledge the command after it has joined again.
    Left {
        /// The id of the client.
        client: String,
    },
}

/// A command that was sent: a source of its acknowledgements.
#[derive(Debug)]
pub struct Dispatched {
    client: Client,
    paths: Paths,
    id: CommandId,
    missing: BTreeSet<String>,
    /// Missing recipients that were reported as having left.
    left: BTreeSet<String>,
    ready: VecDeque<Result<Answer>>,
    acks_changed: PersistentWatch,
    clients_changed: PersistentWatch,
    must_read: bool,
}

impl Dispatched {
    async fn start(dispatcher: &Dispatcher, id: CommandId, to: BTreeSet<String>) -> Result<Self> {
        let Dispatcher { client, paths, .. } = dispatcher.clone();
        Ok(Dispatched {
            acks_changed: client.watch(&paths.command(&id)).await?,
            clients_changed: client.watch(&paths.clients()).await?,
            client,
            paths,
            id,
            missing: to,
            left: BTreeSet::new(),
            ready: VecDeque::new(),
            must_read: true,
        })
    }

    /// Returns the id of the command.
    #[must_use]
    pub fn id(&self) -> &CommandId {
        &self.id
    }

    /// Returns the recipients whose acknowledgement has neither been returned by [`Dispatched::next`] nor is ready
    /// for it.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        self.missing.iter().map(String::as_str).collect()
    }

    /// Returns the next answer; `None` when all recipients have acknowledged. An acknowledgement that cannot be
    /// decoded is an [`Error::Codec`], and counts. If the command was cleaned up meanwhile, returns
    /// [`ErrorKind::NoNode`], and nothing follows. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Answer>> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Some(answer);
            }
            if self.missing.is_empty() {
                return None;
            }
            if self.must_read {
                if let Err(error) = self.read_state().await {
                    self.missing.clear();
                    return Some(Err(error));
                }
                continue;
            }
            let update = tokio::select! {
                update = self.acks_changed.next() => update,
                update = self.clients_changed.next() => update,
            };
            self.must_read = true;
            if update.is_none() {
                self.missing.clear();
                return Some(Err(herdsman_client::Error::not_applied(ErrorKind::Closed).into()));
            }
        }
    }

    /// Waits for all acknowledgements, and returns them in the order in which they were seen. Use a timeout: it also
    /// waits for clients that left.
    pub async fn all(&mut self) -> Result<Vec<Ack>> {
        let mut acks = Vec::new();
        while let Some(answer) = self.next().await {
            if let Answer::Acked(ack) = answer? {
                acks.push(ack);
            }
        }
        Ok(acks)
    }

    /// Reads the state. Changes nothing before everything is read, so that it may be dropped at any point.
    async fn read_state(&mut self) -> Result<()> {
        // In this order: a client that acknowledges and leaves in between is seen to have acknowledged.
        let present = present(&self.client, &self.paths).await?;
        let acked = self.client.children(&self.paths.command(&self.id)).await?.names;
        let mut acks = Vec::new();
        for client in acked.into_iter().filter(|name| self.missing.contains(name)) {
            let path = self.paths.ack(&self.id, &client);
            let node = self.client.get(&path).await?;
            acks.push((Ack::decode(&client, &path, &node.data), client));
        }
        for (ack, client) in acks {
            self.missing.remove(&client);
            self.left.remove(&client);
            self.ready.push_back(ack.map(Answer::Acked));
        }
        self.left.retain(|client| !present.contains(client));
        for client in self.missing.difference(&present) {
            if self.left.insert(client.clone()) {
                self.ready.push_back(Ok(Answer::Left { client: client.clone() }));
            }
        }
        self.must_read = false;
        Ok(())
    }
}
