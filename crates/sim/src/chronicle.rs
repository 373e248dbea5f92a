//! What has been agreed on, as the world remembers it: every txn that some server has delivered, in
//! order, with what it did.
//!
//! In: the first delivery of each txn. Out: answers about the past that checkers compare with what
//! servers and clients say: the reply a write must get, what a znode looked like after a given txn, when it
//! changed. A tree of its own, fed with all txns, gives the answers; that each single txn does what it
//! should is tested elsewhere, here it is about order and loss.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{
    Acl, ErrorCode, EventType, Id, JuteReader, JuteWrite, Perms, ReadRequest, SessionId, Stat, Txn,
    Zxid,
};
use herdsman_tree::auth::SUPER;
use herdsman_tree::{Events, Tree, TreeOptions, Watcher, read};

/// A txn that some server has delivered.
#[derive(Debug)]
pub struct Committed {
    /// Fingerprint of its bytes.
    pub hash: u64,
    /// The txn.
    pub entry: Entry,
    /// The body of the reply to who asked for it.
    pub reply: Result<Vec<u8>, ErrorCode>,
    /// The tree's digest after it.
    pub digest: i64,
}

/// What a znode looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZnodeView {
    /// Data and stat as getData answers them.
    pub data: Vec<u8>,
    /// Names of the children, sorted.
    pub children: Vec<String>,
    /// Who may do what.
    pub acl: Vec<Acl>,
}

impl ZnodeView {
    /// Whether the ACL grants one of these permissions to one of the ids.
    #[must_use]
    pub fn permits(&self, wanted: Perms, ids: &[Id]) -> bool {
        permits(&self.acl, wanted, ids)
    }

    /// The stat.
    ///
    /// # Panics
    /// Never: it was encoded by us.
    #[must_use]
    pub fn decoded(&self) -> Stat {
        Stat::decode(&mut JuteReader::new(self.stat())).expect("our own words")
    }

    /// The stat alone, as exists answers it.
    #[must_use]
    pub fn stat(&self) -> &[u8] {
        &self.data[self.data.len() - Stat::BYTES..]
    }
}

/// Whether a list gives somebody one of the wanted rights. Ids here are compared as they are: addresses
/// with a mask and the like do not occur.
#[must_use]
pub fn permits(acl: &[Acl], wanted: Perms, ids: &[Id]) -> bool {
    let is_meant = |id: &Id| *id == Id::anyone() || ids.contains(id);
    acl.iter().any(|entry| entry.perms.intersects(wanted) && is_meant(&entry.id))
}

/// Something that a watch tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedChange {
    /// By which txn.
    pub zxid: Zxid,
    /// What.
    pub kind: EventType,
    /// Who may know: the ACL of the znode, before it was deleted.
    pub acl: Vec<Acl>,
}

impl WatchedChange {
    /// Whether somebody is told.
    #[must_use]
    pub fn is_told_to(&self, ids: &[Id]) -> bool {
        permits(&self.acl, Perms::READ, ids)
    }
}

/// The past of one path.
#[derive(Debug, Default)]
pub struct PathHistory {
    views: Vec<(Zxid, Option<ZnodeView>)>,
    /// What a data watch would have told.
    pub data_changes: Vec<WatchedChange>,
    /// What a child watch would have told.
    pub child_changes: Vec<WatchedChange>,
}

/// What has been agreed on.
#[derive(Debug)]
pub struct Chronicle {
    committed: BTreeMap<Zxid, Committed>,
    tree: Tree,
    pasts: BTreeMap<String, PathHistory>,
    nothing: PathHistory,
    /// Sessions that were opened for the whole ensemble.
    sessions: BTreeSet<SessionId>,
}

impl Chronicle {
    /// Nothing yet.
    #[must_use]
    pub fn new(options: TreeOptions) -> Self {
        let tree = Tree::new(options);
        let root =
            PathHistory { views: vec![(Zxid::ZERO, view(&tree, "/"))], ..PathHistory::default() };
        Chronicle {
            committed: BTreeMap::new(),
            tree,
            pasts: BTreeMap::from([("/".to_owned(), root)]),
            nothing: PathHistory::default(),
            sessions: BTreeSet::new(),
        }
    }

