//! `delete`: leaves that were created before, in the order of their creation. The measurement ends early when there
//! are no more.

use herdsman_proto::{Request, WriteRequest};

use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::names::Family;
use crate::template::Template;
use crate::threads::ThreadShare;

/// Deletes this thread's share of the leaves below `end`.
pub(crate) struct Delete {
    template: Template,
    share: ThreadShare,
    next: u32,
    end: u32,
}

impl Delete {
    pub(crate) fn new(family: &Family, share: ThreadShare, end: u32) -> Self {
        Delete { template: delete_template(family), share, next: share.first(), end }
    }
}

/// Returns the template to delete a leaf with any version.
pub(crate) fn delete_template(family: &Family) -> Template {
    Template::new(family, 0, |path, _| delete_request(path))
}

/// Returns the request to delete a znode with any version.
pub(crate) fn delete_request(path: &str) -> Request<'_> {
    Request::Write(WriteRequest::Delete { path: path.into(), version: -1 })
}

/// Checks that the reply to a delete is empty.
pub(crate) fn check_deleted(reply: &Reply<'_>, family: &Family, number: u32) -> Checked<()> {
    reply
        .must_succeed()
        .and_then(|()| match reply.body {
            [] => Ok(()),
            body => {
                Err(WrongReply::new(format!("the reply has {} bytes instead of none", body.len())))
            }
        })
        .map_err(|wrong| wrong.during(format_args!("delete {}", family.leaf_path(number))))
}

impl Load for Delete {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next;
        self.next = self.share.after(number);
        self.template.append(xid, number, 0, out);
        Some(RequestTag(u64::from(number)))
    }

    fn check_reply(
        &mut self,
        _lane: usize,
        tag: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        check_deleted(reply, self.template.family(), tag.0 as u32)?;
        Ok(Outcome::Done)
    }

    fn is_exhausted(&self) -> bool {
        self.next >= self.end
    }
}
