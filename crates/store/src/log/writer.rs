//! Appends batches of txns to the log.
//!
//! In: encoded txns in zxid order. Out: `Ok` from [`LogWriter::flush`] once the whole batch is
//! durable: one write at the current position and one sync, however many txns it holds. After the sync one write
//! adds their slots to the table at the end of the file ([`super::table`]), without a sync of its own.
//! Apache: `FileTxnLog.append`/`commit`, `FilePadding`.
//!
//! Deliberately not here: threads and clocks. The caller gathers a batch while the disk works, and
//! measures how long a flush takes.
//!
//! Invariants:
//! - Up to the end of the last batch that was flushed, the file holds whole records and nothing else.
//! - Nothing is written past a batch that was not flushed: a failure other than a full disk is final,
//!   and every later call reports it. A failed sync in particular is never retried, because the
//!   kernel may have dropped what it could not write and say "done" the next time.
//! - On a full disk the batch, or its slots, stay buffered, and [`LogWriter::flush`] may be called again when there is
//!   room. What was written of the batch is cut off, unless the file has a table: then it is overwritten.
//! - A slot is written only when its record is durable.
//! - The part of a file that the next batches go to, and that of their slots, is overwritten with zeros in advance. A
//!   preallocated block has to be marked as written when it is written for the first time, and then a sync waits for
//!   the file system's journal, too. Sectors of a torn batch may be missing in any order then, which only a table
//!   tells from damage; so a file without one is not zeroed.
//! - A file has a table from its beginning or not at all. One with a table never grows: a batch that it has no room
//!   for goes to a new file.
//! - Before the first batch of a file counts as flushed, `herdsman.epochs` says that the file exists, and how long it
//!   is if it has a table ([`LogWriter::noted_in`]). So a start notices if the newest file is missing or lacks its end.
//! - A file or directory that cannot be opened for lack of descriptors is not a failure of the disk:
//!   [`LogWriter::flush`] may be called again, and continues where it stopped.
//! - A flush that syncs covers everything written before, also files that were ended without a sync.
//! - No record is longer than what a reader accepts (ZOOKEEPER-3496, ZOOKEEPER-4843).
//!
//! A writer knows its file, its position in it and the last txn, and looks none of them up again. So
//! code that changes the log in another way ([`crate::truncate_and_reload`], [`crate::install_snapshot`],
//! [`fn@crate::recover`]) drops it first, with the batch that is in it, and creates a new one from the zxid
//! of the returned tree. Dropping writes nothing; a new writer opens no existing file, but creates
//! one for its first txn.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::Zxid;

use super::ending::ZEROS;
use super::table::{OpenTable, Slot, ahead_bytes, new_file_bytes};
use super::{HEADER, HEADER_BYTES};
use crate::disk::{Disk, WriteFile, is_full, is_out_of_descriptors};
use crate::epoch::{forget_open_log, note_new_log};
use crate::names::LogName;

/// Space that must be left in the file before a batch; with less, the file grows.
const ROOM_BYTES_MIN: u64 = 4096;
/// Space is freed in units of this, which is what most file systems use.
const BLOCK_BYTES: u64 = 4096;
/// Files that may wait for a sync after they were ended without one; beyond this, the oldest is synced at once.
const UNSYNCED_FILES_MAX: usize = 4;
/// Slots that may wait for a sync; beyond this, the file is synced at once.
const PENDING_SLOTS_MAX: usize = 1 << 16;

/// Options of a log writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The length of a new file with a table; one without grows by this much at a time. 0 lets it grow with each
    /// batch. Apache: `preAllocSize`.
    pub pre_alloc_bytes: u64,
    /// Files that are preallocated with enough get a table of their records ([`super::table`]).
    pub persist_table: bool,
    /// A file longer than this gets no further batch. Apache: `txnLogSizeLimitInKb`.
    pub file_bytes_max: Option<u64>,
    /// No payload may be longer. Apache reads `jute.maxbuffer` plus `jute.maxbuffer.extrasize`.
    pub payload_bytes_max: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            pre_alloc_bytes: 64 << 20,
            persist_table: true,
            file_bytes_max: None,
            payload_bytes_max: 2 * 0xf_ffff,
        }
    }
}

