//! Walks a subtree: parents before their children, children by name.
//!
//! In: a client, a root and what to read of each znode. Out: a sequence of [`Visit`]s.
//!
//! The walk keeps a queue of znodes in the order in which it will visit them, and has requests for the
//! first [`AHEAD_MAX`] of them in flight. When a znode turns out to have children, they are put in front
//! of the queue; requests of znodes that are pushed far back are dropped and sent again later. So at most
//! [`RETAINED_MAX`] replies are in memory, however large the tree is; besides them only names: those of
//! the siblings of the znodes on the path down.
//!
//! Invariant: a znode is visited after its parent and before anything that is not below it.

use std::collections::VecDeque;

use bytes::Bytes;
use herdsman_client::{Acl, Children, Client, Error, ErrorKind, Node, Reply, Stat};
use herdsman_proto::path::{ROOT, ZOOKEEPER};

use super::error::Result;
use super::path;

/// Most znodes that are requested ahead.
pub const AHEAD_MAX: usize = 64;

/// Most replies that are kept.
pub const RETAINED_MAX: usize = 2 * AHEAD_MAX;

/// What to read of each znode. Reading more takes more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Stat and children: one request per znode.
    #[default]
    Stat,
    /// Also the data: two requests.
    Data,
    /// Also the ACL: three requests.
    Everything,
}

/// What to do with `/zookeeper`, where the service keeps quotas and its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemZnodes {
    /// Skip it in a walk that begins at the root.
    #[default]
    Skip,
    /// Visit it like any other subtree.
    Include,
}

/// Options of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// What to read of each znode.
    pub fetch: Fetch,
    /// How far down to go: 0 visits only the root. `None`: no limit.
    pub depth_max: Option<usize>,
    /// Whether `/zookeeper` is visited.
    pub system: SystemZnodes,
}

impl WalkOptions {
    /// The whole subtree, with this much of each znode.
    #[must_use]
    pub fn fetching(fetch: Fetch) -> Self {
        WalkOptions { fetch, ..WalkOptions::default() }
    }
}

/// The position of a znode in a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its path, as the client's namespace sees it.
    pub path: String,
    /// Steps below the root of the walk.
    pub depth: usize,
    /// Whether it is the last child of its parent.
    pub is_last: bool,
}

/// A znode, with the requested parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// Its position in the walk.
    pub position: Position,
    /// Its stat.
    pub stat: Stat,
    /// Its data; empty unless requested.
    pub data: Bytes,
    /// Its ACL; empty unless requested.
    pub acl: Vec<Acl>,
}

/// A step of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A znode.
    Znode(Znode),
    /// A znode that the ACL does not let us read; what is below it is unknown.
    Unreadable(Position),
}

/// A walk in progress.
pub struct Walk {
    client: Client,
    options: WalkOptions,
    /// In the order of the walk; only the first `RETAINED_MAX` may have requests.
    queue: VecDeque<Entry>,
    vanished: u64,
}

struct Entry {
    position: Position,
    requests: Option<Requests>,
}

/// The requests of a znode, whose replies are pending.
struct Requests {
    listing: Listing,
    data: Option<Reply<Node>>,
    acl: Option<Reply<(Vec<Acl>, Stat)>>,
}

enum Listing {
    /// The walk continues below.
    Children(Reply<Children>),
    /// The walk does not continue below: the names are not needed.
    Stat(Reply<Option<Stat>>),
}

struct ZnodeParts {
    names: Vec<String>,
    stat: Stat,
    data: Bytes,
    acl: Vec<Acl>,
}

impl Walk {
    /// A walk of the subtree at `root`.
    #[must_use]
    pub fn new(client: &Client, root: &str, options: WalkOptions) -> Self {
        let position = Position { path: root.to_owned(), depth: 0, is_last: true };
        let queue = VecDeque::from([Entry { position, requests: None }]);
        Walk { client: client.clone(), options, queue, vanished: 0 }
    }

    /// The number of znodes that were listed but deleted before they were read.
    #[must_use]
    pub fn vanished(&self) -> u64 {
        self.vanished
    }

