//! Agreement: servers deliver the same txn under the same zxid. Source: `Agreement` in the Zab TLA+ spec,
//! together with [`super::prefix_consistency`].

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Compares every delivery with the first one.
pub struct Agreement;

impl Checker for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    fn see(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        if let Fact::Delivered { place, zxid, hash, .. } = fact
            && let Some(known) = chronicle.get(*zxid)
            && known.hash != *hash
        {
            return Err(format!("server {place} delivered another txn {zxid} than the others"));
        }
        Ok(())
    }
}
