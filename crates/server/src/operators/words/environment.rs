//! `envi`. Apache: `Environment.list`. Its keys about Java have no meaning here and are left out;
//! memory is the machine's, not a heap's. No environment variables are shown.

use std::fmt::Write;

use super::{process, version};

pub(super) fn envi() -> String {
    let mut text = "Environment:\n".to_owned();
    for (key, value) in entries() {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

pub(super) fn entries() -> Vec<(&'static str, String)> {
    let (user_name, user_home) = process::user();
    let (available, total) = process::memory_mb();
    vec![
        ("zookeeper.version", version::full_version()),
        ("host.name", process::host_name()),
        ("os.name", process::os_name().to_owned()),
        ("os.arch", process::os_arch().to_owned()),
        ("os.version", process::os_version()),
        ("user.name", user_name),
        ("user.home", user_home),
        ("user.dir", process::working_dir()),
        ("os.memory.free", format!("{available}MB")),
        ("os.memory.max", format!("{total}MB")),
        ("os.memory.total", format!("{total}MB")),
    ]
}
