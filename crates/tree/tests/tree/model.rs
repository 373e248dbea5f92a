//! A tree as simple as possible: a map from path to znode that is scanned for every search. It decides and
//! applies in one step, so it shows what the real tree shows when everything in flight is applied.

use std::collections::BTreeMap;

use herdsman_proto::request::CreateRequest;
use herdsman_proto::{
    Acl, ErrorCode, Id, OpCode, Perms, SessionId, Stat, StatPersisted, TxnHeader, WriteRequest,
    Zxid,
};
use herdsman_tree::Outcome;

/// A znode; its children are found by their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNode {
    pub data: Option<Vec<u8>>,
    pub acl: Vec<Acl>,
    pub stat: StatPersisted,
}

/// The client and the time of a request.
#[derive(Clone, Copy, Debug)]
pub struct ModelCaller<'a> {
    pub session: SessionId,
    pub ids: &'a [Id],
    pub refused: Option<ErrorCode>,
    pub zxid: Zxid,
    pub time_ms: i64,
}

/// The state. The root's path is `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub nodes: BTreeMap<String, ModelNode>,
    pub sessions: BTreeMap<SessionId, i32>,
    extended_types: bool,
}

type Result<T> = std::result::Result<T, ErrorCode>;

impl Model {
    pub fn new(extended_types: bool) -> Self {
        let open = vec![Acl::world(Perms::ALL)];
        let node = |acl: &[Acl], aversion| ModelNode {
            data: Some(Vec::new()),
            acl: acl.to_vec(),
            stat: StatPersisted { aversion, ..StatPersisted::default() },
        };
        let nodes = [
            ("/", node(&open, 0)),
            ("/zookeeper", node(&open, 0)),
            ("/zookeeper/quota", node(&open, 0)),
            ("/zookeeper/config", node(&[Acl::world(Perms::READ)], -1)),
        ];
        Model {
            nodes: nodes.map(|(path, node)| (path.to_owned(), node)).into(),
            sessions: BTreeMap::new(),
            extended_types,
        }
    }

    pub fn write(&mut self, asking: ModelCaller<'_>, request: &WriteRequest<'_>) -> Outcome {
        match request {
            WriteRequest::Multi(writes) => self.multi(asking, writes),
            single => self.single(asking, single).unwrap_or_else(Outcome::failed),
        }
    }

