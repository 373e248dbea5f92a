//! Total order: every server delivers in zxid order. Source: `TotalOrder` in the Zab TLA+ spec; the
//! `GlobalPrimaryOrder` there (txns of an earlier epoch come first) is part of it, because a zxid begins
//! with its epoch.

use super::{Checker, Fact};
use crate::chronicle::Chronicle;

/// Compares every delivery with the one before.
pub struct TotalOrder;

impl Checker for TotalOrder {
    fn name(&self) -> &'static str {
        "total order"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Delivered { place, previous, zxid, .. } if zxid <= previous => {
                Err(format!("server {place} delivered {zxid} after {previous}"))
            }
            _ => Ok(()),
        }
    }
}
