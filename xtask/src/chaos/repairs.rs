//! What became of damaged files: how many servers found damage and healed, according to their logs.

use std::fmt;

use anyhow::{Result, ensure};

use super::fault::Fault;
use crate::damage::repair_log;
use crate::ensemble::Ensemble;
use crate::server::Program;

/// Counts of one ensemble.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repairs {
    /// Faults that took data.
    injected: usize,
    /// Those that damaged a record behind the newest snapshot, so that the next start must find it.
    to_be_found: usize,
    /// Starts that found damage that only other servers can repair.
    found: usize,
    /// Records that were put into logs.
    records: usize,
    /// Servers that took everything from a leader.
    joined: usize,
    /// Starts from an older snapshot, because the newest one was damaged.
    older_snapshots: usize,
}

impl Repairs {
    /// Counts a fault.
    pub fn note(&mut self, fault: Fault, damages_log: bool) {
        self.injected += usize::from(fault.takes_data());
        self.to_be_found += usize::from(damages_log);
    }

    /// Reads what our servers have logged.
    pub fn read(&mut self, ensemble: &Ensemble) -> Result<()> {
        for member in ensemble.ids().map(|id| ensemble.member(id)) {
            if member.program() == Program::Herdsman {
                let log = member.log()?;
                self.found += repair_log::damages_found(&log);
                self.records += repair_log::records_spliced(&log);
                self.joined += repair_log::joins(&log);
                self.older_snapshots += repair_log::older_snapshots_used(&log);
            }
        }
        Ok(())
    }

    /// Fails if less than half of what should have been found was found. Not all of it: a record that was never
    /// acknowledged is cut off as a torn write.
    pub fn ensure_found(&self) -> Result<()> {
        let Repairs { to_be_found, found, .. } = *self;
        ensure!(
            2 * found >= to_be_found,
            "logs were damaged {to_be_found} times, and servers found only {found} of that"
        );
        Ok(())
    }
}

impl fmt::Display for Repairs {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Repairs { injected, to_be_found, found, records, joined, older_snapshots } = self;
        write!(
            f,
            "data was damaged or removed {injected} times, {to_be_found} times a log behind its snapshots; servers \
             found damage at {found} starts, got {records} records from each other and {joined} trees from a leader, \
             and used {older_snapshots} older snapshots"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_is_never_found_fails() {
        let mut repairs = Repairs::default();
        repairs.note(Fault::KillOne, false);
        repairs.note(Fault::DropData, false);
        assert_eq!((repairs.injected, repairs.to_be_found), (1, 0));
        repairs.ensure_found().unwrap();
        repairs.note(Fault::DamageLog, true);
        assert!(repairs.ensure_found().is_err());
        repairs.found = 1;
        repairs.ensure_found().unwrap();
    }
}
