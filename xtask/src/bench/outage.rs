//! The write outage when a leader is killed, as `cargo xtask failover` measures it, for both programs.

use anyhow::Result;

use super::lab::{Lab, PROGRAMS, ensemble_settings, target_name};
use super::raw::Measured;
use crate::failover;

/// Kills leaders.
pub fn measure(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    for program in PROGRAMS {
        let dir = lab.fresh("failover")?;
        println!("{}:", program.name());
        let outages = failover::measure(program, lab.scale.failovers, &ensemble_settings(), &dir)?;
        for outage in outages {
            let name = target_name(program);
            measured.note("first_write_ms", name, outage.first.as_secs_f64() * 1000.0);
            measured.note("all_survivors_ms", name, outage.both.as_secs_f64() * 1000.0);
        }
    }
    Ok(measured)
}
