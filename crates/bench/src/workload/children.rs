//! `children`: getChildren2 of znodes that each have the same number of children. Every name must appear once, and
//! the stat must have the right number of children.

use herdsman_proto::{JuteReader, ReadRequest, Request, Stat};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::names::Family;
use crate::template::{append_frame, frame_of};
use crate::workload::create::{PERSISTENT, create_request};

/// The number of znodes to list: enough for some variety, and not too many to create.
pub(crate) fn listed_znodes(children: u32) -> u32 {
    const CHILDREN_IN_ALL: u32 = 100_000;
    (CHILDREN_IN_ALL / children.max(1)).clamp(1, 100)
}

/// Lists children.
pub(crate) struct Children {
    family: Family,
    /// An encoded request for each parent, without the xid.
    frames: Vec<Vec<u8>>,
    keys: KeyPicker,
    children: u32,
}

impl Children {
    pub(crate) fn new(family: &Family, keys: KeyPicker, children: u32) -> Self {
        let frames = (0..family.parents())
            .map(|parent| {
                let (path, watch) = (family.parent_path(parent).into(), false);
                let list = ReadRequest::GetChildren { path, watch, with_stat: true };
                frame_of(0, &Request::Read(list))
            })
            .collect();
        Children { family: family.clone(), frames, keys, children }
    }

    fn check(&self, reply: &Reply<'_>) -> Checked<()> {
        reply.must_succeed()?;
        let mut reader = JuteReader::new(reply.body);
        let count = reader.int()?;
        if u32::try_from(count) != Ok(self.children) {
            return Err(WrongReply::new(format!("{count} children instead of {}", self.children)));
        }
        let mut sum = 0;
        for _ in 0..count {
            sum += u64::from(child_number(reader.buffer()?.unwrap_or_default())?);
        }
        let stat = Stat::decode(&mut reader)?;
        let expected = u64::from(self.children) * u64::from(self.children.saturating_sub(1)) / 2;
        if sum != expected || stat.num_children != count {
            return Err(WrongReply::new(format!(
                "names are repeated or missing, or the stat is wrong: {stat:?}"
            )));
        }
        Ok(())
    }
}

fn child_name(number: u32) -> String {
    format!("{number:08x}")
}

fn child_number(name: &[u8]) -> Checked<u32> {
    std::str::from_utf8(name)
        .ok()
        .filter(|name| name.len() == 8)
        .and_then(|name| u32::from_str_radix(name, 16).ok())
        .ok_or_else(|| {
            WrongReply::new(format!("unexpected child {}", String::from_utf8_lossy(name)))
        })
}

impl Load for Children {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let parent = self.keys.next() as usize % self.frames.len();
        let start = out.len();
        out.extend_from_slice(&self.frames[parent]);
        out[start + 4..start + 8].copy_from_slice(&xid.to_be_bytes());
        Some(RequestTag(parent as u64))
    }

    fn check_reply(
        &mut self,
        _lane: usize,
        tag: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        self.check(reply).map_err(|wrong| {
            wrong.during(format_args!("getChildren2 {}", self.family.parent_path(tag.0 as u32)))
        })?;
        Ok(Outcome::Done)
    }
}

/// Creates the children that are listed.
pub(crate) struct CreateChildren {
    family: Family,
    children: u32,
    next: u64,
}

impl CreateChildren {
    pub(crate) fn new(family: &Family, children: u32) -> Self {
        CreateChildren { family: family.clone(), children, next: 0 }
    }
}

impl Load for CreateChildren {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let (parents, number) = (u64::from(self.family.parents()), self.next);
        if number >= parents * u64::from(self.children) {
            return None;
        }
        self.next += 1;
        let parent = self.family.parent_path((number % parents) as u32);
        let path = format!("{parent}/{}", child_name((number / parents) as u32));
        append_frame(xid, &create_request(&path, &[], PERSISTENT), out);
        Some(RequestTag(number))
    }

    fn check_reply(&mut self, _lane: usize, _: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        reply.must_succeed().map_err(|wrong| wrong.during("creating children"))?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Distribution;
    use herdsman_proto::JuteWrite;

    #[test]
    fn repeated_missing_and_unexpected_names_are_detected() {
        let family = Family::new("/bench", "children", 1);
        let keys = KeyPicker::new(1, Distribution::Uniform, 1);
        let mut children = Children::new(&family, keys, 3);
        let mut check = |names: &[&str], num_children: i32| {
            let mut body = Vec::new();
            body.put_vector(names, |out, name| out.put_string(name));
            Stat { num_children, ..Stat::default() }.encode(&mut body);
            let reply = Reply { error: 0, body: &body };
            children.check_reply(0, RequestTag(0), &reply).is_ok()
        };
        let all = ["00000001", "00000000", "00000002"];
        assert!(check(&all, 3));
        assert!(!check(&all, 2));
        assert!(!check(&all[..2], 3));
        assert!(!check(&["00000000", "00000000", "00000002"], 3));
        assert!(!check(&["00000000", "00000001", "c"], 3));
    }
}
