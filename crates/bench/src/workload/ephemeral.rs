//! `ephemeral`: each lane creates an ephemeral znode and deletes it, and both are counted. The delete is sent right
//! after the create: a server keeps the order of a session's requests.

use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::names::Family;
use crate::template::Template;
use crate::threads::ThreadShare;
use crate::workload::create::{EPHEMERAL, check_created, create_template};
use crate::workload::delete::{check_deleted, delete_template};

/// Marks a delete in a tag, above the leaf's number.
const DELETE: u64 = 1 << 32;

/// Creates and deletes ephemeral leaves.
pub(crate) struct Ephemeral {
    create: Template,
    delete: Template,
    share: ThreadShare,
    next: u32,
    /// The znodes that each lane has created and not yet requested to delete.
    created: Vec<Option<u32>>,
}

impl Ephemeral {
    pub(crate) fn new(
        family: &Family,
        value_bytes: usize,
        share: ThreadShare,
        lanes: usize,
    ) -> Self {
        Ephemeral {
            create: create_template(family, value_bytes, EPHEMERAL),
            delete: delete_template(family),
            share,
            next: share.first(),
            created: vec![None; lanes],
        }
    }
}

impl Load for Ephemeral {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        if let Some(number) = self.created[lane].take() {
            self.delete.append(xid, number, 0, out);
            return Some(RequestTag(u64::from(number) | DELETE));
        }
        let number = self.next;
        self.next = self.share.after(number);
        self.created[lane] = Some(number);
        self.create.append(xid, number, 0, out);
        Some(RequestTag(u64::from(number)))
    }

    fn check_reply(
        &mut self,
        _lane: usize,
        tag: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        let (family, number) = (self.create.family(), tag.0 as u32);
        if tag.0 & DELETE == 0 {
            check_created(reply, family, number)?;
        } else {
            check_deleted(reply, family, number)?;
        }
        Ok(Outcome::Done)
    }
}
