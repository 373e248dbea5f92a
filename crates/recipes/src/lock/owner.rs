//! The default owner text: identifies this process to readers of a lock's nodes.
//!
//! Curator writes the host's IP address by default. The host name and the process id are more informative, and
//! readers must accept any bytes there anyway.

use std::sync::OnceLock;

use bytes::Bytes;

/// Returns `host/pid`.
pub(crate) fn default_owner() -> Bytes {
    static OWNER: OnceLock<Bytes> = OnceLock::new();
    OWNER.get_or_init(|| format!("{}/{}", host_name(), std::process::id()).into()).clone()
}

/// Returns the host name, which the standard library does not provide; Linux has it in a file.
fn host_name() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_environment = || std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME"));
    let name = from_kernel.or_else(|| from_environment().ok()).unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}
