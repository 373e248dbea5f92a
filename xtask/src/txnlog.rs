//! Reads the digests in transaction logs: each record contains the digest that its leader computed for the
//! tree after it. Independent of `crates/store`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::wire::Decoder;

const MAGIC: i32 = i32::from_be_bytes(*b"ZKLG");
const HEADER_BYTES: usize = 16;
const END_OF_RECORD: u8 = b'B';
/// The type of a record for a failed request; it contains no digest.
const ERROR: i32 = -1;
const DIGEST_VERSION: i32 = 2;
const DIGEST_BYTES: usize = 4 + 8;

/// The digest in the record of each zxid, over all log files of a data directory.
pub type Digests = BTreeMap<i64, i64>;

/// Reads all log files; records after a torn end are ignored, as in servers.
pub fn digests(data_dir: &Path) -> Result<Digests> {
    let mut digests = Digests::new();
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("log.") {
            let bytes = fs::read(&path)?;
            read_file(&bytes, &mut digests).with_context(|| format!("in {}", path.display()))?;
        }
    }
    Ok(digests)
}

fn read_file(bytes: &[u8], digests: &mut Digests) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut from = Decoder::new(bytes);
    ensure!(from.int()? == MAGIC, "not a transaction log");
    from.take(HEADER_BYTES - 4)?;
    while let Some(record) = next_record(&mut from) {
        if let Some((zxid, digest)) = digest(&record)? {
            digests.insert(zxid, digest);
        }
    }
    Ok(())
}

fn next_record(from: &mut Decoder) -> Option<Vec<u8>> {
    // The checksum; servers have verified it.
    from.take(8).ok()?;
    let record = from.buffer().ok()??;
    let whole = !record.is_empty() && from.take(1).ok()? == [END_OF_RECORD];
    whole.then_some(record)
}

fn digest(record: &[u8]) -> Result<Option<(i64, i64)>> {
    let mut from = Decoder::new(record);
    // Session and cxid before it, time after it.
    from.take(8 + 4)?;
    let zxid = from.long()?;
    from.take(8)?;
    let kind = from.int()?;
    let rest = from.rest();
    if kind == ERROR || rest.len() < DIGEST_BYTES {
        return Ok(None);
    }
    let mut last = Decoder::new(&rest[rest.len() - DIGEST_BYTES..]);
    Ok((last.int()? == DIGEST_VERSION).then_some((zxid, last.long()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    #[test]
    fn digests_are_those_that_apache_wrote() {
        let fixture = paths::root().join("fixtures/apache-3.9.5/plain");
        let digests = digests(&fixture).unwrap();
        let text = fs::read_to_string(fixture.join("expected.txt")).unwrap();
        let expected = text.lines().find_map(|line| line.strip_prefix("digest\t2\t")).unwrap();
        assert_eq!(digests.last_key_value().unwrap().1.to_string(), expected);
    }
}
