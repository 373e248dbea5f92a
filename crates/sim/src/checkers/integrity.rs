//! Integrity: what is delivered was proposed, by the one leader of its epoch, and each zxid only once.
//! Source: `Integrity` in the Zab TLA+ spec.

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// What was proposed.
#[derive(Default)]
pub struct Integrity {
    proposed: BTreeMap<Zxid, u64>,
}

impl Checker for Integrity {
    fn name(&self) -> &'static str {
        "integrity"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Proposed { place, zxid, hash } => match self.proposed.insert(*zxid, *hash) {
                Some(_) => Err(format!("server {place} proposed {zxid}, which had been proposed")),
                None => Ok(()),
            },
            Fact::Delivered { place, zxid, hash, .. } if self.proposed.get(zxid) != Some(hash) => {
                Err(format!("server {place} delivered {zxid}, which no leader proposed so"))
            }
            _ => Ok(()),
        }
    }
}
