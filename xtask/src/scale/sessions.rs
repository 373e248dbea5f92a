//! Sessions with a connection each: memory, the time to open them, and the cost of their pings.

use std::time::Duration;

use anyhow::Result;

use super::crowd::Crowd;
use super::lab::{Lab, Meter, STAYING_MS, settled_bytes};
use crate::bench::lab::target_name;
use crate::bench::raw::Measured;
use crate::server::Program;

/// How long the idle server is measured.
const IDLE: Duration = Duration::from_secs(3);

/// All sizes, for one program.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.connectable(lab.sizes.sessions, 0) {
        one(lab, program, size, measured)?;
    }
    Ok(())
}

fn one(lab: &Lab, program: Program, size: usize, measured: &mut Measured) -> Result<()> {
    let target = target_name(program);
    let server = lab.start(program, "sessions")?;
    let mut crowd = Crowd::new(&server.address)?;
    let before = settled_bytes(&server)?;
    let meter = Meter::start(&server)?;
    crowd.open(size, || STAYING_MS)?;
    let open = meter.read()?;
    let bytes_each = (settled_bytes(&server)? - before) / size as f64;
    let meter = Meter::start(&server)?;
    std::thread::sleep(IDLE);
    let idle = meter.read()?;
    let meter = Meter::start(&server)?;
    crowd.ping(lab.sizes.ping_every)?;
    let ping = meter.read()?.without(&idle);
    println!(
        "{target}: {size} sessions: open {:.1} µs, of it CPU {:.1} µs; {bytes_each:.0} bytes; ping CPU {:.2} µs",
        open.wall_us_each(size),
        open.cpu_us_each(size),
        ping.cpu_us_each(size)
    );
    measured.plot("time_to_open_us", target, size, open.wall_us_each(size));
    measured.plot("cpu_to_open_us", target, size, open.cpu_us_each(size));
    measured.plot("bytes_per_session", target, size, bytes_each);
    measured.plot("cpu_per_ping_us", target, size, ping.cpu_us_each(size));
    server.kill()
}
