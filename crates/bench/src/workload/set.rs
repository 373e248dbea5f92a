//! `set`: setData of keys, whatever their version. A lane's own writes must be done in its own order.

use herdsman_proto::{JuteReader, Request, Stat, WriteRequest};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, Ticket};
use crate::names::Family;
use crate::sight::{Sight, check_stat};
use crate::template::Template;

/// Replaces values.
pub(crate) struct Set {
    template: Template,
    keys: KeyPicker,
    sight: Sight,
    value_bytes: usize,
    count: u64,
}

impl Set {
    pub(crate) fn new(family: &Family, keys: KeyPicker, lanes: usize, value_bytes: usize) -> Self {
        let template = set_template(family, value_bytes);
        Set { template, keys, sight: Sight::new(lanes), value_bytes, count: 0 }
    }
}

/// A setData of any version.
pub(crate) fn set_template(family: &Family, value_bytes: usize) -> Template {
    Template::new(family, value_bytes, |path, value| {
        let (path, data) = (path.into(), Some(value));
        Request::Write(WriteRequest::SetData { path, data, version: -1 })
    })
}

/// Judges the stat that a setData is answered with.
pub(crate) fn check_set(
    body: &[u8],
    key: u32,
    value_bytes: usize,
    sight: &mut Sight,
    lane: usize,
) -> Checked<()> {
    let stat = Stat::decode(&mut JuteReader::new(body))?;
    check_stat(&stat, value_bytes)?;
    sight.wrote(lane, key, &stat)
}

impl Load for Set {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket> {
        let key = self.keys.next();
        self.count += 1;
        self.template.append(xid, key, self.count, out);
        Some(Ticket(u64::from(key)))
    }

    fn check_reply(&mut self, lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome> {
        let key = ticket.0 as u32;
        reply
            .must_succeed()
            .and_then(|()| check_set(reply.body, key, self.value_bytes, &mut self.sight, lane))
            .map_err(|wrong| {
                wrong.during(format_args!("setData {}", self.template.family().leaf_path(key)))
            })?;
        Ok(Outcome::Done)
    }
}