/// Whether a flush waits for the disk. Apache: `forceSync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Flushed txns survive a power failure.
    Sync,
    /// Flushed txns survive the end of the process.
    NoSync,
}

/// An error of appending to the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The txn is larger than readers accept; nothing was buffered.
    #[error(
        "txn {zxid} of {bytes} bytes is larger than the {bytes_max} that a log record may have"
    )]
    TooLarge {
        /// The txn.
        zxid: Zxid,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The disk is full. The batch is still buffered, the file ends after the last flushed record.
    #[error("no room to append to {path}: {source}", path = path.display())]
    Full {
        /// The log file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// There was no file descriptor or memory to open a file. The batch is still buffered.
    #[error("cannot open {path}: {source}", path = path.display())]
    NotOpened {
        /// The log file or its directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The log is unusable from here on, in this process.
    #[error("cannot {action} {path}: {source}; the log takes no more txns until a restart has verified it", path = path.display())]
    Failed {
        /// The failed action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
}

impl AppendError {
    /// Whether the same call may succeed later: when there is room, or a file descriptor.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, AppendError::Full { .. } | AppendError::NotOpened { .. })
    }
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// The last txn in the log.
    pub last_zxid: Zxid,
    /// Txns of this batch.
    pub records: usize,
    /// Bytes of this batch.
    pub bytes: usize,
}

/// Appends to the log.
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: LogOptions,
    /// Where new files are noted.
    notes_dir: Option<PathBuf>,
    file: Option<OpenFile>,
    /// Files that were ended without a sync, oldest first; the next sync covers them too.
    unsynced: Vec<OpenFile>,
    batch: Batch,
    /// The encoded slots of a batch; kept for its allocation.
    slot_bytes: Vec<u8>,
    /// The last txn that was flushed.
    last_zxid: Zxid,
    written_bytes: u64,
    roll_wanted: bool,
    failed: Option<AppendError>,
}

/// Records that are not flushed yet.
#[derive(Default)]
struct Batch {
    /// Records that are not written yet.
    bytes: Vec<u8>,
    /// Their slots; offsets are relative to `bytes`.
    slots: Vec<Slot>,
    /// Bytes of records that are written and not known to be durable.
    written_bytes: usize,
    records: usize,
    zxids: Option<(Zxid, Zxid)>,
}

impl Batch {
    fn encode(&mut self, zxid: Zxid, payload: &[u8]) {
        let offset = self.bytes.len();
        let adler = super::encode_record(payload, &mut self.bytes);
        self.slots.push(Slot {
            zxid,
            offset: offset as u64,
            payload_bytes: u32::try_from(payload.len()).expect("the length of a record is an int"),
            adler,
            batch: 0,
        });
    }
}

struct OpenFile {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    first: Zxid,
    /// Where the next batch goes; 0 until the header is written.
    position: u64,
    /// The file's length as far as we have grown it.
    bytes: u64,
    table: Option<OpenTable>,
    /// Zeros were written up to here, for the batches to come.
    zeroed_end: u64,
    /// A batch that did not fit on the disk may have been written up to here.
    dirty_end: u64,
    data_synced: bool,
    name_synced: bool,
    /// It is known beside the epochs.
    noted: bool,
}

impl OpenFile {
    /// Writes zeros to a part of the file before the first batch that reaches it, if the file has a table.
    fn zero_ahead(&mut self, batch_bytes: u64) -> io::Result<()> {
        let batch_end = self.position + batch_bytes;
        let Some(table) = self.table.as_ref().filter(|_| batch_end > self.zeroed_end) else {
            return Ok(());
        };
        let end = (batch_end + ahead_bytes(batch_bytes)).next_multiple_of(BLOCK_BYTES);
        // What the batch covers needs no zeros, and neither does what was zeroed for slots.
        let end = end.min(table.zeroed_from()).max(batch_end);
        write_zeros(&mut *self.file, batch_end..end)?;
        self.zeroed_end = end;
        Ok(())
    }
}

fn write_zeros(file: &mut dyn WriteFile, part: Range<u64>) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let bytes = usize::try_from(part.end - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
        file.write_at(at, &ZEROS[..bytes])?;
        at += bytes as u64;
    }
    Ok(())
}

