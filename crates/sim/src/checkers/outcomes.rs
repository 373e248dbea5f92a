//! Every write does what it should: it succeeds if the tree before it allows it, and fails with the right
//! error if not. Source: Apache's programmer's guide, and the order of checks in `PrepRequestProcessor`.
//!
//! What is right is decided here anew, from what the znodes looked like before the txn: nothing of the
//! tree's own rules is used. An answer without a txn is right only where no leader has decided anything.

use std::collections::BTreeMap;

use herdsman_proto::{ErrorCode, Id, Perms, Txn, Zxid};

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, ZnodeView, parent, permits};
use crate::client::{Create, Op};

/// Compares answers with what the rules say.
pub struct Outcomes;

impl Checker for Outcomes {
    fn name(&self) -> &'static str {
        "outcomes"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Fact::Replied(reply) = fact else { return Ok(()) };
        let is_decided = reply.op.is_write()
            && !reply.read_only
            && !matches!(reply.op, Op::CloseSession | Op::Reconfig { .. });
        if is_decided { check(reply, chronicle) } else { Ok(()) }
    }
}

fn check(reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
    let Reply { client, session, op, zxid, code, .. } = reply;
    let committed = chronicle.get(*zxid).filter(|txn| txn.entry.header.session == *session);
    let decided = committed.map(|committed| errors_of(&committed.entry.txn));
    let Some(decided) = decided.filter(|errors| reply.code == 0 || errors.contains(&reply.code))
    else {
        // A server may refuse on its own only what has to do with sessions, or with its disk.
        return match ErrorCode::from_code(*code) {
            Some(
                ErrorCode::SessionExpired
                | ErrorCode::EphemeralOnLocalSession
                | ErrorCode::SystemError,
            ) => Ok(()),
            _ => Err(format!("client {client} got {code} at {zxid} for {op:?}, no txn says so")),
        };
    };
    // A session that has moved is never told of: its old connection closes instead.
    let about_session = [ErrorCode::SessionExpired, ErrorCode::EphemeralOnLocalSession];
    if decided.iter().any(|code| about_session.iter().any(|known| known.code() == *code)) {
        return Ok(());
    }
    let before = chronicle.last_before(*zxid);
    let mut model = Model { chronicle, before, ids: reply.ids, new: BTreeMap::new() };
    let expected = model.errors(op);
    if expected != decided {
        return Err(format!(
            "client {client} asked {op:?} and got {decided:?} at {zxid}, not {expected:?}"
        ));
    }
    if decided.iter().any(|code| *code != 0) {
        return Ok(());
    }
    for (path, expected) in &model.new {
        let found = chronicle.past(path).view_at(*zxid).map(ExpectedZnode::of);
        if found != *expected {
            return Err(format!("{op:?} made {found:?} of {path} at {zxid}, not {expected:?}"));
        }
    }
    Ok(())
}

/// The error of a txn and of each of its parts, 0 for none.
fn errors_of(txn: &Txn) -> Vec<i32> {
    match txn {
        Txn::Error(code) => vec![*code],
        Txn::Multi(txns) => txns.iter().flat_map(errors_of).collect(),
        _ => vec![0],
    }
}

/// A znode, as far as the rules ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExpectedZnode {
    version: i32,
    aversion: i32,
    children: i32,
    /// How many children were ever created: the number of the next sequential one.
    created: i32,
    is_ephemeral: bool,
    acl: Vec<herdsman_proto::Acl>,
}

impl ExpectedZnode {
    fn of(view: &ZnodeView) -> Self {
        let stat = view.decoded();
        ExpectedZnode {
            version: stat.version,
            aversion: stat.aversion,
            children: stat.num_children,
            // A stat shows twice that, less the children that there are.
            created: (stat.cversion + stat.num_children) / 2,
            is_ephemeral: stat.ephemeral_owner != 0,
            acl: view.acl.clone(),
        }
    }
}

/// The tree as a request finds it.
struct Model<'a> {
    chronicle: &'a Chronicle,
    before: Zxid,
    ids: &'a [Id],
    /// What earlier parts of the same multi have changed.
    new: BTreeMap<String, Option<ExpectedZnode>>,
}

impl Model<'_> {
    fn errors(&mut self, op: &Op) -> Vec<i32> {
        let code = |result: Result<(), ErrorCode>| result.map_or_else(ErrorCode::code, |()| 0);
        let Op::Multi(ops) = op else { return vec![code(self.change(op))] };
        let mut failed = false;
        let each = ops.iter().map(|op| {
            if failed {
                return ErrorCode::RuntimeInconsistency.code();
            }
            let code = code(self.change(op));
            failed = code != 0;
            code
        });
        each.collect()
    }

    fn find(&self, path: &str) -> Result<ExpectedZnode, ErrorCode> {
        let found = match self.new.get(path) {
            Some(changed) => changed.clone(),
            None => self.chronicle.past(path).view_at(self.before).map(ExpectedZnode::of),
        };
        found.ok_or(ErrorCode::NoNode)
    }

    fn require(&self, znode: &ExpectedZnode, wanted: Perms) -> Result<(), ErrorCode> {
        if permits(&znode.acl, wanted, self.ids) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    fn change(&mut self, op: &Op) -> Result<(), ErrorCode> {
        match op {
            Op::Create(create) => self.create(create),
            Op::SetData { path, version, .. } => {
                let mut znode = self.find(path)?;
                self.require(&znode, Perms::WRITE)?;
                znode.version = next(znode.version, *version)?;
                self.put(path, znode);
                Ok(())
            }
            Op::SetAcl { path, acl, version } => {
                let mut znode = self.find(path)?;
                self.require(&znode, Perms::ADMIN)?;
                znode.aversion = next(znode.aversion, *version)?;
                znode.acl.clone_from(acl);
                self.put(path, znode);
                Ok(())
            }
            Op::Check { path, version } => {
                let znode = self.find(path)?;
                self.require(&znode, Perms::READ)?;
                next(znode.version, *version).map(|_| ())
            }
            Op::Delete { path, version } => {
                let mut parent_znode = self.find(&parent(path))?;
                self.require(&parent_znode, Perms::DELETE)?;
                let znode = self.find(path)?;
                next(znode.version, *version)?;
                if znode.children > 0 {
                    return Err(ErrorCode::NotEmpty);
                }
                parent_znode.children -= 1;
                self.put(&parent(path), parent_znode);
                self.new.insert(path.clone(), None);
                Ok(())
            }
            other => unreachable!("{other:?} is not judged"),
        }
    }

    fn create(&mut self, create: &Create) -> Result<(), ErrorCode> {
        let mut parent_znode = self.find(&parent(&create.path))?;
        self.require(&parent_znode, Perms::CREATE)?;
        let mut path = create.path.clone();
        if create.is_sequential() {
            path += &format!("{:010}", parent_znode.created);
        }
        if self.find(&path).is_ok() {
            return Err(ErrorCode::NodeExists);
        }
        if parent_znode.is_ephemeral {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        parent_znode.children += 1;
        parent_znode.created += 1;
        self.put(&parent(&path), parent_znode);
        let znode = ExpectedZnode {
            version: 0,
            aversion: 0,
            children: 0,
            created: 0,
            is_ephemeral: create.is_ephemeral(),
            acl: create.acl.clone(),
        };
        self.put(&path, znode);
        Ok(())
    }

    fn put(&mut self, path: &str, znode: ExpectedZnode) {
        self.new.insert(path.to_owned(), Some(znode));
    }
}

fn next(version: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == version { Ok(version + 1) } else { Err(ErrorCode::BadVersion) }
}
