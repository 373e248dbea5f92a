//! Sequence numbers rise: of two sequential znodes of the same parent, the later one has the higher number,
//! also if the earlier one is gone. Source: "sequence nodes" (Apache's programmer's guide).

use std::collections::BTreeMap;

use herdsman_proto::{Reader, Zxid};

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, parent};
use crate::client::Op;

/// Numbers in the order of their txns, of each parent; one that was deleted and made anew is another one.
#[derive(Default)]
pub struct Sequences {
    numbers: BTreeMap<(String, Zxid), BTreeMap<Zxid, u64>>,
}

impl Checker for Sequences {
    fn name(&self) -> &'static str {
        "sequence numbers rise"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.code == 0 && !reply.read_only => {
                self.take(reply, chronicle)
            }
            _ => Ok(()),
        }
    }
}

impl Sequences {
    fn take(&mut self, reply: &Reply<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Op::Create(create) = reply.op else { return Ok(()) };
        if !create.is_sequential() {
            return Ok(());
        }
        let path = Reader::new(reply.body).required_string().unwrap_or_default();
        let number =
            path.strip_prefix(create.path.as_str()).and_then(|rest| rest.parse::<u64>().ok());
        let Some(number) = number else {
            return Err(format!("{} became {path:?}", create.path));
        };
        let parent = parent(&create.path);
        let Some(look) = chronicle.past(&parent).look_at(reply.zxid) else {
            return Err(format!("{path} was created at {} below nothing", reply.zxid));
        };
        let numbers = self.numbers.entry((parent, look.decoded().czxid)).or_default();
        let before = numbers.range(..reply.zxid).next_back();
        let after = numbers.range(reply.zxid..).next();
        let wrong = before.filter(|(_, before)| **before >= number);
        if let Some((zxid, other)) = wrong.or(after.filter(|(_, after)| **after <= number)) {
            return Err(format!("{path} was created at {}, number {other} at {zxid}", reply.zxid));
        }
        numbers.insert(reply.zxid, number);
        Ok(())
    }
}
