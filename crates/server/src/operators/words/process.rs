//! What the operating system reports about this process. Unknown values are, as in Apache, -1 for
//! a number and `<NA>` for a text.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

const UNKNOWN: &str = "<NA>";

/// Open file descriptors.
pub(crate) fn open_files() -> i64 {
    const ALL: &str = "/proc/self/fd";
    // Since Linux 6.2 their number is the size of the directory. Counting thousands of them takes long, and
    // metrics may be requested often.
    match std::fs::metadata(ALL).map(|directory| directory.len()) {
        Ok(count @ 1..) => count.cast_signed(),
        // Reading the directory has one open.
        _ => std::fs::read_dir(ALL).map_or(-1, |listing| listing.count() as i64 - 1),
    }
}

/// The limit of open file descriptors.
pub(crate) fn open_files_max() -> i64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    soft_limit(&limits, "Max open files").unwrap_or(-1)
}

fn soft_limit(limits: &str, name: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The machine's name.
pub(super) fn host_name() -> String {
    kernel_text("hostname")
}

/// The kernel's release.
pub(super) fn os_version() -> String {
    kernel_text("osrelease")
}

fn kernel_text(name: &str) -> String {
    std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name))
        .map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
}

/// The operating system, by Java's name.
pub(super) fn os_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        other => other,
    }
}

/// The processor, by Java's name.
pub(super) fn os_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    }
}

/// Name and home of the user that runs the server.
pub(crate) fn user() -> (String, String) {
    let uid = std::fs::metadata("/proc/self").map(|process| process.uid()).ok();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    uid.and_then(|uid| user_of(&users, uid))
        .unwrap_or_else(|| (UNKNOWN.to_owned(), UNKNOWN.to_owned()))
}

fn user_of(users: &str, uid: u32) -> Option<(String, String)> {
    let uid = uid.to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid)
            .then(|| fields.nth(2))
            .flatten()
            .map(|home| (name.to_owned(), home.to_owned()))
    })
}

/// The directory to which relative paths refer.
pub(super) fn working_dir() -> String {
    std::env::current_dir().map_or_else(|_| UNKNOWN.to_owned(), |path| path.display().to_string())
}

/// Memory of the machine in megabytes: available, and total.
pub(super) fn memory_mb() -> (i64, i64) {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (kilobytes(&memory, "MemAvailable:"), kilobytes(&memory, "MemTotal:"))
}

fn kilobytes(memory: &str, name: &str) -> i64 {
    let line = memory.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    number.map_or(-1, |kilobytes| kilobytes / 1024)
}

/// Resources that the process has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    pub cpu_seconds: f64,
    /// Since 1970.
    pub started_seconds: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

/// Times in `/proc` are in hundredths of a second on every Linux, whatever the kernel's timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the usage; `None` if a part of it is unknown, because a metric must not be half true.
pub(crate) fn usage() -> Option<Usage> {
    let read = |path| std::fs::read_to_string(path).ok();
    usage_in(&read("/proc/self/stat")?, &read("/proc/self/status")?, &read("/proc/stat")?)
}

fn usage_in(process: &str, status: &str, machine: &str) -> Option<Usage> {
    // The name of the program is in parentheses and may contain anything.
    let (_, fields) = process.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    let booted = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    let bytes = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    Some(Usage {
        // As in proc(5), where these are fields 14, 15 and 22.
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        started_seconds: booted.trim().parse::<f64>().ok()? + ticks(19)? / TICKS_PER_SECOND,
        resident_bytes: bytes("VmRSS:")?,
        virtual_bytes: bytes("VmSize:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 4096                 files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024));
        assert_eq!(soft_limit(limits, "Max stack size"), None);
        let users = "root:x:0:0:root:/root:/bin/sh\nzk:x:77:5::/var/lib/zk:/bin/false\n";
        assert_eq!(user_of(users, 77), Some(("zk".to_owned(), "/var/lib/zk".to_owned())));
        assert_eq!(user_of(users, 1), None);
        assert_eq!(kilobytes("MemTotal:       20480 kB\n", "MemTotal:"), 20);
        assert_eq!(kilobytes("", "MemTotal:"), -1);
    }

    #[test]
    fn what_the_process_has_used_is_read() {
        let process = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 12345 1 2 3";
        let status = "Name:\tx\nVmSize:\t    8 kB\nVmRSS:\t    4 kB\n";
        let usage = usage_in(process, status, "cpu 1 2\nbtime 1000\n").unwrap();
        let Usage { cpu_seconds, started_seconds, resident_bytes, virtual_bytes } = usage;
        assert!((cpu_seconds - 3.0).abs() < 1e-9 && (started_seconds - 1123.45).abs() < 1e-9);
        assert_eq!((resident_bytes, virtual_bytes), (4096, 8192));
        assert_eq!(usage_in("", status, "btime 1000\n"), None);
    }
}