    fn multi(&mut self, asking: ModelCaller<'_>, writes: &[WriteRequest<'_>]) -> Outcome {
        let before = self.clone();
        let mut results = Vec::new();
        for (i, write) in writes.iter().enumerate() {
            match self.single(asking, write) {
                Ok(result) => results.push(result),
                Err(code) => {
                    *self = before;
                    results = vec![Outcome::Failed(None); i];
                    results.push(Outcome::failed(code));
                    let behind = Outcome::failed(ErrorCode::RuntimeInconsistency);
                    results.resize(writes.len(), behind);
                    break;
                }
            }
        }
        Outcome::Multi(results)
    }

    fn single(&mut self, asking: ModelCaller<'_>, request: &WriteRequest<'_>) -> Result<Outcome> {
        match request {
            WriteRequest::Create(create) => self.create(asking, create),
            WriteRequest::Delete { path, version } => self.delete(asking, path, *version),
            WriteRequest::SetData { path, data, version } => {
                self.set_data(asking, path, *data, *version)
            }
            WriteRequest::SetAcl { path, acl, version } => {
                self.set_acl(asking, path, acl, *version)
            }
            WriteRequest::Check { path, version } => {
                refused(asking)?;
                valid(path)?;
                let node = self.get(path)?;
                allowed(&node.acl, Perms::READ, asking.ids)?;
                expect_version(node.stat.version, *version)?;
                Ok(Outcome::Checked)
            }
            WriteRequest::Reconfig(_) | WriteRequest::Multi(_) => unreachable!("not generated"),
        }
    }

    fn create(&mut self, asking: ModelCaller<'_>, request: &CreateRequest<'_>) -> Result<Outcome> {
        let owner = self.owner(asking, request)?;
        refused(asking)?;
        if !request.path.contains('/') || request.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let acl = settled(&request.acl, asking.ids)?;
        let parent_path = parent(&request.path);
        let parent = self.get(&parent_path)?.clone();
        allowed(&parent.acl, Perms::CREATE, asking.ids)?;
        let mut path = request.path.to_string();
        if [2, 3, 6].contains(&request.flags) {
            path += &format!("{:010}", parent.stat.cversion);
        }
        valid(&path)?;
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        if USUAL_SESSIONS.contains(&parent.stat.ephemeral_owner) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let stat = StatPersisted::created(asking.zxid, asking.time_ms, owner);
        let node = ModelNode { data: request.data.map(<[u8]>::to_vec), acl, stat };
        self.nodes.insert(path.clone(), node);
        let parent = self.nodes.get_mut(&parent_path).expect("found above");
        parent.stat.cversion += 1;
        parent.stat.pzxid = asking.zxid;
        let stat = (request.op != OpCode::Create).then(|| self.stat(&path));
        let path = path.into();
        Ok(Outcome::Created { path, stat })
    }

    fn owner(&self, asking: ModelCaller<'_>, request: &CreateRequest<'_>) -> Result<i64> {
        let is_ttl = request.flags == 5 || request.flags == 6;
        let ttl = request.ttl_ms.unwrap_or(-1);
        match request.flags {
            0..=6 if is_ttl && !self.extended_types => Err(ErrorCode::Unimplemented),
            0..=6 if is_ttl != (1..1 << 40).contains(&ttl) => Err(ErrorCode::BadArguments),
            0..=6 => match request.op {
                OpCode::CreateContainer => Ok(i64::MIN),
                OpCode::CreateTtl if is_ttl => Ok((0xff << 56) | ttl),
                OpCode::CreateTtl => Err(ErrorCode::BadArguments),
                _ if request.flags == 1 || request.flags == 3 => Ok(asking.session.0),
                _ => Ok(0),
            },
            _ => Err(ErrorCode::BadArguments),
        }
    }

    fn delete(&mut self, asking: ModelCaller<'_>, path: &str, version: i32) -> Result<Outcome> {
        refused(asking)?;
        let special = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];
        if !path.contains('/') || special.contains(&path) {
            return Err(ErrorCode::BadArguments);
        }
        let acl = &self.get(&parent(path))?.acl;
        allowed(acl, Perms::DELETE, asking.ids)?;
        expect_version(self.get(path)?.stat.version, version)?;
        if !self.children(path).is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(path, asking.zxid);
        Ok(Outcome::Deleted)
    }

    /// The sweep's deletion, of containers and TTL znodes only.
    pub fn sweep(&mut self, path: &str, header: &TxnHeader) -> Outcome {
        let swept = self.get(path).and_then(|node| {
            let owner = node.stat.ephemeral_owner;
            if !self.children(path).is_empty() {
                Err(ErrorCode::NotEmpty)
            } else if match owner {
                i64::MIN => node.stat.cversion == 0,
                0.. => true,
                ttl => header.time_ms - node.stat.mtime <= (ttl & 0xff_ffff_ffff),
            } {
                Err(ErrorCode::BadVersion)
            } else {
                Ok(Outcome::Deleted)
            }
        });
        if swept.is_ok() {
            self.remove(path, header.zxid);
        }
        swept.unwrap_or_else(Outcome::failed)
    }

    fn set_data(
        &mut self,
        asking: ModelCaller<'_>,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
    ) -> Result<Outcome> {
        refused(asking)?;
        valid(path)?;
        let node = self.get_mut(path)?;
        allowed(&node.acl, Perms::WRITE, asking.ids)?;
        expect_version(node.stat.version, version)?;
        node.stat.version += 1;
        node.stat.mzxid = asking.zxid;
        node.stat.mtime = asking.time_ms;
        node.data = data.map(<[u8]>::to_vec);
        Ok(Outcome::DataSet(self.stat(path)))
    }

    fn set_acl(
        &mut self,
        asking: ModelCaller<'_>,
        path: &str,
        acl: &[Acl],
        version: i32,
    ) -> Result<Outcome> {
        refused(asking)?;
        valid(path)?;
        let acl = settled(acl, asking.ids)?;
        let node = self.get_mut(path)?;
        allowed(&node.acl, Perms::ADMIN, asking.ids)?;
        expect_version(node.stat.aversion, version)?;
        node.stat.aversion += 1;
        node.acl = acl;
        Ok(Outcome::AclSet(self.stat(path)))
    }

    pub fn open_session(&mut self, session: SessionId, timeout_ms: i32) {
        self.sessions.insert(session, timeout_ms);
    }

    pub fn close_session(&mut self, session: SessionId, zxid: Zxid) {
        self.sessions.remove(&session);
        for path in self.ephemerals(session) {
            self.remove(&path, zxid);
        }
    }

    fn remove(&mut self, path: &str, zxid: Zxid) {
        self.nodes.remove(path);
        let parent = self.nodes.get_mut(&parent(path)).expect("a parent");
        parent.stat.pzxid = zxid;
    }

    fn get(&self, path: &str) -> Result<&ModelNode> {
        self.nodes.get(path).ok_or(ErrorCode::NoNode)
    }

    fn get_mut(&mut self, path: &str) -> Result<&mut ModelNode> {
        self.nodes.get_mut(path).ok_or(ErrorCode::NoNode)
    }

    pub fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let owned = |node: &ModelNode| node.stat.ephemeral_owner == session.0;
        let nodes = self.nodes.iter().filter(|(_, node)| owned(node));
        nodes.map(|(path, _)| path.clone()).collect()
    }

    pub fn children(&self, path: &str) -> Vec<String> {
        let child = |other: &&String| *other != "/" && parent(other) == path;
        self.nodes.keys().filter(child).cloned().collect()
    }

    /// The stat as clients see it.
    pub fn stat(&self, path: &str) -> Stat {
        let node = &self.nodes[path];
        let num_children = self.children(path).len() as i32;
        let StatPersisted {
            czxid,
            mzxid,
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            pzxid,
        } = node.stat;
        Stat {
            czxid,
            mzxid,
            ctime,
            mtime,
            version,
            cversion: 2 * cversion - num_children,
            aversion,
            ephemeral_owner: ephemeral_owner.max(0),
            data_length: node.data.as_ref().map_or(0, |data| data.len() as i32),
            num_children,
            pzxid,
        }
    }
}

