//! Agreement: servers deliver the same txn under the same zxid, and it is the one that was proposed. Source:
//! `Agreement` in the Zab TLA+ spec, together with [`super::prefix_consistency`].

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Fingerprints of what was proposed, or else of what was delivered first.
#[derive(Default)]
pub struct Agreement {
    known: BTreeMap<Zxid, u64>,
}

impl Checker for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Proposed { zxid, hash, .. } => {
                self.known.entry(*zxid).or_insert(*hash);
                Ok(())
            }
            Fact::Delivered { place, zxid, hash, .. } => {
                if self.known.entry(*zxid).or_insert(*hash) == hash {
                    return Ok(());
                }
                Err(format!("server {place} delivered another txn {zxid} than was proposed"))
            }
            _ => Ok(()),
        }
    }
}
