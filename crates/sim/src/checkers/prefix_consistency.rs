//! Prefix consistency: of what two servers have delivered, one is the beginning of the other: nobody
//! skips a txn, and nobody delivers one that others have gone past. Source: `PrefixConsistency` in the
//! Zab TLA+ spec.

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Compares every delivery with what all have delivered so far.
pub struct PrefixConsistency;

impl Checker for PrefixConsistency {
    fn name(&self) -> &'static str {
        "prefix consistency"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        let Fact::Delivered { place, previous, zxid, .. } = fact else {
            return Ok(());
        };
        match chronicle.next_after(*previous) {
            Some(next) if next < *zxid => {
                Err(format!("server {place} delivered {zxid} after {previous} and skipped {next}"))
            }
            Some(next) if next > *zxid => Err(format!(
                "server {place} delivered {zxid} after {previous}, but others delivered {next} there"
            )),
            _ => Ok(()),
        }
    }
}
