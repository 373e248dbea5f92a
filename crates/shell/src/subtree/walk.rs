//! The walk: every znode of a subtree, parents before their children, children by name.
//!
//! In: a client, a root and what to read of each znode. Out: one [`Visit`] after the other.
//!
//! The walk keeps the znodes it has still to visit in the order in which it will visit them, and asks
//! for the first [`AHEAD_MAX`] of them at once. When a znode turns out to have children, they go in
//! front; what was asked too early and is pushed far back is forgotten and asked again later. So at
//! most [`RETAINED_MAX`] answers are in memory, however large the tree is; besides them only names:
//! those of the brothers and sisters of the znodes on the way down.
//!
//! Invariant: a znode is visited after its parent and before anything that is not below it.

use std::collections::VecDeque;

use bytes::Bytes;
use herdsman_client::{Acl, Children, Client, Error, ErrorKind, Node, Reply, Stat};
use herdsman_proto::path::{ROOT, ZOOKEEPER};

use super::error::Result;
use super::path;

/// Znodes that are asked for at once.
pub const AHEAD_MAX: usize = 64;

/// Answers that are kept at once.
pub const RETAINED_MAX: usize = 2 * AHEAD_MAX;

/// What to read of each znode. The more, the more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Stat and children: one request a znode.
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
    /// Leave it out of a walk that begins at the root.
    #[default]
    Skip,
    /// It is a subtree as any other.
    Include,
}

/// How to walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// What to read of each znode.
    pub fetch: Fetch,
    /// How far down to go: 0 visits the root alone. `None`: all the way.
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

/// Where a znode is in the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path, as the client's namespace sees it.
    pub path: String,
    /// Steps below the root of the walk.
    pub depth: usize,
    /// No other child of its parent follows.
    pub is_last: bool,
}

/// A znode, as much of it as was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// Where it is.
    pub place: Place,
    /// Its stat.
    pub stat: Stat,
    /// Its data; empty unless asked for.
    pub data: Bytes,
    /// Its ACL; empty unless asked for.
    pub acl: Vec<Acl>,
}

/// A step of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A znode.
    Znode(Znode),
    /// A znode that the ACL does not let us read; what is below it is unknown.
    Unreadable(Place),
}

/// A walk under way.
pub struct Walk {
    client: Client,
    options: WalkOptions,
    /// In the order of the walk; whatever was asked for is among the first `RETAINED_MAX`.
    queue: VecDeque<Entry>,
    vanished: u64,
}

struct Entry {
    place: Place,
    asked: Option<Asked>,
}

/// The replies that will tell of a znode.
struct Asked {
    listing: Listing,
    data: Option<Reply<Node>>,
    acl: Option<Reply<(Vec<Acl>, Stat)>>,
}

enum Listing {
    /// Where the walk goes on below.
    Children(Reply<Children>),
    /// Where it does not: the names would be read for nothing.
    Stat(Reply<Option<Stat>>),
}

struct Told {
    names: Vec<String>,
    stat: Stat,
    data: Bytes,
    acl: Vec<Acl>,
}

impl Walk {
    /// A walk of the subtree at `root`.
    #[must_use]
    pub fn new(client: &Client, root: &str, options: WalkOptions) -> Self {
        let place = Place { path: root.to_owned(), depth: 0, is_last: true };
        let queue = VecDeque::from([Entry { place, asked: None }]);
        Walk { client: client.clone(), options, queue, vanished: 0 }
    }

    /// Znodes that were listed and gone when they were read.
    #[must_use]
    pub fn vanished(&self) -> u64 {
        self.vanished
    }

    /// The next znode; `None` at the end. After an error, or when its future was dropped, the walk
    /// is of no further use.
    pub async fn next(&mut self) -> Result<Option<Visit>> {
        loop {
            self.ask_ahead();
            let Some(Entry { place, asked }) = self.queue.pop_front() else {
                return Ok(None);
            };
            let asked = asked.unwrap_or_else(|| ask(&self.client, &place, self.options));
            match asked.answer().await {
                Ok(Some(Told { names, stat, data, acl })) => {
                    self.descend(&place, names);
                    return Ok(Some(Visit::Znode(Znode { place, stat, data, acl })));
                }
                Ok(None) => self.queue.push_front(Entry { place, asked: None }),
                Err(error) => match error.kind() {
                    ErrorKind::NoAuth => return Ok(Some(Visit::Unreadable(place))),
                    ErrorKind::NoNode if place.depth > 0 => self.vanished += 1,
                    _ => return Err(error.into()),
                },
            }
        }
    }

    fn ask_ahead(&mut self) {
        for entry in self.queue.iter_mut().take(AHEAD_MAX) {
            if entry.asked.is_none() {
                entry.asked = Some(ask(&self.client, &entry.place, self.options));
            }
        }
    }

    /// Puts the children in front of everything else.
    fn descend(&mut self, parent: &Place, mut names: Vec<String>) {
        if is_deepest(parent, self.options) {
            return;
        }
        if self.is_root_of_all(&parent.path) && self.options.system == SystemZnodes::Skip {
            names.retain(|name| *name != path::name(ZOOKEEPER));
        }
        names.sort_unstable();
        let added = names.len();
        for (index, name) in names.into_iter().enumerate().rev() {
            let place = Place {
                path: path::child(&parent.path, &name),
                depth: parent.depth + 1,
                is_last: index + 1 == added,
            };
            self.queue.push_front(Entry { place, asked: None });
        }
        self.forget_pushed_back(added);
    }

    /// What was asked for was among the first `RETAINED_MAX` before `added` came in front of it.
    fn forget_pushed_back(&mut self, added: usize) {
        let first = added.max(RETAINED_MAX);
        let end = self.queue.len().min(added + RETAINED_MAX);
        for index in first..end {
            self.queue[index].asked = None;
        }
    }

    fn is_root_of_all(&self, path: &str) -> bool {
        path == ROOT && self.client.chroot().is_empty()
    }
}

fn is_deepest(place: &Place, options: WalkOptions) -> bool {
    options.depth_max.is_some_and(|depth_max| place.depth >= depth_max)
}

fn ask(client: &Client, place: &Place, options: WalkOptions) -> Asked {
    let path = &place.path;
    Asked {
        // A root that is missing is an error, and this way the server's own.
        listing: if place.depth > 0 && is_deepest(place, options) {
            Listing::Stat(client.exists(path).send())
        } else {
            Listing::Children(client.children(path).send())
        },
        data: (options.fetch != Fetch::Stat).then(|| client.get(path).send()),
        acl: (options.fetch == Fetch::Everything).then(|| client.acl(path).send()),
    }
}

impl Asked {
    /// `None` if the ACL was changed between the replies.
    async fn answer(self) -> Result<Option<Told>, Error> {
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
            // This stat goes with the data, whatever happened since the children were listed.
            Node { data, stat } = reply.await?;
        }
        let mut acl = Vec::new();
        if let Some(reply) = self.acl {
            let (read, read_with) = reply.await?;
            // Data must not get the ACL of other data, which may be open to all.
            if (read_with.czxid, read_with.aversion) != (stat.czxid, stat.aversion) {
                return Ok(None);
            }
            acl = read;
        }
        Ok(Some(Told { names, stat, data, acl }))
    }
}
