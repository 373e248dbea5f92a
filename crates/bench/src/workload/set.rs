//! `set`: setData of keys, with any version. A lane's writes must be applied in order.

use herdsman_proto::{JuteReader, Request, Stat, WriteRequest};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::names::Family;
use crate::seen_versions::{SeenVersions, check_stat};
use crate::template::Template;

/// Replaces values.
pub(crate) struct Set {
    template: Template,
    keys: KeyPicker,
    seen: SeenVersions,
    value_bytes: usize,
    count: u64,
}

impl Set {
    pub(crate) fn new(family: &Family, keys: KeyPicker, lanes: usize, value_bytes: usize) -> Self {
        let template = set_template(family, value_bytes);
        Set { template, keys, seen: SeenVersions::new(lanes), value_bytes, count: 0 }
    }
}

/// Returns the template of a setData with any version.
pub(crate) fn set_template(family: &Family, value_bytes: usize) -> Template {
    Template::new(family, value_bytes, |path, value| {
        let (path, data) = (path.into(), Some(value));
        Request::Write(WriteRequest::SetData { path, data, version: -1 })
    })
}

/// Checks the stat in the reply to a setData.
pub(crate) fn check_set(
    body: &[u8],
    key: u32,
    value_bytes: usize,
    seen: &mut SeenVersions,
    lane: usize,
) -> Checked<()> {
    let stat = Stat::decode(&mut JuteReader::new(body))?;
    check_stat(&stat, value_bytes)?;
    seen.wrote(lane, key, &stat)
}

impl Load for Set {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let key = self.keys.next();
        self.count += 1;
        self.template.append(xid, key, self.count, out);
        Some(RequestTag(u64::from(key)))
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let key = tag.0 as u32;
        reply
            .must_succeed()
            .and_then(|()| check_set(reply.body, key, self.value_bytes, &mut self.seen, lane))
            .map_err(|wrong| {
                wrong.during(format_args!("setData {}", self.template.family().leaf_path(key)))
            })?;
        Ok(Outcome::Done)
    }
}
