//! `delete`: leaves that were created before, in the order in which they were. When there are no more, the
//! measurement ends before its time.

use herdsman_proto::{Request, WriteRequest};

use crate::load::{Checked, Load, Outcome, Reply, Ticket, Wrong};
use crate::names::Family;
use crate::parts::Part;
use crate::template::Template;

/// Deletes this thread's share of the leaves below `end`.
pub(crate) struct Delete {
    template: Template,
    part: Part,
    next: u32,
    end: u32,
}

impl Delete {
    pub(crate) fn new(family: &Family, part: Part, end: u32) -> Self {
        Delete { template: delete_template(family), part, next: part.first(), end }
    }
}

/// The delete of a leaf, whatever its version.
pub(crate) fn delete_template(family: &Family) -> Template {
    Template::new(family, 0, |path, _| delete_request(path))
}

/// A delete of any version.
pub(crate) fn delete_request(path: &str) -> Request<'_> {
    Request::Write(WriteRequest::Delete { path: path.into(), version: -1 })
}

/// A delete is answered with nothing.
pub(crate) fn check_deleted(reply: &Reply<'_>, family: &Family, number: u32) -> Checked<()> {
    reply
        .must_succeed()
        .and_then(|()| match reply.body {
            [] => Ok(()),
            body => Err(Wrong::new(format!("answered with {} bytes", body.len()))),
        })
        .map_err(|wrong| wrong.during(format_args!("delete {}", family.leaf_path(number))))
}

impl Load for Delete {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        if self.next >= self.end {
            return None;
        }
        let number = self.next;
        self.next = self.part.after(number);
        self.template.append(xid, number, 0, out);
        Some(Ticket(u64::from(number)))
    }

    fn check_reply(&mut self, _lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        check_deleted(reply, self.template.family(), ticket.0 as u32)?;
        Ok(Outcome::Done)
    }

    fn is_dry(&self) -> bool {
        self.next >= self.end
    }
}