impl LogWriter {
    /// Continues the log after `last_zxid`, in a new file.
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: impl Into<PathBuf>,
        last_zxid: Zxid,
        options: LogOptions,
    ) -> Self {
        LogWriter {
            disk,
            dir: dir.into(),
            options,
            notes_dir: None,
            file: None,
            unsynced: Vec::new(),
            batch: Batch::default(),
            slot_bytes: Vec::new(),
            last_zxid,
            written_bytes: 0,
            roll_wanted: false,
            failed: None,
        }
    }

    /// Notes each new file beside the epochs in `data_dir`, if they have copies there: for members of an ensemble.
    #[must_use]
    pub fn noted_in(mut self, data_dir: impl Into<PathBuf>) -> Self {
        self.notes_dir = Some(data_dir.into());
        self
    }

    /// Adds a txn to the batch. Panics if zxids do not rise: the caller is responsible for the order.
    pub fn append(&mut self, zxid: Zxid, payload: &[u8]) -> Result<(), AppendError> {
        self.check_usable()?;
        let last = self.batch.zxids.map_or(self.last_zxid, |(_, last)| last);
        assert!(zxid > last, "txn {zxid} appended after {last}");
        let bytes_max = self.options.payload_bytes_max;
        if payload.len() > bytes_max {
            return Err(AppendError::TooLarge { zxid, bytes: payload.len(), bytes_max });
        }
        self.batch.encode(zxid, payload);
        self.batch.records += 1;
        let first = self.batch.zxids.map_or(zxid, |(first, _)| first);
        self.batch.zxids = Some((first, zxid));
        Ok(())
    }

    /// Writes the batch and, with [`SyncMode::Sync`], waits until it is durable.
    pub fn flush(&mut self, sync: SyncMode) -> Result<Flushed, AppendError> {
        self.check_usable()?;
        if let Some(first) = self.batch.slots.first().map(|slot| slot.zxid) {
            self.leave_full_file()?;
            self.open(first)?;
            self.reserve(first, sync)?;
            self.write()?;
        }
        if sync == SyncMode::Sync || self.has_many_pending() {
            self.sync()?;
        }
        Ok(self.finish_batch())
    }

    /// Makes the next batch start a new file; the batch that is buffered now still goes to the old one.
    pub fn roll(&mut self) {
        self.roll_wanted = true;
        if self.batch.zxids.is_none() {
            self.close();
        }
    }

    /// The last txn that was flushed.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Bytes of records flushed since this writer was created, to compare with `snapSizeLimitInKb`.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The file that the next batch goes to, if it is open already, and its length without padding.
    #[must_use]
    pub fn current_file(&self) -> Option<(&Path, u64)> {
        self.file.as_ref().map(|open| (open.path.as_path(), open.position))
    }

    fn check_usable(&self) -> Result<(), AppendError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Ends the file if its table has no room for the batch.
    fn leave_full_file(&mut self) -> Result<(), AppendError> {
        let Batch { bytes, slots, .. } = &self.batch;
        let is_full = self.file.as_ref().is_some_and(|open| {
            let batch_end = open.position + bytes.len() as u64;
            open.table.as_ref().is_some_and(|table| !table.has_room(batch_end, slots.len()))
        });
        if is_full {
            let roll_wanted = self.roll_wanted;
            self.close();
            self.roll_wanted = roll_wanted;
        }
        self.check_usable()
    }

    /// Opens a file for the batch unless one is open.
    fn open(&mut self, first: Zxid) -> Result<(), AppendError> {
        if self.file.is_some() {
            return Ok(());
        }
        let path = LogName { zxid: first }.path(&self.dir);
        match self.disk.create(&path) {
            Ok(file) => {
                tracing::debug!(path = %path.display(), "new log file");
                self.file = Some(OpenFile {
                    file,
                    path,
                    first,
                    position: 0,
                    bytes: 0,
                    table: None,
                    zeroed_end: 0,
                    dirty_end: 0,
                    data_synced: false,
                    name_synced: false,
                    noted: false,
                });
                Ok(())
            }
            Err(error) if is_full(&error) => Err(full(&path, error)),
            Err(error) if is_out_of_descriptors(&error) => Err(not_opened(&path, error)),
            Err(error) => Err(self.fail("create", &path, error)),
        }
    }

    /// Gives a new file its full length and a table. Without room for that it is a file without a table, and so is one
    /// that is not synced: its slots would have to wait for ever.
    fn reserve(&mut self, first: Zxid, sync: SyncMode) -> Result<(), AppendError> {
        let open = self.file.as_mut().expect("opened before");
        if open.table.is_some() {
            return Ok(());
        }
        let is_new = open.position <= HEADER_BYTES;
        let Batch { bytes, slots, .. } = &self.batch;
        let step = self.options.pre_alloc_bytes;
        let wanted = new_file_bytes(step, bytes.len() as u64, slots.len() as u64);
        let has_table = is_new && self.options.persist_table && sync == SyncMode::Sync;
        let Some(wanted) = wanted.filter(|_| has_table) else {
            return self.grow();
        };
        match open.file.allocate(wanted) {
            Ok(()) => {
                open.bytes = wanted;
                open.table = Some(OpenTable::new((self.last_zxid, first), wanted));
                Ok(())
            }
            Err(error) if is_full(&error) => self.grow(),
            Err(error) => {
                let path = open.path.clone();
                Err(self.fail("grow", &path, error))
            }
        }
    }

    /// Grows the file so that the batch fits, and if there is room, well ahead.
    fn grow(&mut self) -> Result<(), AppendError> {
        let open = self.file.as_mut().expect("opened before");
        let start = open.position.max(HEADER_BYTES);
        let end = start + self.batch.bytes.len() as u64;
        let wanted = grown_bytes(start, open.bytes.max(HEADER_BYTES), end, self.options);
        if wanted <= open.bytes {
            return Ok(());
        }
        let mut grown = open.file.allocate(wanted).map(|()| wanted);
        if grown.as_ref().is_err_and(is_full) && wanted > end {
            grown = if end <= open.bytes {
                Ok(open.bytes)
            } else {
                open.file.allocate(end).map(|()| end)
            };
        }
        match grown {
            Ok(bytes) => {
                open.bytes = bytes;
                Ok(())
            }
            Err(error) if is_full(&error) => {
                let path = open.path.clone();
                self.cut_back(error, &path)
            }
            Err(error) => {
                let path = open.path.clone();
                Err(self.fail("grow", &path, error))
            }
        }
    }

    /// Writes header and footer if they are missing, then the whole batch.
    fn write(&mut self) -> Result<(), AppendError> {
        let open = self.file.as_mut().expect("opened before");
        open.data_synced = false;
        let mut result = Ok(());
        if open.position == 0 {
            result = open.file.write_at(0, &HEADER);
            if result.is_ok() {
                open.position = HEADER_BYTES;
            }
        }
        if let (Ok(()), Some(table)) = (&result, &open.table)
            && table.is_new()
        {
            let (position, footer) = table.footer();
            result = open.file.write_at(position, &footer);
        }
        let batch_bytes = self.batch.bytes.len() as u64;
        let result = result
            .and_then(|()| open.zero_ahead(batch_bytes))
            .and_then(|()| open.file.write_at(open.position, &self.batch.bytes));
        match result {
            Ok(()) => {
                if let Some(table) = &mut open.table {
                    table.add_batch(open.position, &self.batch.slots);
                }
                self.batch.slots.clear();
                open.position += self.batch.bytes.len() as u64;
                open.bytes = open.bytes.max(open.position);
                self.batch.written_bytes += self.batch.bytes.len();
                self.batch.bytes.clear();
                Ok(())
            }
            Err(error) if is_full(&error) => {
                let path = open.path.clone();
                self.cut_back(error, &path)
            }
            Err(error) => {
                let path = open.path.clone();
                Err(self.fail("write", &path, error))
            }
        }
    }

    /// Cuts the file back to the end of the last batch, because there was no room. A file with a table keeps its
    /// length: the next attempt writes to the same place.
    fn cut_back(&mut self, cause: io::Error, path: &Path) -> Result<(), AppendError> {
        let open = self.file.as_mut().expect("opened before");
        if open.table.is_some() {
            open.dirty_end = open.dirty_end.max(open.position + self.batch.bytes.len() as u64);
            return Err(full(path, cause));
        }
        match open.file.set_len(open.position) {
            Ok(()) => {
                open.bytes = open.position;
                Err(full(path, cause))
            }
            Err(error) => Err(self.fail("cut back", path, error)),
        }
    }

    /// Makes everything that was written durable, older files first, and the names of new files.
    fn sync(&mut self) -> Result<(), AppendError> {
        while !self.unsynced.is_empty() {
            self.sync_oldest()?;
        }
        let Some(mut open) = self.file.take() else {
            return Ok(());
        };
        let result = self.sync_file(&mut open);
        self.file = Some(open);
        result
    }

    /// Makes the oldest file that was ended without a sync durable.
    fn sync_oldest(&mut self) -> Result<(), AppendError> {
        let mut open = self.unsynced.remove(0);
        let result = self.sync_file(&mut open);
        if result.as_ref().is_err_and(AppendError::is_temporary) {
            self.unsynced.insert(0, open);
        }
        result
    }

    /// Makes a file durable and, if it is new, its name.
    fn sync_file(&mut self, open: &mut OpenFile) -> Result<(), AppendError> {
        if !open.data_synced {
            if let Err(error) = open.file.sync_data() {
                return Err(self.fail("sync", &open.path, error));
            }
            open.data_synced = true;
        }
        self.write_slots(open)?;
        if !open.name_synced {
            if let Err(error) = self.disk.sync_dir(&self.dir) {
                let path = self.dir.clone();
                return Err(match is_out_of_descriptors(&error) {
                    true => not_opened(&path, error),
                    false => self.fail("sync", &path, error),
                });
            }
            open.name_synced = true;
        }
        self.note(open)
    }

    /// Adds the slots of records that are durable now to the table. They need no sync.
    fn write_slots(&mut self, open: &mut OpenFile) -> Result<(), AppendError> {
        let Some(table) = open.table.as_mut().filter(|table| table.pending() > 0) else {
            return Ok(());
        };
        let position = table.encode_pending(&mut self.slot_bytes);
        let zeros = table.zeros_ahead(open.zeroed_end.max(open.position));
        let written = write_zeros(&mut *open.file, zeros)
            .and_then(|()| open.file.write_at(position, &self.slot_bytes));
        match written {
            Ok(()) => {
                table.pending_written();
                Ok(())
            }
            // It was reserved, but not every file system honours that.
            Err(error) if is_full(&error) => Err(full(&open.path, error)),
            Err(error) => Err(self.fail("write the table of", &open.path, error)),
        }
    }

    /// Notes a new file beside the epochs.
    fn note(&mut self, open: &mut OpenFile) -> Result<(), AppendError> {
        let Some(dir) = self.notes_dir.as_ref().filter(|_| !open.noted) else { return Ok(()) };
        let bytes = open.table.as_ref().map(|_| open.bytes);
        match note_new_log(&*self.disk, dir, open.first, bytes) {
            Ok(()) => {}
            // Snapshots need room there, and the log does not wait for them either.
            Err(error) if is_full(&error) => {
                tracing::warn!(path = %open.path.display(), %error, "cannot note that there is a new log file");
            }
            Err(error) if is_out_of_descriptors(&error) => return Err(not_opened(dir, error)),
            Err(error) => {
                let path = dir.clone();
                return Err(self.fail("note a new log file in", &path, error));
            }
        }
        open.noted = true;
        Ok(())
    }

    /// Whether many slots wait for a sync.
    fn has_many_pending(&self) -> bool {
        let table = self.file.as_ref().and_then(|open| open.table.as_ref());
        table.is_some_and(|table| table.pending() > PENDING_SLOTS_MAX)
    }

    fn finish_batch(&mut self) -> Flushed {
        let bytes = std::mem::take(&mut self.batch.written_bytes);
        let records = std::mem::take(&mut self.batch.records);
        if let Some((_, last)) = self.batch.zxids.take() {
            self.last_zxid = last;
        }
        self.written_bytes += bytes as u64;
        let position = self.file.as_ref().map_or(0, |open| open.position);
        if self.roll_wanted || self.options.file_bytes_max.is_some_and(|max| position > max) {
            self.close();
        }
        Flushed { last_zxid: self.last_zxid, records, bytes }
    }

    /// Ends the file and frees the unused preallocated space. A table stays where it is.
    fn close(&mut self) {
        self.roll_wanted = false;
        let Some(mut open) = self.file.take() else {
            return;
        };
        if let Err(error) = self.end_file(&mut open) {
            tracing::warn!(
                path = %open.path.display(), %error,
                "cannot close the log file properly: its footer is incomplete and its unused space is not \
                 freed; the next start handles it"
            );
        }
        if open.data_synced && open.name_synced {
            return;
        }
        self.unsynced.push(open);
        if self.unsynced.len() > UNSYNCED_FILES_MAX {
            // A failure is stored, and reported by the next call; a file that stays in the list is
            // tried again then.
            _ = self.sync_oldest();
        }
    }

    /// Frees the unused preallocated space, and completes the footer. A table that lacks slots is given up.
    fn end_file(&self, open: &mut OpenFile) -> io::Result<()> {
        let position = open.position;
        let Some(table) = open.table.take().filter(OpenTable::is_complete) else {
            if let Some(dir) = &self.notes_dir {
                forget_open_log(&*self.disk, dir)?;
            }
            return match open.bytes > position {
                true => open.file.set_len(position),
                false => Ok(()),
            };
        };
        if open.dirty_end > position {
            write_zeros(&mut *open.file, position..open.dirty_end)?;
        }
        let (at, footer) = table.ended_footer(position);
        open.file.write_at(at, &footer)?;
        let unused =
            position.next_multiple_of(BLOCK_BYTES)..table.lowest() / BLOCK_BYTES * BLOCK_BYTES;
        match unused.is_empty() {
            true => Ok(()),
            false => open.file.release(unused),
        }
    }

    /// Stores the failure: it is final.
    fn fail(&mut self, action: &'static str, path: &Path, source: io::Error) -> AppendError {
        let error = AppendError::Failed { action, path: path.to_owned(), source: Arc::new(source) };
        tracing::error!(%error, "txn log failed");
        self.failed = Some(error.clone());
        error
    }
}

fn full(path: &Path, source: io::Error) -> AppendError {
    AppendError::Full { path: path.to_owned(), source: Arc::new(source) }
}

fn not_opened(path: &Path, source: io::Error) -> AppendError {
    AppendError::NotOpened { path: path.to_owned(), source: Arc::new(source) }
}

/// The file's length before a batch is written from `start` to `end`. Apache's rule
/// (`FilePadding.calculateFileSizeWithPadding`), then as many steps more as the batch needs, so that
/// a full disk shows before anything is written.
fn grown_bytes(start: u64, bytes: u64, end: u64, options: LogOptions) -> u64 {
    let step = options.pre_alloc_bytes;
    if step == 0 {
        return bytes;
    }
    let mut grown = bytes;
    if start + ROOM_BYTES_MIN >= bytes {
        grown = if start > bytes { (start + step) / step * step } else { bytes + step };
    }
    if end > grown {
        grown += (end - grown).div_ceil(step) * step;
    }
    grown
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