    /// The next znode; `None` at the end. After an error, or when its future was dropped, the walk cannot
    /// continue.
    pub async fn next(&mut self) -> Result<Option<Visit>> {
        loop {
            self.request_ahead();
            let Some(Entry { position, requests }) = self.queue.pop_front() else {
                return Ok(None);
            };
            let requests =
                requests.unwrap_or_else(|| request(&self.client, &position, self.options));
            match requests.replies().await {
                Ok(Some(ZnodeParts { names, stat, data, acl })) => {
                    self.descend(&position, names);
                    return Ok(Some(Visit::Znode(Znode { position, stat, data, acl })));
                }
                Ok(None) => self.queue.push_front(Entry { position, requests: None }),
                Err(error) => match error.kind() {
                    ErrorKind::NoAuth => return Ok(Some(Visit::Unreadable(position))),
                    ErrorKind::NoNode if position.depth > 0 => self.vanished += 1,
                    _ => return Err(error.into()),
                },
            }
        }
    }

    fn request_ahead(&mut self) {
        for entry in self.queue.iter_mut().take(AHEAD_MAX) {
            if entry.requests.is_none() {
                entry.requests = Some(request(&self.client, &entry.position, self.options));
            }
        }
    }

    /// Puts the children in front of everything else.
    fn descend(&mut self, parent: &Position, mut names: Vec<String>) {
        if is_deepest(parent, self.options) {
            return;
        }
        if self.is_root_of_all(&parent.path) && self.options.system == SystemZnodes::Skip {
            names.retain(|name| *name != path::name(ZOOKEEPER));
        }
        names.sort_unstable();
        let added = names.len();
        for (index, name) in names.into_iter().enumerate().rev() {
            let position = Position {
                path: path::child(&parent.path, &name),
                depth: parent.depth + 1,
                is_last: index + 1 == added,
            };
            self.queue.push_front(Entry { position, requests: None });
        }
        self.drop_pushed_back(added);
    }

    /// Drops requests beyond `RETAINED_MAX`; they were within it before `added` znodes were put in front.
    fn drop_pushed_back(&mut self, added: usize) {
        let first = added.max(RETAINED_MAX);
        let end = self.queue.len().min(added + RETAINED_MAX);
        for index in first..end {
            self.queue[index].requests = None;
        }
    }

    fn is_root_of_all(&self, path: &str) -> bool {
        path == ROOT && self.client.chroot().is_empty()
    }
}

fn is_deepest(position: &Position, options: WalkOptions) -> bool {
    options.depth_max.is_some_and(|depth_max| position.depth >= depth_max)
}

fn request(client: &Client, position: &Position, options: WalkOptions) -> Requests {
    let path = &position.path;
    Requests {
        // A missing root is an error; this request returns the server's own.
        listing: if position.depth > 0 && is_deepest(position, options) {
            Listing::Stat(client.exists(path).send())
        } else {
            Listing::Children(client.children(path).send())
        },
        data: (options.fetch != Fetch::Stat).then(|| client.get(path).send()),
        acl: (options.fetch == Fetch::Everything).then(|| client.acl(path).send()),
    }
}

impl Requests {
    /// Awaits the replies. `None` if the ACL was changed between them.
    async fn replies(self) -> Result<Option<ZnodeParts>, Error> {
        let (names, mut stat) = match self.listing {
            Listing::Children(reply) => {
                let children = reply.await?;
                (children.names, children.stat)
            }
            Listing::Stat(reply) => {
                let stat = reply.await?;
                (Vec::new(), stat.ok_or_else(|| Error::not_applied(ErrorKind::NoNode))?)
            }
        };
        let mut data = Bytes::new();
        if let Some(reply) = self.data {
            // This stat belongs to the data, whatever happened since the children were listed.
            Node { data, stat } = reply.await?;
        }
        let mut acl = Vec::new();
        if let Some(reply) = self.acl {
            let (read, read_with) = reply.await?;
            // Data must not be paired with the ACL of other data, which may be open to all.
            if (read_with.czxid, read_with.aversion) != (stat.czxid, stat.aversion) {
                return Ok(None);
            }
            acl = read;
        }
        Ok(Some(ZnodeParts { names, stat, data, acl }))
    }
}
