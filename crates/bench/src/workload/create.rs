//! `create`: numbered leaves of a family, one after another. The same load creates the keys.

use herdsman_proto::request::CreateRequest;
use herdsman_proto::{Acl, JuteReader, OpCode, Perms, Request, WriteRequest};

use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::names::Family;
use crate::template::Template;
use crate::threads::ThreadShare;

/// Creates the leaves of one thread's share, up to an end.
pub(crate) struct Create {
    template: Template,
    share: ThreadShare,
    next: u32,
    end: u32,
}

/// The flags of a create request.
pub(crate) const PERSISTENT: i32 = 0;
pub(crate) const EPHEMERAL: i32 = 1;
pub(crate) const EPHEMERAL_SEQUENTIAL: i32 = 3;

impl Create {
    /// Creates this thread's share of the leaves below `end`.
    pub(crate) fn new(family: &Family, value_bytes: usize, share: ThreadShare, end: u32) -> Self {
        let template = create_template(family, value_bytes, PERSISTENT);
        Create { template, share, next: share.first(), end }
    }

    /// Returns the first leaf that was not requested.
    pub(crate) fn next_number(&self) -> u32 {
        self.next
    }
}

/// Returns the request to create a znode with an open ACL.
pub(crate) fn create_request<'a>(path: &'a str, value: &'a [u8], flags: i32) -> Request<'a> {
    Request::Write(WriteRequest::Create(CreateRequest {
        op: OpCode::Create,
        path: path.into(),
        data: Some(value),
        acl: vec![Acl::world(Perms::ALL)],
        flags,
        ttl_ms: None,
    }))
}

/// Returns the template to create a leaf.
pub(crate) fn create_template(family: &Family, value_bytes: usize, flags: i32) -> Template {
    Template::new(family, value_bytes, |path, value| create_request(path, value, flags))
}

/// Checks that the reply to a create contains the path.
pub(crate) fn check_created(reply: &Reply<'_>, family: &Family, number: u32) -> Checked<()> {
    check_path(reply, family, number)
        .map_err(|wrong| wrong.during(format_args!("create {}", family.leaf_path(number))))
}

fn check_path(reply: &Reply<'_>, family: &Family, number: u32) -> Checked<()> {
    reply.must_succeed()?;
    let path = JuteReader::new(reply.body).buffer()?.unwrap_or_default();
    if family.is_leaf_path(number, path) {
        return Ok(());
    }
    Err(WrongReply::new(format!("the reply has the path {}", String::from_utf8_lossy(path))))
}

impl Load for Create {
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
        check_created(reply, self.template.family(), tag.0 as u32)?;
        Ok(Outcome::Done)
    }

    fn is_exhausted(&self) -> bool {
        self.next >= self.end
    }
}
