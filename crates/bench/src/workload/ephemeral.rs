//! `ephemeral`: each lane creates an ephemeral znode and deletes it, both counted. The delete is sent right
//! behind the create: a server keeps the order of a session's requests.

use crate::load::{Checked, Load, Outcome, Reply, Ticket};
use crate::names::Family;
use crate::parts::Part;
use crate::template::Template;
use crate::workload::create::{EPHEMERAL, check_created, create_template};
use crate::workload::delete::{check_deleted, delete_template};

/// Marks a delete in a ticket, above the leaf's number.
const DELETE: u64 = 1 << 32;

/// Creates and deletes ephemeral leaves.
pub(crate) struct Ephemeral {
    create: Template,
    delete: Template,
    part: Part,
    next: u32,
    /// What each lane created and has not asked to delete.
    created: Vec<Option<u32>>,
}

impl Ephemeral {
    pub(crate) fn new(family: &Family, value_bytes: usize, part: Part, lanes: usize) -> Self {
        Ephemeral {
            create: create_template(family, value_bytes, EPHEMERAL),
            delete: delete_template(family),
            part,
            next: part.first(),
            created: vec![None; lanes],
        }
    }
}

impl Load for Ephemeral {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        if let Some(number) = self.created[lane].take() {
            self.delete.append(xid, number, 0, out);
            return Some(Ticket(u64::from(number) | DELETE));
        }
        let number = self.next;
        self.next = self.part.after(number);
        self.created[lane] = Some(number);
        self.create.append(xid, number, 0, out);
        Some(Ticket(u64::from(number)))
    }

    fn check_reply(&mut self, _lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        let (family, number) = (self.create.family(), ticket.0 as u32);
        if ticket.0 & DELETE == 0 {
            check_created(reply, family, number)?;
        } else {
            check_deleted(reply, family, number)?;
        }
        Ok(Outcome::Done)
    }
}
