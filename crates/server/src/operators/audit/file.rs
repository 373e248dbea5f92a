//! The file of the audit log: a queue, and a thread that appends its lines.
//!
//! In: lines, from any thread, which never waits. Out: the same lines in order, each after its time
//! (UTC) and level in the form of Apache's log file. A file that was moved or removed is created again before the
//! next line, so logrotate needs neither a signal nor `copytruncate`.
//!
//! When the file cannot be written, the queued lines are kept and retried, so a full disk loses nothing once
//! there is space again. Limit: [`QUEUE_BYTES_MAX`] of lines are queued, and as much again is being written by the
//! thread. When the queue is full, lines are lost, which is reported: the log has an error, a metric
//! counts, and the file gets a line with the number of lines that are missing in that place.
//!
//! Not here: syncing the file. A line survives the end of the process, but perhaps not a
//! power failure, as with Apache.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};

use super::line::{Fields, Outcome};
use crate::clock;
use crate::operators::stats::Counter;
use crate::operators::words::java;
use herdsman_runtime::spawn;

/// Bytes of lines that may be queued for the thread.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// How often a file that cannot be written is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Paths can be sensitive: only the server's user and group may read the file.
const MODE: u32 = 0o640;

/// An open file and the thread that writes it.
#[derive(Debug)]
pub(super) struct AuditFile {
    pipe: Arc<Pipe>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Pipe {
    queue: Mutex<Queue>,
    filled: Condvar,
    bytes_max: usize,
    lost: Counter,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Lines that were lost after those bytes.
    missing: u64,
    closed: bool,
}

impl AuditFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let pipe = Arc::new(Pipe::new(QUEUE_BYTES_MAX));
        let writer = Writer { path: path.to_owned(), file, pipe: Arc::clone(&pipe) };
        let thread = spawn("audit", || writer.run())?;
        Ok(AuditFile { pipe, writer: Mutex::new(Some(thread)) })
    }

    /// Queues a line. Returns false if the file is closed.
    pub fn write(&self, line: &str, outcome: Outcome) -> bool {
        self.pipe.push(&record(clock::wall_ms(), line, outcome))
    }

    pub fn lost(&self) -> u64 {
        self.pipe.lost.get()
    }

    /// Writes the queued lines, and ends the thread.
    pub fn close(&self) {
        self.pipe.queue.lock().closed = true;
        self.pipe.filled.notify_one();
        let thread = self.writer.lock().take();
        if let Some(thread) = thread {
            _ = thread.join();
        }
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl Pipe {
    fn new(bytes_max: usize) -> Self {
        Pipe {
            queue: Mutex::default(),
            filled: Condvar::new(),
            bytes_max,
            lost: Counter::default(),
        }
    }

    fn push(&self, record: &str) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        // Once a line is missing, so are all that follow: the gap must be in one place.
        if queue.missing > 0 || queue.bytes.len() + record.len() > self.bytes_max {
            queue.missing += 1;
            let is_first = queue.missing == 1;
            drop(queue);
            self.lost.add(1);
            if is_first {
                error!("the queue of the audit log is full: lines are being lost");
            }
            return true;
        }
        queue.bytes.extend_from_slice(record.as_bytes());
        drop(queue);
        self.filled.notify_one();
        true
    }

    /// Waits for lines, and returns them and the number of lost lines after them; `None` when the file is closed and
    /// all lines are taken.
    fn take(&self) -> Option<(Vec<u8>, u64)> {
        let mut queue = self.queue.lock();
        while queue.bytes.is_empty() && queue.missing == 0 {
            if queue.closed {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        let missing = std::mem::take(&mut queue.missing);
        Some((std::mem::take(&mut queue.bytes), missing))
    }

    /// Pauses before the next attempt; returns false if the file is closed.
    fn pause(&self) -> bool {
        let mut queue = self.queue.lock();
        if !queue.closed {
            self.filled.wait_for(&mut queue, RETRY);
        }
        !queue.closed
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    pipe: Arc<Pipe>,
}

impl Writer {
    fn run(mut self) {
        while let Some((mut batch, missing)) = self.pipe.take() {
            if missing > 0 {
                error!("{missing} lines of the audit log were lost");
                batch.extend_from_slice(gap(missing).as_bytes());
            }
            self.reopen_if_moved();
            self.write(&batch);
        }
    }

    /// Writes a batch, however long it takes.
    fn write(&mut self, batch: &[u8]) {
        let mut written = 0;
        let mut failed = false;
        while written < batch.len() {
            match self.file.write(&batch[written..]) {
                Ok(count) if count > 0 => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    if !failed {
                        failed = true;
                        let error = outcome.err().unwrap_or(io::ErrorKind::WriteZero.into());
                        let path = self.path.display();
                        error!(
                            "cannot write the audit log {path}: {error}; keeping its lines in memory"
                        );
                    }
                    if !self.pipe.pause() {
                        return self.give_up(&batch[written..]);
                    }
                    written = self.start_of_line_if_moved(batch, written);
                }
            }
        }
        if failed {
            info!("the audit log {} can be written again", self.path.display());
        }
    }

    /// Restarts with a whole line if the file was moved.
    fn start_of_line_if_moved(&mut self, batch: &[u8], written: usize) -> usize {
        if !self.reopen_if_moved() {
            return written;
        }
        batch[..written].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)
    }

    fn give_up(&self, rest: &[u8]) {
        let lines = rest.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.pipe.lost.add(lines);
        error!("the server is stopping and {lines} lines of the audit log are lost");
    }

    /// Returns true if lines are written to another file now.
    fn reopen_if_moved(&mut self) -> bool {
        let here = self.file.metadata().map(|file| (file.dev(), file.ino())).ok();
        let there = std::fs::metadata(&self.path).map(|file| (file.dev(), file.ino())).ok();
        if there.is_some() && here == there {
            return false;
        }
        match append_to(&self.path) {
            Ok(file) => {
                self.file = file;
                info!("the audit log continues in a new file {}", self.path.display());
                true
            }
            Err(error) => {
                let path = self.path.display();
                warn!("cannot reopen the audit log {path}: {error}; still writing to the old file");
                false
            }
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

/// Apache's pattern for its audit file is `%d{ISO8601} %p %c{2}: %m%n`.
fn record(wall_ms: i64, line: &str, outcome: Outcome) -> String {
    let level = if outcome == Outcome::Failure { "ERROR" } else { "INFO" };
    let mut record = String::with_capacity(line.len() + 40);
    let _ = writeln!(record, "{} {level} audit: {line}", java::log_time(wall_ms));
    record
}

/// The line in place of those that are missing.
fn gap(lines: u64) -> String {
    let operation = format!("auditLinesLost:{lines}");
    record(clock::wall_ms(), &Fields::of(&operation).line(Outcome::Failure), Outcome::Failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_record_has_the_form_of_apaches_file() {
        assert_eq!(
            record(951_827_696_007, "operation=create", Outcome::Success),
            "2000-02-29 12:34:56,007 INFO audit: operation=create\n"
        );
        let failure = record(0, "operation=create", Outcome::Failure);
        assert_eq!(failure, "1970-01-01 00:00:00,000 ERROR audit: operation=create\n");
    }

    #[test]
    fn lines_are_appended_and_survive_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("audit.log"), dir.path().join("audit.log.1"));
        std::fs::write(&path, "before\n").unwrap();
        let file = AuditFile::open(&path).unwrap();
        assert!(file.write("one", Outcome::Success));
        file.close();
        assert_eq!(lines(&path).len(), 2);
        assert!(!file.write("late", Outcome::Success), "a closed file takes nothing");
        // The same thread, deterministically: two batches with a rotation in between.
        let pipe = Arc::new(Pipe::new(1000));
        let writer_of = |path: &Path| Writer {
            path: path.to_owned(),
            file: append_to(path).unwrap(),
            pipe: Arc::clone(&pipe),
        };
        let mut writer = writer_of(&path);
        std::fs::rename(&path, &old).unwrap();
        assert!(writer.reopen_if_moved());
        writer.write(b"two\n");
        assert!(!writer.reopen_if_moved());
        assert_eq!((lines(&old).len(), lines(&path)), (2, vec!["two".to_owned()]));
    }

    #[test]
    fn a_full_queue_says_how_much_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let pipe = Arc::new(Pipe::new(8));
        for record in ["one\n", "two\n", "three\n", "4\n"] {
            assert!(pipe.push(record));
        }
        assert_eq!(pipe.lost.get(), 2);
        pipe.queue.lock().closed = true;
        Writer { path: path.clone(), file: append_to(&path).unwrap(), pipe }.run();
        let lines = lines(&path);
        assert_eq!(lines[..2], ["one", "two"]);
        assert!(lines[2].ends_with("ERROR audit: operation=auditLinesLost:2\tresult=failure"));
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn what_cannot_be_written_waits_and_is_counted_when_the_server_stops() {
        let pipe = Arc::new(Pipe::new(1000));
        pipe.push("one\n");
        pipe.push("two\n");
        pipe.queue.lock().closed = true;
        let path = PathBuf::from("/dev/full");
        Writer { file: append_to(&path).unwrap(), path, pipe: Arc::clone(&pipe) }.run();
        assert_eq!(pipe.lost.get(), 2);
    }

    #[test]
    fn a_new_file_begins_with_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let pipe = Arc::new(Pipe::new(1000));
        let mut writer = Writer { file: append_to(&path).unwrap(), path: path.clone(), pipe };
        let batch = b"one\ntwo\nthree\n";
        assert_eq!(writer.start_of_line_if_moved(batch, 6), 6);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(writer.start_of_line_if_moved(batch, 6), 4);
    }
}
