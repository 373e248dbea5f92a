//! The properties of the machine that explain the numbers: cores, processor, memory, kernel, disk, Java. Not
//! its name or owner.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::run;

/// The properties of the machine that affect a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that a process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// Kernel and release.
    pub system: String,
    /// The type of the disk and file system of the data directories.
    pub disk: String,
    /// The Java that runs Apache's server.
    pub java: String,
}

impl Machine {
    /// Collects the properties; `data` is a directory on the disk that the servers will use.
    pub fn look(data: &Path) -> Result<Machine> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Ok(Machine {
            cores: std::thread::available_parallelism()?.get(),
            processor: value_of(&cpuinfo, "model name").unwrap_or("unknown").into(),
            memory_gib: value_of(&meminfo, "MemTotal").map_or(0, gib_of),
            system: format!("Linux {}", numeric_part(release.trim())),
            disk: disk_of(&mounts, &data.canonicalize()?),
            java: java(),
        })
    }
}

/// Returns the value of the first line `key : value`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(own, _)| own.trim() == key);
    values.next().map(|(_, value)| value.trim())
}

/// `MemTotal`'s value, rounded to the next GiB: the kernel keeps a part for itself.
fn gib_of(value: &str) -> u64 {
    let kib = value.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0).div_ceil(1 << 20)
}

/// Strips the builder's suffix from a release.
fn numeric_part(release: &str) -> &str {
    let end = release.find(|c: char| c != '.' && !c.is_ascii_digit());
    release[..end.unwrap_or(release.len())].trim_end_matches('.')
}

/// Returns the file system and disk of the mount that contains a path.
fn disk_of(mountinfo: &str, path: &Path) -> String {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        let mut behind = behind.split(' ');
        path.starts_with(point).then_some((point.len(), behind.next()?, behind.next()?))
    });
    // Of two mounts on the same directory, the later one is visible.
    let Some((_, file_system, device)) = mounts.max_by_key(|(length, ..)| *length) else {
        return "unknown".into();
    };
    format!("{file_system} on {}", kind_of(device))
}

fn kind_of(device: &str) -> &'static str {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    match name.get(..2) {
        Some("nv") => "NVMe",
        Some("vd" | "xv") => "a virtual disk",
        Some("sd") if is_rotational(name) => "a rotating disk",
        Some("sd") => "a solid-state disk",
        _ => "a disk of unknown kind",
    }
}

fn is_rotational(name: &str) -> bool {
    let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
    fs::read_to_string(format!("/sys/block/{disk}/queue/rotational"))
        .is_ok_and(|text| text.trim() == "1")
}

fn java() -> String {
    let done = run::all_output(Command::new("java").arg("-version"), "");
    let printed = done.map(|done| done.printed).unwrap_or_default();
    let version = printed.split('"').nth(1);
    version.map_or_else(|| "unknown".into(), |version| format!("OpenJDK {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_that_of_the_innermost_mount() {
        let mounts = "21 1 254:0 / / rw,noatime - ext4 /dev/vda rw\n\
                      22 21 0:20 / /dev/shm rw shared:3 - tmpfs tmpfs rw\n\
                      23 21 259:1 / /data rw - xfs /dev/nvme0n1p1 rw\n";
        assert_eq!(disk_of(mounts, Path::new("/home/target")), "ext4 on a virtual disk");
        assert_eq!(disk_of(mounts, Path::new("/data/target")), "xfs on NVMe");
        assert_eq!(disk_of(mounts, Path::new("/dev/shm/x")), "tmpfs on a disk of unknown kind");
        assert_eq!(disk_of("", Path::new("/")), "unknown");
    }

    #[test]
    fn a_kernel_release_loses_its_builders_mark() {
        assert_eq!(numeric_part("6.18.44-fc-v445"), "6.18.44");
        assert_eq!(numeric_part("6.1"), "6.1");
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "model\t: 1\nmodel name\t: A Processor\nMemTotal:       24577000 kB\n";
        assert_eq!(value_of(text, "model name"), Some("A Processor"));
        assert_eq!(value_of(text, "MemTotal").map(gib_of), Some(24));
        assert_eq!(value_of(text, "nothing"), None);
    }
}
