//! Files: where they are, how they grow, when they are synced and when they go.

use crate::field::settings;
use crate::setting::Initial::{Derived, Is, Unset};
use crate::setting::Setting;
use crate::setting::Status::{Acted, Ignored};

pub(super) static SETTINGS: &[Setting] = settings! {
    "dataDir", File Path => raw.data_dir, Derived("required"), "", Acted,
        "Directory of the snapshots and of the file myid; the files are in its folder version-2.";
    "dataLogDir", File Path => raw.data_log_dir, Derived("dataDir"), "", Acted,
        "Directory of the transaction logs; best on a device of its own.";
    "datadir.autocreate", Property Flag => storage.create_directories, Is("true"), "", Acted,
        "Whether missing data directories are created at start.";
    "db.autocreate", Property Flag => storage.create_database, Is("true"), "", Acted,
        "Whether a member with empty data directories votes at once; with `false` only if dataDir has a file `initialize`.";
    "forceSync", Property NotNo => storage.force_sync, Is("yes"), "", Acted,
        "Whether a change is synced to disk before it is answered; `no` risks acknowledged data.";
    "fsync.warningthresholdms", PropertyOrBare LooseLong => storage.sync_warning_ms, Is("1000"), "ms", Acted,
        "A sync that takes longer than this is reported in the log.";
    "flushDelay", Property LooseLong => storage.flush_delay_ms, Is("0"), "ms", Acted,
        "How long a change may wait for other changes to share its sync; 0 does not wait.";
    "maxBatchSize", Property LooseInt => storage.batch_requests_max, Is("1000"), "requests", Acted,
        "How many changes one sync covers at most; 0 or less sets no limit.";
    "maxWriteQueuePollTime", Property LooseLong => kept, Derived("flushDelay / 3"), "ms",
        Ignored("a batch ends by flushDelay or maxBatchSize"),
        "How long Apache's sync thread waits for the next change.";
    "preAllocSize", Property LooseDecimal => raw.preallocate_kib, Is("65536"), "KiB", Acted,
        "Preallocation step of log files, which are filled with zeros; 0 turns preallocation off.";
    "snapCount", Property LooseInt => raw.snapshot_txns, Is("100000"), "txns", Acted,
        "Changes between two snapshots, at least 2; the actual number is random between half of it and all of it. If not set, 100,000 or a quarter of the number of znodes, whichever is more.";
    "snapSizeLimitInKb", Property LooseLong => raw.snapshot_log_kib, Is("4194304"), "KiB", Acted,
        "Log size that also triggers a snapshot, randomised in the same way; 0 or less is off.";
    "txnLogSizeLimitInKb", Property LooseLong => raw.log_file_kib, Is("-1"), "KiB", Acted,
        "Amount written after which a new log file is started; 0 or less is off.";
    "snapshot.compression.method", Property Text => raw.compression, Is(""), "", Acted,
        "Compression of new snapshots: nothing, `gz` or `snappy`; all three are always read.";
    "snapshot.trust.empty", Property Flag => storage.trust_empty_snapshot, Is("false"), "", Acted,
        "Whether logs without any snapshot are accepted, for upgrades from before 3.5.";
    "digest.enabled", Property Flag => storage.digest, Is("true"), "", Acted,
        "Whether a digest of the whole tree is kept, logged and checked.";
    "serializeLastProcessedZxid.enabled", Property Flag => storage.last_zxid_in_snapshots, Is("true"), "", Acted,
        "Whether snapshots end with the last zxid they hold; releases before 3.9 do not expect it.";
    "herdsman.acceptLossAfter", Bare Text => raw.accept_loss_after, Is(""), "zxid", Acted,
        "Discards everything that a damaged log contains after this txn. Set it for one start, to the value that the refused start printed. A member of an ensemble then does not vote until a leader has brought it up to date.";
    "herdsman.selfRepair", Bare Flag => storage.self_repair, Is("true"), "", Acted,
        "Whether a member of an ensemble whose files are damaged repairs them at the start with records of the other members, or takes everything from a leader without voting before it is up to date; with `false` it refuses to start.";
    "autopurge.purgeInterval", File Word => raw.purge_interval, Is("1"), "h", Acted,
        "Interval of the purge of old snapshots and logs; 0 or less disables it. Accepts a unit (ms, s, m, h, d). Apache's default is 0.";
    "autopurge.snapRetainCount", File Int => raw.snapshots_kept, Is("3"), "files", Acted,
        "Snapshots that a purge keeps, at least 3, with the logs they need.";
    "herdsman.archiveDir", PropertyOrBare Path => archive.dir, Unset, "", Acted,
        "Directory to which finished log files and snapshots are copied, for a restore to any point in time; best on another machine's disk. Several servers can share it.";
    "herdsman.archiveEverySeconds", PropertyOrBare LooseInt => archive.every_seconds, Is("60"), "s", Acted,
        "How often the log file is ended and archived, if anything was written; 0 waits until a snapshot or txnLogSizeLimitInKb ends it.";
    "herdsman.archiveBytesPerSecond", PropertyOrBare LooseLong => archive.bytes_per_second_max, Is("20971520"), "bytes", Acted,
        "How fast files are copied to the archive at most; 0 or less sets no limit.";
    "herdsman.archiveKeepDays", PropertyOrBare LooseInt => archive.keep_days, Is("0"), "days", Acted,
        "Days for which every point can be restored; older files are removed from the archive. 0 or less keeps all of them.";
    "herdsman.scrubBytesPerSecond", PropertyOrBare LooseLong => raw.scrub_bytes_per_second, Is("4194304"), "bytes", Acted,
        "How fast all logs and snapshots are read in the background to find damage; 0 or less is off.";
    "herdsman.scrubEveryHours", PropertyOrBare LooseInt => raw.scrub_every_hours, Is("24"), "h", Acted,
        "Hours between the end of a scrub pass and the next one, at least 1.";
};
