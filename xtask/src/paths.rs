//! The paths used by the commands: everything they write is below `target/`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask is a folder in the repository").to_path_buf()
}

/// Cargo's output directory.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The installed third-party programs: `target/peers/NAME`.
pub fn peers(name: &str) -> PathBuf {
    target().join("peers").join(name)
}

/// The server under test: its release build, or the binary in `HERDSMAN`.
pub fn herdsman() -> PathBuf {
    match std::env::var_os("HERDSMAN") {
        Some(binary) => root().join(binary),
        None => target().join("release").join("herdsman"),
    }
}

/// A program of this workspace as built in the development profile.
pub fn built(program: &str) -> PathBuf {
    target().join("debug").join(program)
}

/// Creates an empty directory for one run, `target/interop/NAME`; the content of an earlier run is removed.
pub fn fresh_dir(name: &str) -> Result<PathBuf> {
    let dir = target().join("interop").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("clearing {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    Ok(dir)
}

/// Copies a directory recursively.
pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("copying {}", entry.path().display()))?;
        }
    }
    Ok(())
}
