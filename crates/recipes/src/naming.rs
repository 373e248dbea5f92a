//! Names with a hierarchy: unique, bound to a payload, with aliases.
//!
//! In: names such as `a/b/c`, payloads and aliases. Out: what a name is bound to. A name is bound by one client at a
//! time, permanently ([`NameRegistry::bind`]) or for as long as a session lives ([`NameRegistry::bind_for_session`]).
//! Any name may be bound, also one with others below it, in any order.
//!
//! # Nodes
//! ```text
//! <base>/a/b/c            a container; a name, bound or not
//! <base>/a/b/c/@value     {"id":"<uuid>"}\n<payload>, or {"alias":"x/y","id":"<uuid>"}\n; may be ephemeral
//! <base>/a/b/c/@ids       persistent; counts the ids that were issued below the name
//! ```
//! The value has its own node because containers are deleted when they are empty, and an ephemeral node cannot have
//! children. So parts of names cannot begin with `@`. Nodes of names without a value are removed by the server after
//! a while.
//!
//! # Lost replies
//! Each write has a unique id in its data, by which it is recognized after a lost reply. An unbinding whose reply was
//! lost is repeated only if the node is still the same (by its czxid), so a successor's is not deleted. If the reply
//! was lost, and another client has the name by now, the outcome is reported as unknown.
//!
//! # Cost
//! Binding is one request, and three or four more for each part of the name that is new; a lookup is one read, and
//! one more for each alias, or none with [`NameRegistry::cached`], which has one watch for all names. Deliberately
//! not here: aliases for parts of names. An alias stands for one name, not for those below it.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime};

use crate::conditional_set::{ConditionalSet, SameData, Written};
use crate::error::{Error, Result};
use crate::ids::{IdGenerator, SequentialIds};
use crate::owned_node::OwnedNode;
use crate::path::{self, child};
use crate::tagged_node;

mod cache;
mod record;
mod session_name;

pub use cache::CachedNames;
pub use record::Resolved;
use record::{Record, Walk};
pub use session_name::SessionName;

/// The first character of the names of nodes that are not names.
const RESERVED: char = '@';
const VALUE: &str = "@value";
const IDS: &str = "@ids";
/// How many aliases a lookup follows by default.
const ALIASES_MAX: usize = 16;

/// The names below a path.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::NameRegistry;
///
/// let names = NameRegistry::new(&zk, "/names")?;
/// names.bind("db/orders/1", "10.0.0.7:5432").await?;
/// names.alias("db/orders/primary", "db/orders/1").await?;
/// let found = names.lookup("db/orders/primary").await?.expect("it is bound");
/// assert_eq!((&*found.name, found.payload), ("db/orders/1", "10.0.0.7:5432".into()));
///
/// let host = names.bind_for_session("hosts/web-1", "10.0.0.9").await?; // until it is dropped
/// assert_eq!(names.list("hosts").await?, ["web-1"]);
/// host.unbind().await?;
/// assert_eq!(names.next_id("jobs").await?, 0);
/// assert_eq!(names.next_id("jobs").await?, 1);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NameRegistry {
    client: Client,
    names: Names,
}

/// The root of the names, and how far aliases are followed.
#[derive(Clone, Debug)]
struct Names {
    base: String,
    aliases_max: usize,
}

impl Names {
    /// Returns the node of a name.
    fn path(&self, name: &str) -> Result<String> {
        if name.split('/').any(|part| part.is_empty() || part.starts_with(RESERVED)) {
            let rule = "must be parts with '/' between them, none of which begins with '@'";
            return Err(Error::invalid(format!("a name {rule}: {name:?}")));
        }
        let path = child(&self.base, name);
        path::check(&path)?;
        Ok(path)
    }

    fn value_path(&self, name: &str) -> Result<String> {
        Ok(child(&self.path(name)?, VALUE))
    }
}

