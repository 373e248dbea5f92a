//! Forward only: a server never shows clients an older tree than it has shown before, whatever happened in
//! between: what it has shown is committed, and a server serves only when it has caught up with its leader.
//! Source: `TotalOrder` in the Zab TLA+ spec, over all lives of a server. Only a server that has lost its
//! disk begins anew.

use std::collections::BTreeMap;

use herdsman_proto::Zxid;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;
use crate::world::ServerIndex;

/// What each server has shown.
#[derive(Default)]
pub struct ForwardOnly {
    shown: BTreeMap<ServerIndex, Zxid>,
}

impl Checker for ForwardOnly {
    fn name(&self) -> &'static str {
        "forward only"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Shown { place, tree } => {
                let zxid = tree.last_zxid();
                match self.shown.insert(*place, zxid) {
                    Some(before) if before > zxid => {
                        Err(format!("server {place} serves {zxid} and has served {before}"))
                    }
                    _ => Ok(()),
                }
            }
            Fact::LostDisk { place } => {
                self.shown.remove(place);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
