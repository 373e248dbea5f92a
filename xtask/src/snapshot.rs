//! Reads the parts of an uncompressed snapshot file that no client can see: sessions, stored fields, the
//! digest.
//!
//! Used on snapshots that Apache wrote, to record its state. Independent of `crates/store`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::wire::Decoder;

const MAGIC: i32 = i32::from_be_bytes(*b"ZKSN");

/// The hidden part of a server's state.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The zxid in the file's name.
    pub zxid: i64,
    /// Session ids and timeouts in milliseconds.
    pub sessions: BTreeMap<i64, i32>,
    /// Paths with stored cversion and stored ephemeralOwner; the root is `/`.
    pub nodes: BTreeMap<String, (i32, i64)>,
    /// Digest version and value, if the file has them.
    pub digest: Option<(i32, i64)>,
}

/// Reads the newest snapshot of a data directory.
pub fn newest(data_dir: &Path) -> Result<Snapshot> {
    let (zxid, path) = newest_file(data_dir, "snapshot")?;
    let bytes = fs::read(&path)?;
    let mut snapshot = decode(&bytes).with_context(|| format!("reading {}", path.display()))?;
    snapshot.zxid = zxid;
    Ok(snapshot)
}

/// The file `PREFIX.HEX` with the highest zxid; compressed ones (`PREFIX.HEX.gz`) are skipped.
pub fn newest_file(data_dir: &Path, prefix: &str) -> Result<(i64, PathBuf)> {
    let mut newest = None;
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((own_prefix, hex)) = name.split_once('.') else {
            continue;
        };
        if own_prefix != prefix || hex.contains('.') {
            continue;
        }
        let zxid = i64::from_str_radix(hex, 16).with_context(|| name.clone())?;
        newest = newest.max(Some((zxid, path)));
    }
    newest.with_context(|| format!("no {prefix} file in {}", data_dir.display()))
}

fn decode(bytes: &[u8]) -> Result<Snapshot> {
    let mut from = Decoder::new(bytes);
    ensure!(from.int()? == MAGIC, "not a snapshot");
    from.take(4 + 8)?;
    let mut snapshot = Snapshot::default();
    for _ in 0..from.int()? {
        snapshot.sessions.insert(from.long()?, from.int()?);
    }
    skip_acls(&mut from)?;
    loop {
        let path = from.string()?;
        if path == "/" {
            break;
        }
        from.buffer()?;
        // ACL key, czxid, mzxid, ctime, mtime; then version; then cversion.
        from.take(5 * 8 + 4)?;
        let cversion = from.int()?;
        from.take(4)?;
        let owner = from.long()?;
        from.take(8)?;
        let path = if path.is_empty() { "/".into() } else { path };
        snapshot.nodes.insert(path, (cversion, owner));
    }
    skip_seal(&mut from)?;
    if !from.rest().is_empty() {
        from.take(8)?;
        snapshot.digest = Some((from.int()?, from.long()?));
        skip_seal(&mut from)?;
    }
    Ok(snapshot)
}

fn skip_acls(from: &mut Decoder) -> Result<()> {
    for _ in 0..from.int()? {
        from.take(8)?;
        for _ in 0..from.int()? {
            from.int()?;
            from.string()?;
            from.string()?;
        }
    }
    Ok(())
}

fn skip_seal(from: &mut Decoder) -> Result<()> {
    from.take(8)?;
    ensure!(from.string()? == "/", "a seal without its mark");
    Ok(())
}