impl NameRegistry {
    /// Creates a registry of the names below `base`, without any request.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        path::check_below_root("a registry of names", base)?;
        let names = Names { base: base.to_owned(), aliases_max: ALIASES_MAX };
        Ok(NameRegistry { client: client.clone(), names })
    }

    /// Sets how many aliases in a row a lookup follows; default 16.
    #[must_use]
    pub fn aliases_max(mut self, aliases: usize) -> Self {
        self.names.aliases_max = aliases;
        self
    }

    /// Binds a name to a payload, permanently.
    ///
    /// # Errors
    /// [`ErrorKind::NodeExists`] if the name is bound already, whether to a payload, to an alias or for a session.
    pub async fn bind(&self, name: &str, payload: impl Into<Bytes>) -> Result<()> {
        self.create(name, &Record::Payload(payload.into())).await
    }

    /// Binds a name to a payload until the guard is dropped or the session ends. It is not bound again in the next
    /// session, because another client may have the name by then. Fails like [`bind`](NameRegistry::bind), also if an
    /// earlier session of the same program has the name.
    pub async fn bind_for_session(
        &self,
        name: &str,
        payload: impl Into<Bytes>,
    ) -> Result<SessionName> {
        let path = self.names.value_path(name)?;
        let data = Record::Payload(payload.into()).encode();
        SessionName::bind(&self.client, name, path, data).await
    }

    /// Makes a name an alias of another one, permanently. The other one need not be bound yet.
    ///
    /// # Errors
    /// [`ErrorKind::NodeExists`] if the name is bound already; [`Error::Unresolvable`] if aliases lead from the other
    /// name to this one. Two aliases that are made at the same time may still form a loop, which a lookup reports.
    pub async fn alias(&self, name: &str, other: &str) -> Result<()> {
        self.names.value_path(other)?;
        let mut walk = Walk::new(name, self.names.aliases_max);
        let mut found = Some(Record::Alias(other.to_owned()));
        while walk.step(found)?.is_none() {
            found = self.read(walk.name()).await?;
        }
        self.create(name, &Record::Alias(other.to_owned())).await
    }

    /// Replaces what a name is bound to, a payload or an alias, with a payload. A name that is bound for a session
    /// stays so. Costs two reads and writes.
    ///
    /// # Errors
    /// [`ErrorKind::NoNode`] if the name is not bound.
    pub async fn rebind(&self, name: &str, payload: impl Into<Bytes>) -> Result<()> {
        let path = self.names.value_path(name)?;
        let data = Record::Payload(payload.into()).encode();
        loop {
            let version = self.client.get(&path).await?.stat.version;
            let (client, data) = (&self.client, data.clone());
            let same_data = SameData::IsOurs;
            let set = ConditionalSet { client, path: &path, data, version, same_data, along: None };
            if let Written::Yes(_) = set.run().await? {
                return Ok(());
            }
        }
    }

    /// Unbinds a name, whichever client bound it. It may be unbound already. Names below it stay.
    pub async fn unbind(&self, name: &str) -> Result<()> {
        let path = self.names.value_path(name)?;
        let Some(bound) = self.client.exists(&path).await? else {
            return Ok(());
        };
        loop {
            let node = OwnedNode::at_reused_path(self.client.clone(), &path, bound.czxid);
            match node.remove().await {
                // The node did not exist any more, or the session has ended; read again.
                Err(Error::Lost) => {}
                removed => return removed,
            }
            let now = self.client.exists(&path).await?;
            if now.is_none_or(|now| now.czxid != bound.czxid) {
                return Ok(());
            }
        }
    }

    /// Returns what a name stands for, after following all aliases; `None` if it, or the name that aliases lead to,
    /// is not bound.
    ///
    /// # Errors
    /// [`Error::Unresolvable`] if aliases form a loop, or there are too many of them.
    pub async fn lookup(&self, name: &str) -> Result<Option<Resolved>> {
        let mut walk = Walk::new(name, self.names.aliases_max);
        loop {
            let found = self.read(walk.name()).await?;
            if let Some(end) = walk.step(found)? {
                return Ok(end);
            }
        }
    }

    /// Returns the next parts of the names below this one, bound or not, in order. A part that was unbound may still
    /// be listed for a while.
    pub async fn list(&self, name: &str) -> Result<Vec<String>> {
        let mut names = match self.client.children(&self.names.path(name)?).await {
            Err(error) if error.is_no_node() => Vec::new(),
            children => children?.names,
        };
        names.retain(|name| !name.starts_with(RESERVED));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the next number below a name, which need not be bound: 0, 1, 2, … over all clients, each issued once.
    /// See [`SequentialIds`].
    pub async fn next_id(&self, name: &str) -> Result<u64> {
        SequentialIds::new(&self.client, child(&self.names.path(name)?, IDS)).next().await
    }

    /// Reads all names, and follows them from now on, for lookups without a request.
    pub async fn cached(&self) -> Result<CachedNames> {
        CachedNames::open(self).await
    }

    async fn create(&self, name: &str, record: &Record) -> Result<()> {
        let path = self.names.value_path(name)?;
        let data = record.encode();
        tagged_node::create(&self.client, &path, &data, Lifetime::Persistent).await?;
        Ok(())
    }

    async fn read(&self, name: &str) -> Result<Option<Record>> {
        let path = self.names.value_path(name)?;
        match self.client.get(&path).await {
            Err(error) if error.is_no_node() => Ok(None),
            node => Record::decode(&path, &node?.data).map(Some),
        }
    }
}
