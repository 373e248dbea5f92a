//! Trees of millions of znodes: memory, a snapshot and its effect on other clients, and a restart after
//! `kill -9`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::busy::Busy;
use super::lab::{Lab, Meter, settled_bytes};
use crate::bench::generator;
use crate::bench::lab::{target, target_name};
use crate::bench::million::restart_once;
use crate::bench::raw::Measured;
use crate::ports::free_ports;
use crate::server::{Program, SUPER_AUTH, SUPER_DIGEST, Spec};

const ROOT: &str = "/filled";
const SNAPSHOT_MAX: Duration = Duration::from_secs(900);

/// All sizes, for one program.
pub fn measure(lab: &Lab, program: Program, measured: &mut Measured) -> Result<()> {
    for size in lab.wanted(lab.sizes.znodes) {
        one(lab, program, size, measured)?;
    }
    Ok(())
}

fn one(lab: &Lab, program: Program, size: usize, measured: &mut Measured) -> Result<()> {
    lab.ensure_room(size)?;
    let label = target_name(program);
    let (spec, admin) = with_admin(lab.spec(program, "znodes")?)?;
    let server = spec.start()?;
    let before = server.resident_bytes()? as f64;
    let begun = Instant::now();
    generator::fill(&target(program, &server), ROOT, size)?;
    let fill_us = begun.elapsed().as_secs_f64() * 1e6 / size as f64;
    let bytes_each = (settled_bytes(&server)? - before) / size as f64;

    let busy = Busy::start(std::slice::from_ref(&server.address), lab.sizes.writers)?;
    let (begun, meter) = (Instant::now(), Meter::start(&server)?);
    std::thread::sleep(lab.sizes.quiet);
    let usual = meter.read()?;
    let (taking, meter) = (Instant::now(), Meter::start(&server)?);
    take_snapshot(&admin)?;
    let snapshot = meter.read()?.without(&usual);
    let ended = Instant::now();
    let record = busy.finish()?;
    record.ensure_whole()?;
    let (quiet, during) = (record.between(begun, taking), record.between(taking, ended));
    println!(
        "{label}: {size} znodes: {bytes_each:.0} bytes, created in {fill_us:.2} µs each; snapshot in {:.1} s, {:.2} µs of CPU each; p99 of the \
         others' writes {:.1} ms before, {:.1} ms during, at most {:.1} ms",
        snapshot.wall_s,
        snapshot.cpu_us_each(size),
        quiet.p99_ms,
        during.p99_ms,
        during.longest_ms
    );
    server.kill()?;
    let restart_s = restart_once(&spec, ROOT)?.as_secs_f64();
    println!("{label}: {size} znodes: restart in {restart_s:.1} s");
    measured.plot("bytes_per_znode", label, size, bytes_each);
    measured.plot("time_to_make_us", label, size, fill_us);
    measured.plot("snapshot_s", label, size, snapshot.wall_s);
    measured.plot("snapshot_cpu_per_znode_us", label, size, snapshot.cpu_us_each(size));
    measured.plot("restart_per_znode_us", label, size, restart_s * 1e6 / size as f64);
    measured.plot("restart_s", label, size, restart_s);
    measured.plot("others_p99_before_ms", label, size, quiet.p99_ms);
    measured.plot("others_p99_during_ms", label, size, during.p99_ms);
    measured.plot("others_longest_during_ms", label, size, during.longest_ms);
    Ok(())
}

/// The same server with an admin port; returns the URL of that port.
fn with_admin(mut spec: Spec) -> Result<(Spec, String)> {
    let port = free_ports(1)?;
    spec.settings.push("admin.enableServer=true".into());
    spec.settings.push(format!("admin.serverPort={port}"));
    spec.settings.push("admin.serverAddress=127.0.0.1".into());
    Ok((spec.property(SUPER_DIGEST.0, SUPER_DIGEST.1), format!("http://127.0.0.1:{port}")))
}

/// Requests a snapshot and waits for it.
fn take_snapshot(admin: &str) -> Result<()> {
    let config = ureq::Agent::config_builder().timeout_global(Some(SNAPSHOT_MAX)).build();
    let request = ureq::Agent::new_with_config(config)
        .get(format!("{admin}/commands/snapshot?streaming=false"))
        .header("Authorization", format!("digest {SUPER_AUTH}"));
    let status = request.call().context("requesting a snapshot")?.status();
    ensure!(status == 200, "requesting a snapshot: {status}");
    Ok(())
}
