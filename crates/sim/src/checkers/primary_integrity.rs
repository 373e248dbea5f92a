//! Primary integrity: before a leader proposes anything, it has everything that was delivered in earlier
//! epochs. Source: `PrimaryIntegrity` in the Zab TLA+ spec.

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Looks at a leader's log when its epoch begins.
pub struct PrimaryIntegrity;

impl Checker for PrimaryIntegrity {
    fn name(&self) -> &'static str {
        "primary integrity"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Fact::Established { place, epoch, log } = fact else {
            return Ok(());
        };
        for (zxid, known) in chronicle.after(log.base()) {
            if zxid.epoch() < *epoch && log.hash_of(*zxid) != Some(known.hash) {
                return Err(format!(
                    "server {place} leads epoch {epoch} without {zxid}, its log ends with {}",
                    log.last()
                ));
            }
        }
        Ok(())
    }
}
