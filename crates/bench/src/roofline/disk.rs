//! Small appends, each made durable before the next: the work of a transaction log, and nothing else.
//!
//! The file is treated like the server's own log: space is allocated ahead in the same steps, data is appended,
//! and `fdatasync` follows. So the file system does the same work for both, including the conversion of
//! allocated space to written data.
//!
//! The file keeps its name while it is used, because some file systems need not make an unlinked file durable; it
//! is removed when the loop ends, also after an interrupt.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::report::{BatchedSyncs, DiskLimit, Latency};
use crate::stop::Stop;

/// The step in which space is allocated, as `preAllocSize` of Apache and Herdsman.
const STEP_BYTES: u64 = 64 << 20;
/// A series ends when its file reaches this size, even if there is time left.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// A sync that takes longer is counted as ten minutes.
const NANOS_MAX: u64 = 600 * 1_000_000_000;

/// What to measure.
pub(super) struct DiskLoop<'a> {
    pub(super) dir: &'a Path,
    /// The size of one append.
    pub(super) bytes: usize,
    /// The duration of each series.
    pub(super) duration: Duration,
}

/// The result of one series.
struct Series {
    appends_per_second: f64,
    latency: Latency,
}

impl DiskLoop<'_> {
    /// Measures one append for each sync, then `batch` appends. `None` if it was stopped before anything was synced.
    pub(super) fn run(&self, batch: usize, stop: &Stop) -> Result<Option<DiskLimit>> {
        ensure!(
            self.dir.is_dir(),
            "{} is not a directory: --data-dir must name one on the disk to measure",
            self.dir.display()
        );
        let Some(single) = self.series(1, stop)? else { return Ok(None) };
        let batched = self.series(batch, stop)?.map(|series| BatchedSyncs {
            appends: batch,
            appends_per_second: series.appends_per_second,
            sync: series.latency,
        });
        Ok(Some(DiskLimit {
            syncs_per_second: single.appends_per_second,
            sync: single.latency,
            bytes: self.bytes,
            batched: batched.unwrap_or_default(),
        }))
    }

    fn series(&self, appends: usize, stop: &Stop) -> Result<Option<Series>> {
        let mut log = TemporaryLog::create(self.dir)?;
        let batch = vec![0x5a; self.bytes * appends];
        let mut nanos =
            Histogram::<u64>::new_with_max(NANOS_MAX, 3).context("cannot count nanoseconds")?;
        let started = Instant::now();
        let mut now = started;
        while now - started < self.duration && !log.is_full(&batch) && !stop.is_requested() {
            log.append(&batch)?;
            let then = Instant::now();
            nanos.saturating_record((then - now).as_nanos() as u64);
            now = then;
        }
        let seconds = (now - started).as_secs_f64();
        if nanos.is_empty() || seconds <= 0.0 {
            return Ok(None);
        }
        let appends_per_second = nanos.len() as f64 * appends as f64 / seconds;
        Ok(Some(Series { appends_per_second, latency: latency(&nanos) }))
    }
}

fn latency(nanos: &Histogram<u64>) -> Latency {
    let us = |quantile| nanos.value_at_quantile(quantile) as f64 / 1000.0;
    Latency {
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: nanos.max() as f64 / 1000.0,
    }
}

/// A file that is removed when this is dropped.
struct TemporaryLog {
    file: File,
    path: PathBuf,
    position: u64,
    allocated: u64,
}

impl TemporaryLog {
    fn create(dir: &Path) -> Result<Self> {
        let path = dir.join(format!("herdsman-roofline-{}.tmp", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let mut log = TemporaryLog { file, path, position: 0, allocated: 0 };
        log.grow()?;
        // Creating and allocating the file are not part of the measurement.
        log.file.sync_all().with_context(|| log.failed("sync"))?;
        Ok(log)
    }

    fn is_full(&self, batch: &[u8]) -> bool {
        self.position + batch.len() as u64 > FILE_BYTES_MAX
    }

    /// Writes at the end and waits until it is durable.
    fn append(&mut self, batch: &[u8]) -> Result<()> {
        let end = self.position + batch.len() as u64;
        while end > self.allocated {
            self.grow()?;
        }
        self.file
            .write_all_at(batch, self.position)
            .and_then(|()| self.file.sync_data())
            .with_context(|| self.failed("write"))?;
        self.position = end;
        Ok(())
    }

    fn grow(&mut self) -> Result<()> {
        let (from, to) = (self.allocated, self.allocated + STEP_BYTES);
        let grown = match fallocate(&self.file, FallocateFlags::empty(), from, STEP_BYTES) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(to),
            other => other.map_err(io::Error::from),
        };
        match grown {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                Err(error).with_context(|| {
                    format!(
                        "not enough space for {} MiB in {}; name another directory with --data-dir",
                        to >> 20,
                        self.path.display()
                    )
                })?;
            }
            other => other.with_context(|| self.failed("grow"))?,
        }
        self.allocated = to;
        Ok(())
    }

    fn failed(&self, action: &str) -> String {
        format!("cannot {action} {}", self.path.display())
    }
}

impl Drop for TemporaryLog {
    fn drop(&mut self) {
        // An error cannot be reported here, and the next run uses another name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_loop(dir: &Path) -> DiskLoop<'_> {
        DiskLoop { dir, bytes: 200, duration: Duration::from_millis(50) }
    }

    fn is_empty(dir: &Path) -> bool {
        fs::read_dir(dir).unwrap().next().is_none()
    }

    #[test]
    fn both_series_have_numbers_and_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let limit = disk_loop(dir.path()).run(64, &Stop::never()).unwrap().unwrap();
        assert!(limit.syncs_per_second > 0.0 && limit.batched.appends_per_second > 0.0);
        assert_eq!((limit.bytes, limit.batched.appends), (200, 64));
        for Latency { p50_us, p99_us, p999_us, max_us } in [limit.sync, limit.batched.sync] {
            assert!(0.0 < p50_us && p50_us <= p99_us && p99_us <= p999_us && p999_us <= max_us);
        }
        // The maximum is at least the mean.
        assert!(limit.sync.max_us * 1.01 >= 1e6 / limit.syncs_per_second, "{limit:?}");
        let batches_per_second = limit.batched.appends_per_second / 64.0;
        assert!(limit.batched.sync.max_us * 1.01 >= 1e6 / batches_per_second, "{limit:?}");
        assert!(is_empty(dir.path()));
    }

    #[test]
    fn stopped_at_once_there_is_no_result_and_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let stop = Stop::never();
        stop.request();
        assert_eq!(disk_loop(dir.path()).run(64, &stop).unwrap(), None);
        assert!(is_empty(dir.path()));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = disk_loop(&missing).run(64, &Stop::never()).unwrap_err().to_string();
        assert!(error.contains("missing is not a directory: --data-dir"), "{error}");
    }

    #[test]
    fn the_file_grows_in_steps_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = TemporaryLog::create(dir.path()).unwrap();
        assert_eq!(log.file.metadata().unwrap().len(), STEP_BYTES);
        log.position = STEP_BYTES - 100;
        log.append(&[1; 200]).unwrap();
        assert_eq!(log.file.metadata().unwrap().len(), 2 * STEP_BYTES);
        log.position = FILE_BYTES_MAX - 199;
        assert!(log.is_full(&[1; 200]));
    }
}
