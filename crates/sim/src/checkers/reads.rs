//! Reads are of their time: what a read shows is the tree as of the zxid that its answer carries, no more
//! and no less, and only to those who may see it. Source: "atomicity" and "single system image" (Apache's
//! programmer's guide); with it, [`super::read_your_writes`] says something about content and not only
//! about numbers.
//!
//! A read-only server may show txns that are not committed and never will be. Its answers are compared only if
//! their zxid is committed.

use herdsman_proto::{Acl, ErrorCode, JuteWrite, Perms};

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, ZnodeView, sorted_names};
use crate::client::Op;

/// Compares what is read with the chronicle.
pub struct Reads;

impl Checker for Reads {
    fn name(&self) -> &'static str {
        "reads are of their time"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Fact::Replied(reply) = fact else {
            return Ok(());
        };
        if reply.read_only && chronicle.get(reply.zxid).is_none() {
            return Ok(());
        }
        let expected = match reply.op {
            Op::GetData { path, .. }
            | Op::Exists { path, .. }
            | Op::GetChildren { path, .. }
            | Op::GetAcl { path }
            | Op::CountDescendants { path } => {
                let view = chronicle.past(path).view_at(reply.zxid);
                expected(reply, view, chronicle)
            }
            Op::GetEphemerals => Ok(ephemerals(reply, chronicle)),
            _ => return Ok(()),
        };
        let is_same = match (&expected, reply.op) {
            (Err(code), _) => reply.code == code.code(),
            (Ok(_), _) if reply.code != 0 => false,
            (Ok(body), Op::GetChildren { .. } | Op::GetEphemerals) => {
                sorted_names(body) == sorted_names(reply.body)
            }
            (Ok(body), _) => reply.body[..] == body[..],
        };
        if is_same {
            return Ok(());
        }
        Err(format!(
            "client {} asked {:?} as of {} and got {} {:?}, not {expected:?}",
            reply.client, reply.op, reply.zxid, reply.code, reply.body
        ))
    }
}

/// The body of the answer, or the error.
fn expected(
    reply: &Reply<'_>,
    view: Option<&ZnodeView>,
    chronicle: &Chronicle,
) -> Result<Vec<u8>, ErrorCode> {
    let view = view.ok_or(ErrorCode::NoNode)?;
    let wanted = match reply.op {
        Op::GetAcl { .. } => Perms::READ.union(Perms::ADMIN),
        _ => Perms::READ,
    };
    if !view.permits(wanted, reply.ids) {
        return Err(ErrorCode::NoAuth);
    }
    Ok(match reply.op {
        Op::GetData { .. } => view.data.clone(),
        Op::Exists { .. } => view.stat().to_vec(),
        Op::GetAcl { .. } => acl_body(reply, view),
        Op::CountDescendants { path } => {
            let all = chronicle.pasts_below(path).filter(|(below, _)| below != path);
            let count = all.filter(|(_, past)| past.view_at(reply.zxid).is_some()).count();
            let mut body = Vec::new();
            body.put_count(count);
            body
        }
        _ => {
            let mut names = Vec::new();
            names.put_vector(&view.children, |out, name| out.put_string(name));
            names
        }
    })
}

/// All znodes that the session owns.
fn ephemerals(reply: &Reply<'_>, chronicle: &Chronicle) -> Vec<u8> {
    let is_own = |view: &ZnodeView| view.decoded().ephemeral_owner == reply.session.0;
    let all = chronicle.pasts_below("/");
    let own = all.filter(|(_, past)| past.view_at(reply.zxid).is_some_and(is_own));
    let paths: Vec<_> = own.map(|(path, _)| path).collect();
    let mut body = Vec::new();
    body.put_vector(&paths, |out, path| out.put_string(path));
    body
}

/// The list as it is shown: hashes of passwords only to those who may change it.
fn acl_body(reply: &Reply<'_>, view: &ZnodeView) -> Vec<u8> {
    let is_admin = view.permits(Perms::ADMIN, reply.ids);
    let mut body = Vec::new();
    body.put_vector(&view.acl, |out, entry| {
        let mut shown: Acl = entry.clone();
        if let Some((user, _)) = entry.id.id.split_once(':').filter(|_| !is_admin) {
            shown.id.id = format!("{user}:x");
        }
        shown.encode(out);
    });
    body.extend_from_slice(view.stat());
    body
}