    /// Whether a session is or was known to the whole ensemble. Only such a one ends by a txn.
    #[must_use]
    pub fn was_global(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// The one before `zxid`.
    #[must_use]
    pub fn last_before(&self, zxid: Zxid) -> Zxid {
        self.committed.range(..zxid).next_back().map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    /// Paths that begin so, with their pasts.
    pub fn pasts_below<'a>(
        &'a self,
        top: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a PathHistory)> {
        let below =
            self.pasts.range(top.to_owned()..).take_while(move |(path, _)| path.starts_with(top));
        below.map(|(path, past)| (path.as_str(), past)).filter(move |(path, _)| is_below(path, top))
    }

    /// A txn.
    #[must_use]
    pub fn get(&self, zxid: Zxid) -> Option<&Committed> {
        self.committed.get(&zxid)
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.committed.last_key_value().map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    /// The next one after `zxid`.
    #[must_use]
    pub fn next_after(&self, zxid: Zxid) -> Option<Zxid> {
        self.committed.range(Zxid(zxid.0 + 1)..).next().map(|(zxid, _)| *zxid)
    }

    /// All txns after one.
    pub fn after(&self, zxid: Zxid) -> impl Iterator<Item = (&Zxid, &Committed)> {
        self.committed.range(Zxid(zxid.0 + 1)..)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.committed.len()
    }

    /// Nothing has been agreed on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.committed.is_empty()
    }

    /// The tree after all of them.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The past of a path.
    #[must_use]
    pub fn past(&self, path: &str) -> &PathHistory {
        self.pasts.get(path).unwrap_or(&self.nothing)
    }

    /// Adds the next txn; it is later than all others.
    pub fn add(&mut self, zxid: Zxid, hash: u64, payload: &Bytes) {
        let entry = Entry::decode(payload).expect("what was logged can be read");
        if let Txn::CreateSession { .. } = entry.txn {
            self.sessions.insert(entry.header.session);
        }
        let mut changes = Vec::new();
        self.note_changes(&entry.txn, &mut changes);
        // The list of a znode that is deleted is the one from before.
        let before: Vec<_> = changes.iter().map(|(path, ..)| view(&self.tree, path)).collect();
        let outcome = self.tree.apply(&entry, &mut Events::new());
        let mut body = Vec::new();
        let reply = outcome.encode_reply(&mut body).map(|()| body);
        for ((path, table, kind), before) in changes.into_iter().zip(before) {
            let view = view(&self.tree, &path);
            let shown = if kind == EventType::NodeDeleted { &before } else { &view };
            let acl = shown.as_ref().or(view.as_ref()).or(before.as_ref());
            let acl = acl.map(|view| view.acl.clone()).unwrap_or_default();
            let past = self.pasts.entry(path).or_default();
            past.views.push((zxid, view));
            match table {
                Table::Data => past.data_changes.push(WatchedChange { zxid, kind, acl }),
                Table::Child => past.child_changes.push(WatchedChange { zxid, kind, acl }),
                Table::Neither => {}
            }
        }
        let digest = self.tree.digest();
        self.committed.insert(zxid, Committed { hash, entry, reply, digest });
    }

    fn note_changes(&self, txn: &Txn, changes: &mut Vec<(String, Table, EventType)>) {
        let mut gone = |path: &str| {
            changes.push((path.to_owned(), Table::Data, EventType::NodeDeleted));
            changes.push((path.to_owned(), Table::Child, EventType::NodeDeleted));
            changes.push((parent(path), Table::Child, EventType::NodeChildrenChanged));
        };
        match txn {
            Txn::Create(create) => {
                let path = create.path.to_string();
                changes.push((parent(&path), Table::Child, EventType::NodeChildrenChanged));
                changes.push((path, Table::Data, EventType::NodeCreated));
            }
            Txn::Delete { path, .. } => gone(path),
            Txn::SetData { path, .. } => {
                changes.push((path.to_string(), Table::Data, EventType::NodeDataChanged));
            }
            Txn::SetAcl { path, .. } => {
                changes.push((path.to_string(), Table::Neither, EventType::NodeDataChanged));
            }
            Txn::CloseSession { ephemerals } => {
                for path in ephemerals.iter().flatten() {
                    if view(&self.tree, path).is_some() {
                        gone(path);
                    }
                }
            }
            Txn::Multi(txns) if has_effect(txn) => {
                for txn in txns {
                    self.note_changes(txn, changes);
                }
            }
            _ => {}
        }
    }
}

/// Whether a txn changes anything: an error does not, nor does a multi of which a part failed.
#[must_use]
pub fn has_effect(txn: &Txn) -> bool {
    match txn {
        Txn::Error(_) => false,
        Txn::Multi(txns) => txns.iter().all(has_effect),
        _ => true,
    }
}

#[derive(Clone, Copy, Debug)]
enum Table {
    Data,
    Child,
    /// It looks different, and nobody is told.
    Neither,
}

impl PathHistory {
    /// What it looked like right after a txn.
    #[must_use]
    pub fn view_at(&self, zxid: Zxid) -> Option<&ZnodeView> {
        let count = self.views.partition_point(|(at, _)| *at <= zxid);
        self.views[..count].last().and_then(|(_, view)| view.as_ref())
    }
}

/// What a path looks like in a tree.
#[must_use]
pub fn view(tree: &Tree, path: &str) -> Option<ZnodeView> {
    let ids = [Id::new(SUPER, "")];
    let reader =
        read::ReadCaller { session: SessionId::NONE, watcher: Watcher(u64::MAX), ids: &ids };
    let mut data = Vec::new();
    let request = ReadRequest::GetData { path: path.into(), watch: false };
    tree.read(reader, &request, &mut data).ok()?;
    let mut names = Vec::new();
    let request = ReadRequest::GetChildren { path: path.into(), watch: false, with_stat: false };
    tree.read(reader, &request, &mut names).ok()?;
    let mut acl = Vec::new();
    tree.read(reader, &ReadRequest::GetAcl { path: path.into() }, &mut acl).ok()?;
    let acl = JuteReader::new(&acl).vector(Acl::decode).ok()?;
    Some(ZnodeView { data, children: sorted_names(&names), acl })
}

/// The names in the body of an answer to getChildren, sorted: a tree that was loaded from a snapshot
/// may list them in another order.
#[must_use]
pub fn sorted_names(body: &[u8]) -> Vec<String> {
    let names = JuteReader::new(body).vector(|reader| Ok(reader.required_string()?.into_owned()));
    let mut names = names.unwrap_or_default();
    names.sort_unstable();
    names
}

fn is_below(path: &str, top: &str) -> bool {
    let rest = path.strip_prefix(top);
    top == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path of the parent.
#[must_use]
pub fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
    }
}

/// Fingerprint of bytes (FNV-1a).
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The whole content of a tree, by path, and its sessions; for comparison.
#[must_use]
pub fn content(tree: &Tree) -> BTreeMap<String, Vec<u8>> {
    let mut dump = herdsman_tree::Dump::start(tree);
    let mut sessions = Vec::new();
    for (session, timeout_ms) in dump.sessions() {
        sessions.put_long(session.0);
        sessions.put_int(*timeout_ms);
    }
    let mut content = BTreeMap::from([("sessions".to_owned(), sessions)]);
    let mut add =
        |path: &str, data: Option<&[u8]>, _: i64, stat: &herdsman_proto::StatPersisted| {
            // Each server fills that in from its own configuration, without a txn.
            if path != herdsman_proto::path::CONFIG {
                let mut node = Vec::new();
                node.put_buffer(data);
                stat.encode(&mut node);
                let acl = view(tree, path).map(|view| view.acl).unwrap_or_default();
                node.put_vector(&acl, |out, entry| entry.encode(out));
                content.insert(path.to_owned(), node);
            }
        };
    while dump.step(tree, usize::MAX, &mut add) {}
    content
}
