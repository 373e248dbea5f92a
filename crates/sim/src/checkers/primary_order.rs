//! Primary order: the txns of one leader are delivered in the order in which it proposed them, from its
//! first one on. Source: `LocalPrimaryOrder` in the Zab TLA+ spec.

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// For every proposal the one before it of the same leader.
#[derive(Default)]
pub struct PrimaryOrder {
    last_of_epoch: BTreeMap<u32, Zxid>,
    before: BTreeMap<Zxid, Option<Zxid>>,
}

impl Checker for PrimaryOrder {
    fn name(&self) -> &'static str {
        "primary order"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Proposed { zxid, .. } => {
                let before = self.last_of_epoch.insert(zxid.epoch(), *zxid);
                self.before.insert(*zxid, before);
                Ok(())
            }
            Fact::Delivered { place, previous, zxid, .. } => {
                let proposed = self.before.get(zxid).copied().flatten();
                let delivered = Some(*previous).filter(|previous| previous.epoch() == zxid.epoch());
                // The start of an epoch is no txn.
                let delivered = delivered.filter(|previous| previous.counter() > 0);
                if proposed == delivered {
                    return Ok(());
                }
                Err(format!(
                    "server {place} delivered {zxid} after {previous}, its leader proposed it after {proposed:?}"
                ))
            }
            _ => Ok(()),
        }
    }
}
