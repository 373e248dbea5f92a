//! `mixed`: getData and setData of the same keys, in a given ratio. A lane must see its own writes.

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::names::Family;
use crate::seen_versions::SeenVersions;
use crate::template::Template;
use crate::workload::get::{check_get, get_template};
use crate::workload::set::{check_set, set_template};

/// Marks a write in a tag, above the key's number.
const WRITE: u64 = 1 << 32;

/// Reads and replaces values.
pub(crate) struct Mixed {
    get: Template,
    set: Template,
    keys: KeyPicker,
    read_percent: u8,
    seen: SeenVersions,
    value_bytes: usize,
    count: u64,
}

impl Mixed {
    pub(crate) fn new(
        family: &Family,
        keys: KeyPicker,
        read_percent: u8,
        lanes: usize,
        value_bytes: usize,
    ) -> Self {
        Mixed {
            get: get_template(family),
            set: set_template(family, value_bytes),
            keys,
            read_percent,
            seen: SeenVersions::new(lanes),
            value_bytes,
            count: 0,
        }
    }
}

impl Load for Mixed {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let key = self.keys.next();
        if self.keys.in_percent(self.read_percent) {
            self.get.append(xid, key, 0, out);
            return Some(RequestTag(u64::from(key)));
        }
        self.count += 1;
        self.set.append(xid, key, self.count, out);
        Some(RequestTag(u64::from(key) | WRITE))
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let (key, value_bytes, seen) = (tag.0 as u32, self.value_bytes, &mut self.seen);
        let (op, result) = if tag.0 & WRITE == 0 {
            ("getData", check_get(reply, key, value_bytes, seen, lane))
        } else {
            let result = reply.must_succeed();
            ("setData", result.and_then(|()| check_set(reply.body, key, value_bytes, seen, lane)))
        };
        result.map_err(|wrong| {
            wrong.during(format_args!("{op} {}", self.get.family().leaf_path(key)))
        })?;
        Ok(Outcome::Done)
    }
}
