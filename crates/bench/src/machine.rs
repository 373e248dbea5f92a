//! Describes the machine, as far as it explains the results.

use std::fs;
use std::thread;

use crate::report::Machine;

/// Describes this machine.
#[must_use]
pub fn this_machine() -> Machine {
    Machine {
        cores: thread::available_parallelism().map_or(1, usize::from),
        processor: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        system: system().unwrap_or_else(|| std::env::consts::OS.to_owned()),
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn system() -> Option<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    Some(format!("{} {}", read("ostype")?.trim(), read("osrelease")?.trim()))
}
