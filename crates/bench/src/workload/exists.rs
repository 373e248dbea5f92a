//! `exists`: the stat of keys, which all exist.

use herdsman_proto::{JuteReader, ReadRequest, Request, Stat};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::names::Family;
use crate::seen_versions::{SeenVersions, check_stat};
use crate::template::Template;

/// Reads stats.
pub(crate) struct Exists {
    template: Template,
    keys: KeyPicker,
    seen: SeenVersions,
    value_bytes: usize,
}

impl Exists {
    pub(crate) fn new(family: &Family, keys: KeyPicker, lanes: usize, value_bytes: usize) -> Self {
        let template = Template::new(family, 0, |path, _| {
            Request::Read(ReadRequest::Exists { path: path.into(), watch: false })
        });
        Exists { template, keys, seen: SeenVersions::new(lanes), value_bytes }
    }

    fn check(&mut self, lane: usize, key: u32, reply: &Reply<'_>) -> Checked<()> {
        reply.must_succeed()?;
        let stat = Stat::decode(&mut JuteReader::new(reply.body))?;
        check_stat(&stat, self.value_bytes)?;
        self.seen.read(lane, key, &stat)
    }
}

impl Load for Exists {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let key = self.keys.next();
        self.template.append(xid, key, 0, out);
        Some(RequestTag(u64::from(key)))
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let key = tag.0 as u32;
        self.check(lane, key, reply).map_err(|wrong| {
            wrong.during(format_args!("exists {}", self.template.family().leaf_path(key)))
        })?;
        Ok(Outcome::Done)
    }
}
