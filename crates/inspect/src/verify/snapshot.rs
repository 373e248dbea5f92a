//! Verifies a snapshot: its checksums, that its znodes make a tree, its digest, its name.

use std::path::Path;

use anyhow::Result;
use herdsman_proto::Zxid;
use herdsman_store::Trailer;
use herdsman_store::names::SnapshotName;

use super::Verdict;
use crate::console::Console;
use crate::log_file::short_name;
use crate::progress::Meter;
use crate::show::counted;
use crate::snapshot_file::{DigestVerdict, LoadedSnapshot, SnapshotReadError, snapshot_name};

/// A usable snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoodSnapshot {
    /// Its name.
    pub(crate) name: SnapshotName,
    /// Its trailer and sizes.
    pub(crate) trailer: Trailer,
}

/// Verifies one file. Damage is a finding; a file that is not a snapshot is an error.
pub(crate) fn verify_snapshot(
    path: &Path,
    verdict: &mut Verdict,
    console: &Console<'_>,
) -> Result<Option<GoodSnapshot>> {
    let subject = short_name(path);
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut meter = Meter::of_bytes(console, &subject, bytes);
    let loaded = match LoadedSnapshot::load(path, &mut |read| meter.set(read)) {
        Ok(loaded) => loaded,
        Err(SnapshotReadError::Damaged(error)) => {
            let text = format!("{} (at offset {} of its content)", error.fault, error.offset);
            verdict.problem(&subject, text);
            return Ok(None);
        }
        Err(SnapshotReadError::Other(error)) => return Err(error),
    };
    report(&loaded, &subject, verdict);
    let good = |name| GoodSnapshot { name, trailer: loaded.summary.trailer };
    Ok(snapshot_name(path).map(good))
}

fn report(loaded: &LoadedSnapshot, subject: &str, verdict: &mut Verdict) {
    let nodes = loaded.summary.nodes;
    let nodes = counted(nodes, "znode");
    verdict.ok(subject, format!("{nodes} as of txn {}; its checksums match", loaded.as_of));
    match loaded.digest_verdict() {
        DigestVerdict::Fits => verdict.ok(subject, "the digest in its trailer matches its znodes"),
        DigestVerdict::Absent => {
            verdict.note(subject, "has no digest to compare (not every server writes one)");
        }
        DigestVerdict::Fuzzy => verdict.note(
            subject,
            format!(
                "was taken during writes: it needs the txns up to {} from the log, and its digest is compared in the replay",
                loaded.as_of
            ),
        ),
        DigestVerdict::Differs { expected, found } => verdict
            .problem(subject, format!("its trailer has digest {expected}, but its znodes have {found}")),
    }
    let trailer_zxid = loaded.summary.trailer.fuzzy_until(Zxid::ZERO);
    if let Some(named) = loaded.named
        && trailer_zxid > Zxid::ZERO
        && trailer_zxid < named
    {
        verdict.problem(
            subject,
            format!("is named by txn {named}, but its trailer says {trailer_zxid}"),
        );
    }
    let claimed = trailer_zxid.max(loaded.named.unwrap_or(Zxid::ZERO));
    if loaded.newest_effect > claimed && loaded.summary.trailer.last_zxid.is_some() {
        let newest = loaded.newest_effect;
        verdict.problem(subject, format!("says txn {claimed}, but a znode shows txn {newest}"));
    }
}
