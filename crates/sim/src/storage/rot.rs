//! What may happen to the files of a disk while its server is down, beyond damaged records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use herdsman_store::Disk;

use super::Storage;
use crate::random::Random;

/// The header of a log file.
const HEADER_BYTES: u64 = 16;
/// The end of a log file, with the footer of its table and the first slots.
const TABLE_BYTES: u64 = 512;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotPlace {
    /// A log file.
    Log,
    /// A snapshot.
    Snapshot,
    /// An epoch file, or the copies of both.
    Epochs,
}

/// What has happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// Which kind of file.
    pub place: RotPlace,
    /// What happened.
    pub words: &'static str,
}

impl RotPlace {
    fn of(name: &str) -> Option<Self> {
        match name {
            "currentEpoch" | "acceptedEpoch" | "herdsman.epochs" => Some(RotPlace::Epochs),
            _ if name.starts_with("log.") => Some(RotPlace::Log),
            _ if name.starts_with("snapshot.") => Some(RotPlace::Snapshot),
            _ => None,
        }
    }
}

impl Storage {
    /// Another disk with the same files.
    #[must_use]
    pub fn copy(&self) -> Storage {
        let copy = Storage::new();
        self.disk.copy_to(&copy.disk);
        copy
    }

    /// Makes a file what it was.
    pub fn restore(&self, path: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) {
        match before.get(path) {
            Some(content) => self.disk.put(path, content.clone()),
            None => self.remove(path),
        }
    }

    fn remove(&self, path: &Path) {
        let removed = self.disk.remove(path);
        let dir = path.parent().expect("a file is in a directory");
        removed.and_then(|()| self.disk.sync_dir(dir)).expect("a disk in memory removes files");
    }

    /// Damages some file, or removes it. Returns which one, and what happened.
    pub fn rot_file(&self, random: &mut Random) -> Option<(PathBuf, Rot)> {
        let wanted = *random.pick(&[
            RotPlace::Log,
            RotPlace::Log,
            RotPlace::Log,
            RotPlace::Snapshot,
            RotPlace::Epochs,
        ]);
        let place_of = |path: &Path| RotPlace::of(&path.file_name()?.to_string_lossy());
        let files: Vec<_> =
            self.files().into_iter().filter(|(path, _)| place_of(path) == Some(wanted)).collect();
        if files.is_empty() {
            return None;
        }
        let (path, content) = random.pick(&files).clone();
        let words = self.rot_content(&path, content, wanted, random);
        Some((path, Rot { place: wanted, words }))
    }

    fn rot_content(
        &self,
        path: &Path,
        mut content: Vec<u8>,
        place: RotPlace,
        random: &mut Random,
    ) -> &'static str {
        let bytes = content.len() as u64;
        let is_log = place == RotPlace::Log;
        let what = match random.below(12) {
            0 => {
                self.remove(path);
                return "missing";
            }
            1 => {
                content.clear();
                "empty"
            }
            2 | 3 => {
                content.truncate(random.index(content.len().max(1)));
                "shortened"
            }
            4 => {
                content.extend((0..random.between(1, 2000)).map(|_| random.below(256) as u8));
                "lengthened"
            }
            5 if bytes > 0 => {
                let start = random.below(bytes);
                self.disk.fail_reads(path, start..start + random.between(1, 600));
                return "unreadable in a part";
            }
            6 => {
                self.disk.fail_open(path);
                return "cannot be opened";
            }
            7 | 8 if is_log && bytes > HEADER_BYTES => {
                self.flip_bit(path, random.below(HEADER_BYTES), random);
                return "a bit of the header is flipped";
            }
            9 | 10 if is_log && bytes > TABLE_BYTES => {
                self.flip_bit(path, bytes - 1 - random.below(TABLE_BYTES), random);
                return "a bit of the table is flipped";
            }
            _ if bytes > 0 => {
                self.flip_bit(path, random.below(bytes), random);
                return "a bit is flipped";
            }
            _ => return "nothing",
        };
        self.disk.put(path, content);
        what
    }
}
