//! `get`: getData of keys. The value must be valid, and no lane may see a znode go back to an older state.

use herdsman_proto::{JuteReader, ReadRequest, Request, Stat};

use crate::keys::KeyPicker;
use crate::load::{Checked, Load, Outcome, Reply, RequestTag, WrongReply};
use crate::names::Family;
use crate::seen_versions::{SeenVersions, check_stat};
use crate::template::Template;
use crate::values::check_value;

/// Reads values.
pub(crate) struct Get {
    template: Template,
    keys: KeyPicker,
    seen: SeenVersions,
    value_bytes: usize,
}

impl Get {
    pub(crate) fn new(family: &Family, keys: KeyPicker, lanes: usize, value_bytes: usize) -> Self {
        Get { template: get_template(family), keys, seen: SeenVersions::new(lanes), value_bytes }
    }
}

/// Returns the template of a getData without a watch.
pub(crate) fn get_template(family: &Family) -> Template {
    Template::new(family, 0, |path, _| {
        Request::Read(ReadRequest::GetData { path: path.into(), watch: false })
    })
}

/// Checks the reply to a getData.
pub(crate) fn check_get(
    reply: &Reply<'_>,
    key: u32,
    value_bytes: usize,
    seen: &mut SeenVersions,
    lane: usize,
) -> Checked<()> {
    reply.must_succeed()?;
    let mut reader = JuteReader::new(reply.body);
    let value = reader.buffer()?.ok_or_else(|| WrongReply::new("the value is null"))?;
    let stat = Stat::decode(&mut reader)?;
    check_value(key, value_bytes, value)?;
    check_stat(&stat, value_bytes)?;
    seen.read(lane, key, &stat)
}

impl Load for Get {
    fn next_request(&mut self, _lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let key = self.keys.next();
        self.template.append(xid, key, 0, out);
        Some(RequestTag(u64::from(key)))
    }

    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome> {
        let key = tag.0 as u32;
        check_get(reply, key, self.value_bytes, &mut self.seen, lane).map_err(|wrong| {
            wrong.during(format_args!("getData {}", self.template.family().leaf_path(key)))
        })?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Distribution;
    use crate::values::write_value;
    use herdsman_proto::{JuteWrite, Zxid};

    const BYTES: usize = 40;

    fn body(key: u32, stat: &Stat) -> Vec<u8> {
        let (mut body, mut value) = (Vec::new(), vec![0; BYTES]);
        write_value(key, 3, &mut value);
        body.put_buffer(Some(&value));
        stat.encode(&mut body);
        body
    }

    #[test]
    fn wrong_replies_are_detected() {
        let family = Family::new("/bench", "keys", 1);
        let keys = KeyPicker::new(10, Distribution::Uniform, 1);
        let mut get = Get::new(&family, keys, 1, BYTES);
        let data_length = BYTES as i32;
        let stat =
            Stat { czxid: Zxid(1), mzxid: Zxid(9), version: 2, data_length, ..Stat::default() };
        let older = Stat { mzxid: Zxid(8), version: 1, ..stat };
        let mut check = |error: i32, body: &[u8]| {
            get.check_reply(0, RequestTag(7), &Reply { error, body })
                .map_err(WrongReply::into_message)
        };
        assert_eq!(check(0, &body(7, &stat)), Ok(Outcome::Done));
        for (error, body, words) in [
            (0, body(8, &stat), "of another znode"),
            (0, body(7, &older), "went back"),
            (0, body(7, &stat)[..30].to_vec(), "cannot be decoded"),
            (0, body(7, &Stat { data_length: 1, ..stat }), "not plausible"),
            (-101, Vec::new(), "NoNode"),
            (-9999, Vec::new(), "error -9999"),
        ] {
            let found = check(error, &body).unwrap_err();
            assert!(found.contains(words), "{words}: {found}");
            assert!(found.starts_with("getData /bench/keys/0000/00000007"), "{found}");
        }
    }
}
