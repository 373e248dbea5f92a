//! Integrity: what is delivered was proposed, by the one leader of its epoch, and each zxid only once. That it is
//! delivered as it was proposed is [`super::agreement`]. Source: `Integrity` in the Zab TLA+ spec.

use std::collections::BTreeSet;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// What was proposed.
#[derive(Default)]
pub struct Integrity {
    proposed: BTreeSet<Zxid>,
}

impl Checker for Integrity {
    fn name(&self) -> &'static str {
        "integrity"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Proposed { place, zxid, .. } if !self.proposed.insert(*zxid) => {
                Err(format!("server {place} proposed {zxid}, which had been proposed"))
            }
            Fact::Delivered { place, zxid, .. } if !self.proposed.contains(zxid) => {
                Err(format!("server {place} delivered {zxid}, which no leader proposed"))
            }
            _ => Ok(()),
        }
    }
}
