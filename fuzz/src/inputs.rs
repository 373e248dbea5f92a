//! The inputs that a target starts from: its committed seeds, and what a fuzzer left in `corpus/`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::targets::Target;

/// The folder of a target in this package, such as `seeds/txn`.
#[must_use]
pub fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target)
}

/// The files of a folder with their names, sorted; none if it does not exist.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn files(kind: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder(kind, target)) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("a folder can be listed");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file can be read"))
        })
        .collect();
    files.sort();
    files
}

/// Runs a target on one input. Prints the input before a panic continues.
pub fn run(target: &Target, bytes: &[u8], which: &str) {
    if let Err(panic) = std::panic::catch_unwind(|| (target.run)(bytes)) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("target {}, {which}: {hex}", target.name);
        std::panic::resume_unwind(panic);
    }
}
