//! What the operating system knows about this process. Where it does not say, as in Apache: -1 for
//! a number, `<NA>` for a text.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

const UNKNOWN: &str = "<NA>";

/// Open file descriptors.
pub(super) fn open_files() -> i64 {
    // The listing itself has one open.
    std::fs::read_dir("/proc/self/fd").map_or(-1, |listing| listing.count() as i64 - 1)
}

/// How many may be open.
pub(super) fn open_files_max() -> i64 {
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

/// The operating system, as Java calls it.
pub(super) fn os_name() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        other => other,
    }
}

/// The processor, as Java calls it.
pub(super) fn os_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    }
}

/// Name and home of the user that runs the server.
pub(super) fn user() -> (String, String) {
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

/// The directory that relative paths start from.
pub(super) fn working_dir() -> String {
    std::env::current_dir().map_or_else(|_| UNKNOWN.to_owned(), |path| path.display().to_string())
}

/// Memory of the machine in megabytes: available, and in all.
pub(super) fn memory_mb() -> (i64, i64) {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (kilobytes(&memory, "MemAvailable:"), kilobytes(&memory, "MemTotal:"))
}

fn kilobytes(memory: &str, name: &str) -> i64 {
    let line = memory.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    number.map_or(-1, |kilobytes| kilobytes / 1024)
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
}
