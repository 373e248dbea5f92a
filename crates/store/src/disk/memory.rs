//! A disk in memory that can crash, fill up, lose its power, fail a sync and flip bits, all on command and
//! repeatably.
//!
//! Every file has two contents: what a reader sees now and what the last sync made durable; the names
//! in a directory likewise. [`MemoryDisk::crash`] drops the difference piece by piece, as its caller
//! decides: sector by sector, so that a write can be torn wherever a real disk tears it. Files
//! that were open before the crash return errors from then on.
//!
//! After an injected sync failure the file behaves as on Linux: what was to be synced stays readable,
//! later syncs succeed, and none of them makes it durable. So code that retries a sync fails its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{DirEntry, Disk, DiskLock, LockError, ReadFile, WriteFile, out_of_descriptors};

/// The unit that a disk writes atomically.
pub const SECTOR_BYTES: usize = 512;

/// Something written and not synced: [`MemoryDisk::crash`] asks whether it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced<'a> {
    /// A name created, changed or removed. Names survive in order: after the first "no" there is no further question
    /// about names.
    Name(&'a Path),
    /// A file's new length.
    Length(&'a Path),
    /// The new content of a sector of a file.
    Sector(&'a Path, u64),
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeMap<PathBuf, String>,
    capacity_bytes: Option<u64>,
    opens_fail: bool,
    syncs: u64,
    lists: u64,
    failing_sync: Option<u64>,
    crashes: u64,
    changes: u64,
    power_ends_at: Option<u64>,
    unreadable: Vec<(PathBuf, Option<Range<u64>>)>,
}

#[derive(Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Ranges of `content` written since the last sync.
    dirty: Vec<Range<usize>>,
    /// The shortest that `content` was since the last sync.
    shortest: usize,
    /// A sync failed: nothing becomes durable any more.
    lost: bool,
    /// A part that takes no space.
    hole: Range<usize>,
}

enum NameChange {
    Link(PathBuf, usize),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    fn path(&self) -> &Path {
        match self {
            NameChange::Link(path, _) | NameChange::Unlink(path) | NameChange::Rename(_, path) => {
                path
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Unlink(path) => {
                names.remove(path);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl MemoryDisk {
    /// An empty disk without limit.
    #[must_use]
    pub fn new() -> Self {
        MemoryDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulates a power failure. `survives` is called for everything unsynced, names first, then file by
    /// file in the order of names, sectors in the order of offsets.
    pub fn crash(&self, mut survives: impl FnMut(Unsynced<'_>) -> bool) {
        let mut state = self.state();
        state.crashes += 1;
        state.power_ends_at = None;
        state.locks.clear();
        let pending = std::mem::take(&mut state.pending_names);
        for change in pending {
            if !survives(Unsynced::Name(change.path())) {
                break;
            }
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        let State { names, inodes, .. } = &mut *state;
        for (path, inode) in names {
            inodes[*inode].settle(path, &mut survives);
        }
    }

    /// Limits the total bytes of all files; `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity_bytes = bytes;
    }

    /// Sets whether files and directories can be opened, or fail as if no file descriptors were left.
    pub fn set_openable(&self, openable: bool) {
        self.state().opens_fail = !openable;
    }

    /// Makes reads of a part of a file fail, as a bad block does, until it is written again or cut off, or a file of
    /// that name is made anew.
    pub fn fail_reads(&self, path: &Path, range: Range<u64>) {
        self.state().unreadable.push((path.to_owned(), Some(range)));
    }

    /// Makes opening a file fail, as damaged metadata does, until a file of that name is made anew.
    pub fn fail_open(&self, path: &Path) {
        self.state().unreadable.push((path.to_owned(), None));
    }

    /// Copies the files to another disk, durably, with the parts that cannot be read.
    pub fn copy_to(&self, other: &MemoryDisk) {
        let state = self.state();
        for (path, inode) in &state.names {
            other.put(path, state.inodes[*inode].content.clone());
        }
        other.state().unreadable.clone_from(&state.unreadable);
    }

    /// Makes the n-th file sync from now on fail (0: the next).
    pub fn fail_sync(&self, n: u64) {
        let mut state = self.state();
        state.failing_sync = Some(state.syncs + n);
    }

    /// Cuts the power after `n` more changes: from then on nothing is changed or made durable, and
    /// every attempt gets an error, until [`MemoryDisk::crash`] decides what is left. A test that goes
    /// through all `n` up to the [`MemoryDisk::changes`] of an operation crashes it everywhere.
    pub fn cut_power_after(&self, n: u64) {
        let mut state = self.state();
        state.power_ends_at = Some(state.changes + n);
    }

    /// Changes made so far: files created, written, grown, cut, renamed, removed or synced, and
    /// directories synced.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// File syncs so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Directories listed so far.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.state().lists
    }

    /// The current content of a file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|inode| state.inodes[*inode].content.clone())
    }

    /// Creates a file durably, or changes it without any open handle noticing.
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        let mut state = self.state();
        if let Some(parent) = path.parent() {
            state.dirs.insert(parent.to_owned());
        }
        let inode = Inode {
            shortest: content.len(),
            durable: content.clone(),
            content,
            ..Inode::default()
        };
        let number = state.inodes.len();
        state.inodes.push(inode);
        state.unreadable.retain(|(bad, _)| bad != path);
        state.names.insert(path.to_owned(), number);
        state.durable_names.insert(path.to_owned(), number);
    }

    /// Flips one bit of a file, durably.
    pub fn flip_bit(&self, path: &Path, offset: usize, bit: u8) {
        let mut state = self.state();
        let Some(number) = state.names.get(path).copied() else {
            return;
        };
        let inode = &mut state.inodes[number];
        for content in [&mut inode.content, &mut inode.durable] {
            if let Some(byte) = content.get_mut(offset) {
                *byte ^= 1 << bit;
            }
        }
    }
}

impl State {
    fn inode(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
    }

    fn check_openable(&self) -> io::Result<()> {
        match self.opens_fail {
            true => Err(out_of_descriptors(io::Error::other("no file descriptors left"))),
            false => Ok(()),
        }
    }

    /// Counts a change before it is made.
    fn count_change(&mut self) -> io::Result<()> {
        if self.power_ends_at.is_some_and(|end| self.changes >= end) {
            return Err(io::Error::other("the power is off"));
        }
        self.changes += 1;
        Ok(())
    }

    /// Fails if the file, or this part of it, is unreadable.
    fn check_readable(&self, inode: usize, part: Option<&Range<u64>>) -> io::Result<()> {
        let is_bad = |(path, bad): &(PathBuf, Option<Range<u64>>)| {
            self.names.get(path) == Some(&inode)
                && match (bad, part) {
                    (Some(bad), Some(part)) => bad.start < part.end && part.start < bad.end,
                    (bad, part) => bad.is_none() && part.is_none(),
                }
        };
        match self.unreadable.iter().any(is_bad) {
            true => Err(rustix::io::Errno::IO.into()),
            false => Ok(()),
        }
    }

    /// This part of a file has other blocks now, or is gone.
    fn make_readable(&mut self, inode: usize, part: &std::ops::Range<u64>) {
        for (path, bad) in std::mem::take(&mut self.unreadable) {
            match bad {
                Some(bad) if self.names.get(&path) == Some(&inode) => {
                    let left =
                        [bad.start..bad.end.min(part.start), bad.start.max(part.end)..bad.end];
                    let left = left.into_iter().filter(|left| left.start < left.end);
                    self.unreadable.extend(left.map(|left| (path.clone(), Some(left))));
                }
                bad => self.unreadable.push((path, bad)),
            }
        }
    }

    fn change_names(&mut self, change: NameChange) {
        // A new file has other blocks.
        self.unreadable.retain(|(path, _)| path != change.path());
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    /// How many bytes a file may grow by.
    fn room(&self) -> u64 {
        let used: u64 =
            self.names.values().map(|inode| self.inodes[*inode].used_bytes() as u64).sum();
        self.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(used))
    }
}

impl Inode {
    /// The space that it takes.
    fn used_bytes(&self) -> usize {
        let bytes = self.content.len();
        bytes - (self.hole.end.min(bytes) - self.hole.start.min(bytes))
    }

    fn set_len(&mut self, bytes: usize) {
        self.content.resize(bytes, 0);
        self.shortest = self.shortest.min(bytes);
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[offset..end].copy_from_slice(bytes);
        self.dirty.push(offset..end);
    }

    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        if self.lost {
            return;
        }
        self.durable.truncate(self.shortest);
        self.durable.resize(self.content.len(), 0);
        for range in dirty {
            let end = range.end.min(self.content.len());
            if range.start < end {
                self.durable[range.start..end].copy_from_slice(&self.content[range.start..end]);
            }
        }
        self.shortest = self.content.len();
    }

    /// Applies the parts of the difference between `content` and `durable` that survive.
    fn settle(&mut self, path: &Path, survives: &mut impl FnMut(Unsynced<'_>) -> bool) {
        let (old, new) = (self.durable.len(), self.content.len());
        let length = if old == new || survives(Unsynced::Length(path)) { new } else { old };
        let mut settled = std::mem::take(&mut self.durable);
        settled.resize(length, 0);
        self.content.resize(length, 0);
        for (index, sector) in settled.chunks_mut(SECTOR_BYTES).enumerate() {
            let offset = index * SECTOR_BYTES;
            let written = &self.content[offset..offset + sector.len()];
            if sector != written && survives(Unsynced::Sector(path, offset as u64)) {
                sector.copy_from_slice(written);
            }
        }
        *self = Inode {
            shortest: length,
            durable: settled.clone(),
            content: settled,
            hole: std::mem::take(&mut self.hole),
            ..Inode::default()
        };
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let mut state = self.state();
        state.check_openable()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.count_change()?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.change_names(NameChange::Link(path.to_owned(), inode));
        drop(state);
        self.open_write(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let state = self.state();
        state.check_openable()?;
        Ok(Box::new(MemoryFile {
            inode: state.inode(path)?,
            crashes: state.crashes,
            disk: self.clone(),
        }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let state = self.state();
        state.check_openable()?;
        state.check_readable(state.inode(path)?, None)?;
        Ok(Box::new(MemoryFile {
            inode: state.inode(path)?,
            crashes: state.crashes,
            disk: self.clone(),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.state();
        state.check_openable()?;
        state.lists += 1;
        let state = &*state;
        if !state.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |(path, inode): (&PathBuf, &usize)| {
            let name = path.strip_prefix(dir).ok()?.to_str()?;
            (!name.contains('/')).then(|| DirEntry {
                name: name.to_owned(),
                bytes: state.inodes[*inode].content.len() as u64,
            })
        };
        Ok(state.names.iter().filter_map(inside).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.inode(from)?;
        state.count_change()?;
        state.change_names(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.inode(path)?;
        state.count_change()?;
        state.change_names(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        for ancestor in dir.ancestors() {
            state.dirs.insert(ancestor.to_owned());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check_openable()?;
        state.count_change()?;
        let pending = std::mem::take(&mut state.pending_names);
        for change in pending {
            if change.path().parent() == Some(dir) {
                change.apply(&mut state.durable_names);
            } else {
                state.pending_names.push(change);
            }
        }
        Ok(())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.open_write(path)?.sync_data()
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.state().room())
    }

    fn lock(&self, path: &Path, note: &str) -> Result<Box<dyn DiskLock>, LockError> {
        let mut state = self.state();
        if let Some(note) = state.locks.get(path) {
            return Err(LockError::Held { note: note.clone() });
        }
        state.locks.insert(path.to_owned(), note.to_owned());
        Ok(Box::new(MemoryLock {
            disk: self.clone(),
            path: path.to_owned(),
            crashes: state.crashes,
        }))
    }

    /// There are no links, so the lock file is enough.
    fn lock_directories(&self, _: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, LockError> {
        Ok(Vec::new())
    }
}

struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
    crashes: u64,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.crashes == self.crashes {
            state.locks.remove(&self.path);
        }
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    inode: usize,
    crashes: u64,
}

impl MemoryFile {
    fn with<T>(&self, run: impl FnOnce(&mut State, usize) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.crashes != self.crashes {
            return Err(io::Error::other("the disk has crashed since"));
        }
        run(&mut state, self.inode)
    }

    fn change<T>(&self, run: impl FnOnce(&mut State, usize) -> io::Result<T>) -> io::Result<T> {
        self.with(|state, inode| {
            state.count_change()?;
            run(state, inode)
        })
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl WriteFile for MemoryFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|state, inode| {
            let offset = index(offset)?;
            let room = usize::try_from(state.room()).unwrap_or(usize::MAX);
            let end_max = state.inodes[inode].content.len().saturating_add(room);
            let fits = bytes.len().min(end_max.saturating_sub(offset));
            state.inodes[inode].write(offset, &bytes[..fits]);
            state.make_readable(inode, &(offset as u64..(offset + fits) as u64));
            if fits == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        })
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.change(|state, inode| {
            let from = state.inodes[inode].content.len() as u64;
            if bytes <= from {
                return Ok(());
            }
            if bytes - from > state.room() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.inodes[inode].set_len(index(bytes)?);
            Ok(())
        })
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.change(|state, inode| {
            state.inodes[inode].set_len(index(bytes)?);
            state.make_readable(inode, &(bytes..u64::MAX));
            Ok(())
        })
    }

    fn release(&mut self, part: Range<u64>) -> io::Result<()> {
        self.change(|state, inode| {
            let hole = index(part.start)?..index(part.end)?;
            let zeros = vec![0; hole.len()];
            state.inodes[inode].write(hole.start, &zeros);
            state.inodes[inode].hole = hole;
            Ok(())
        })
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.change(|state, inode| {
            let number = state.syncs;
            state.syncs += 1;
            if state.failing_sync == Some(number) {
                state.inodes[inode].lost = true;
                return Err(io::Error::other("injected sync failure"));
            }
            state.inodes[inode].sync();
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        self.with(|state, inode| Ok(state.inodes[inode].content.len() as u64))
    }
}

impl ReadFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|state, inode| {
            let content = &state.inodes[inode].content;
            let rest = content.get(index(offset)?..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            state.check_readable(inode, Some(&(offset..offset + count as u64)))?;
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        WriteFile::bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_dir(Path::new("/d")).unwrap();
        disk
    }

    #[test]
    fn only_what_was_synced_must_survive() {
        let (disk, path) = (disk(), Path::new("/d/f"));
        let mut file = disk.create(path).unwrap();
        file.write_at(0, &[1; 1024]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(0, &[2; 2048]).unwrap();
        disk.crash(|unsynced| unsynced != Unsynced::Sector(path, 512));
        let expected = [[2; 512], [1; 512], [2; 512], [2; 512]].concat();
        assert_eq!(disk.content(path).unwrap(), expected);
        assert!(file.write_at(0, b"late").is_err());
        disk.open_write(path).unwrap().set_len(3).unwrap();
        disk.crash(|_| false);
        assert_eq!(disk.content(path).unwrap(), expected);
    }

    #[test]
    fn names_survive_in_order() {
        let disk = disk();
        for name in ["a", "b"] {
            disk.create(&Path::new("/d").join(name)).unwrap();
        }
        disk.crash(|unsynced| unsynced != Unsynced::Name(Path::new("/d/b")));
        assert_eq!(disk.list(Path::new("/d")).unwrap().len(), 1);
    }

    #[test]
    fn what_a_failed_sync_lost_never_becomes_durable() {
        let (disk, path) = (disk(), Path::new("/d/f"));
        let mut file = disk.create(path).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(0, b"x").unwrap();
        disk.fail_sync(0);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        disk.crash(|_| false);
        assert_eq!(disk.content(path).unwrap(), b"");
    }

    #[test]
    fn without_power_nothing_changes() {
        let (disk, path) = (disk(), Path::new("/d/f"));
        let mut file = disk.create(path).unwrap();
        file.write_at(0, b"one").unwrap();
        disk.cut_power_after(2);
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        assert_eq!(disk.changes(), 4);
        assert!(file.write_at(0, b"two").is_err());
        assert!(file.sync_data().is_err());
        assert!(disk.remove(path).is_err());
        disk.crash(|_| true);
        assert_eq!(disk.content(path).unwrap(), b"one");
        disk.remove(path).unwrap();
    }

    #[test]
    fn a_released_part_takes_no_space() {
        let (disk, path) = (disk(), Path::new("/d/f"));
        disk.set_capacity(Some(100));
        let mut file = disk.create(path).unwrap();
        file.write_at(0, &[7; 90]).unwrap();
        file.release(10..80).unwrap();
        let expected = [[7; 10].as_slice(), &[0; 70], &[7; 10]].concat();
        assert_eq!(disk.content(path).unwrap(), expected);
        assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 80);
        file.set_len(50).unwrap();
        assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 90);
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let (disk, path) = (disk(), Path::new("/d/f"));
        disk.set_capacity(Some(10));
        let mut file = disk.create(path).unwrap();
        assert!(super::super::is_full(&file.allocate(11).unwrap_err()));
        assert!(super::super::is_full(&file.write_at(0, &[7; 12]).unwrap_err()));
        assert_eq!(disk.content(path).unwrap(), [7; 10]);
        disk.set_capacity(None);
        file.write_at(0, &[7; 12]).unwrap();
    }
}
