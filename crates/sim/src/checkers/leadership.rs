//! Leadership: no two servers lead in the same epoch. Source: `Leadership1` in the Zab TLA+ spec.

use std::collections::BTreeMap;

use super::{Checker, Fact};
use crate::chronicle::Chronicle;
use crate::world::ServerIndex;

/// Who led when.
#[derive(Default)]
pub struct Leadership {
    by_epoch: BTreeMap<u32, ServerIndex>,
}

impl Checker for Leadership {
    fn name(&self) -> &'static str {
        "leadership"
    }

    fn observe(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        if let Fact::Established { place, epoch, .. } = fact
            && let Some(other) = self.by_epoch.insert(*epoch, *place)
        {
            return Err(format!("servers {other} and {place} both led in epoch {epoch}"));
        }
        Ok(())
    }
}
