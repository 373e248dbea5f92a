//! `multi`: a check and a setData of the same key in one txn.

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{JuteReader, OpCode, Request, WriteRequest};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply, error_name};
use crate::names::Family;
use crate::seen_versions::SeenVersions;
use crate::template::Template;
use crate::workload::set::check_set;

/// Checks and replaces values.
pub(crate) struct Multi {
    template: Template,
    keys: KeyPicker,
    seen: SeenVersions,
    value_bytes: usize,
    count: u64,
}

impl Multi {
    pub(crate) fn new(family: &Family, keys: KeyPicker, lanes: usize, value_bytes: usize) -> Self {
        let template = Template::new(family, value_bytes, |path, value| {
            let check = WriteRequest::Check { path: path.into(), version: -1 };
            let (path, data) = (path.into(), Some(value));
            let set = WriteRequest::SetData { path, data, version: -1 };
            Request::Write(WriteRequest::Multi(vec![check, set]))
        });
        Multi { template, keys, seen: SeenVersions::new(lanes), value_bytes, count: 0 }
    }

    fn check(&mut self, lane: usize, key: u32, reply: &Reply<'_>) -> Checked<()> {
        reply.must_succeed()?;
        let mut reader = JuteReader::new(reply.body);
        expect_result(&mut reader, OpCode::Check)?;
        expect_result(&mut reader, OpCode::SetData)?;
        check_set(reader.rest(), key, self.value_bytes, &mut self.seen, lane)
    }
}

/// Reads and checks the header of a successful result.
fn expect_result(reader: &mut JuteReader<'_>, op: OpCode) -> Checked<()> {
    let header = MultiHeader::decode(reader)?;
    if header == MultiHeader::result(op) {
        return Ok(());
    }
    let error = error_name(header.error);
    Err(WrongReply::new(format!("the reply to {} has op {} and {error}", op.name(), header.op)))
}

impl Load for Multi {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let key = self.keys.next();
        self.count += 1;
        self.template.append(xid, key, self.count, out);
        Some(RequestTag(u64::from(key)))
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let key = tag.0 as u32;
        self.check(lane, key, reply).map_err(|wrong| {
            wrong.during(format_args!("multi {}", self.template.family().leaf_path(key)))
        })?;
        Ok(Outcome::Done)
    }
}