/// Ids of the sessions that random tests open. Marks of containers and TTL znodes are negative.
pub const USUAL_SESSIONS: std::ops::Range<i64> = 0x100..0x10000;

fn refused(asking: ModelCaller<'_>) -> Result<()> {
    asking.refused.map_or(Ok(()), Err)
}

/// Sufficient for the paths of random tests.
fn valid(path: &str) -> Result<()> {
    let fits = path == "/"
        || (path.starts_with('/') && !path.ends_with('/') && !path.contains("//"))
            && !path.split('/').any(|name| name == "." || name == "..");
    if fits { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

/// The root is the parent of `/a`; nothing is the parent of `a/b`.
fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
        None => String::new(),
    }
}

fn expect_version(version: i32, expected: i32) -> Result<()> {
    if expected == -1 || expected == version { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

fn allowed(acl: &[Acl], wanted: Perms, ids: &[Id]) -> Result<()> {
    let granted = |entry: &Acl| {
        entry.perms.0 & wanted.0 != 0 && (entry.id.id == "anyone" || ids.contains(&entry.id))
    };
    if ids.iter().any(|id| id.scheme == "super") || acl.iter().any(granted) {
        Ok(())
    } else {
        Err(ErrorCode::NoAuth)
    }
}

/// `auth` stands for all digest ids; random tests use no list with duplicates.
fn settled(acl: &[Acl], ids: &[Id]) -> Result<Vec<Acl>> {
    let mut settled = Vec::new();
    for entry in acl {
        if entry.id.scheme == "auth" {
            let proven = ids.iter().filter(|id| id.scheme == "digest");
            settled.extend(proven.map(|id| Acl { perms: entry.perms, id: id.clone() }));
        } else {
            settled.push(entry.clone());
        }
    }
    if settled.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(settled) }
}
