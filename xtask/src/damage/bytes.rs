//! Damages one byte of one server's log: of a record, of its slot in the persist table, of the file's header or of the
//! table's footer (docs/formats.md). The ensemble must come up by itself, with everything.
//!
//! A byte is zeroed, inverted, or made unreadable: a library that is preloaded into the server fails reads that reach
//! it (`interop/unreadable`).

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

use super::combinations::SERVERS;
use super::records::{FILE_HEAD_BYTES, FOOTER_BYTES, Record, SLOT_BYTES};
use super::repair_log;
use super::site::Site;
use crate::paths;
use crate::rng::Rng;
use crate::run;

/// Bytes of the last record: a create of a znode.
const RECORD_BYTES: usize = 111;

/// In a file's header, after magic and version.
const DATABASE_ID_AT: usize = 8;

/// Where the byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In the header of the file.
    Header,
    /// In its last record.
    Record,
    /// In that record's slot.
    Slot,
    /// In the footer of the persist table.
    Footer,
}

const PARTS: [(Part, &str, usize); 4] = [
    (Part::Header, "header", FILE_HEAD_BYTES),
    (Part::Record, "record", RECORD_BYTES),
    (Part::Slot, "slot", SLOT_BYTES),
    (Part::Footer, "footer", FOOTER_BYTES),
];

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It becomes 0.
    Zero,
    /// All of its bits are inverted.
    Flip,
    /// It cannot be read any more.
    Unreadable,
}

const CHANGES: [(Change, &str); 3] =
    [(Change::Zero, "zero"), (Change::Flip, "flip"), (Change::Unreadable, "unreadable")];

/// A damaged byte of a server: `2:record:17:flip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCase {
    /// The server.
    pub server: usize,
    /// The part of its log file.
    pub part: Part,
    /// The byte in that part.
    pub offset: usize,
    /// What happens to it.
    pub change: Change,
}

impl fmt::Display for ByteCase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let ByteCase { server, part, offset, change } = self;
        let part = PARTS.iter().find(|(it, ..)| it == part).map_or("", |(_, name, _)| name);
        let change = CHANGES.iter().find(|(it, _)| it == change).map_or("", |(_, name)| name);
        write!(f, "{server}:{part}:{offset}:{change}")
    }
}

impl FromStr for ByteCase {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteCase, String> {
        let all = every_byte();
        let found = all
            .into_iter()
            .flat_map(|case| (1..=SERVERS).map(move |server| ByteCase { server, ..case }));
        let found = found.into_iter().find(|case| case.to_string() == text);
        found.ok_or_else(|| "not SERVER:PART:OFFSET:CHANGE, such as 2:record:17:flip".to_owned())
    }
}

/// All of them; each server gets a third.
pub fn every_byte() -> Vec<ByteCase> {
    let mut all = Vec::new();
    for (part, _, bytes) in PARTS {
        for offset in 0..bytes {
            for (change, _) in CHANGES {
                let server = all.len() / CHANGES.len() % SERVERS + 1;
                all.push(ByteCase { server, part, offset, change });
            }
        }
    }
    all
}

/// Draws this many, a part with each of the seeds.
pub fn draw(count: usize, seeds: &[u64]) -> Vec<ByteCase> {
    let mut all = every_byte();
    let mut random: Vec<_> = seeds.iter().map(|seed| Rng::new(*seed)).collect();
    let draw = |number: usize| {
        let left = all.len();
        all.swap_remove(random[number % seeds.len()].below(left))
    };
    (0..count.min(every_byte().len())).map(draw).collect()
}

/// What came of a damaged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was 0 before.
    Unchanged,
    /// The server found it, and got back what it lacked.
    Repaired,
    /// The server started as usual.
    Unnoticed,
}

/// Compiles the library that makes bytes unreadable.
pub fn build_library() -> Result<()> {
    let library = library();
    fs::create_dir_all(library.parent().context("a file in a folder")?)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", "-o"]).arg(library);
    gcc.arg(paths::root().join("interop/unreadable/unreadable.c")).arg("-ldl");
    run::output(&mut gcc).context("compiling interop/unreadable/unreadable.c").map(drop)
}

fn library() -> PathBuf {
    paths::target().join("interop").join("unreadable.so")
}

impl Site {
    /// Damages a byte of one server and starts all: they must come up with everything, and their files must be clean
    /// afterwards.
    pub fn run_byte(&mut self, case: ByteCase) -> Result<Outcome> {
        self.restore()?;
        let record = self.last_record(case.server);
        let path = record.path(&self.member(case.server).data_dir());
        let mut bytes = fs::read(&path)?;
        let at = case.position(record, bytes.len())?;
        if case.change == Change::Zero && bytes[at] == 0 {
            return Ok(Outcome::Unchanged);
        }
        // Stays open, so that no other file gets its inode.
        let file = File::open(&path)?;
        let mut environment = Vec::new();
        match case.change {
            Change::Zero => bytes[at] = 0,
            Change::Flip => bytes[at] = !bytes[at],
            Change::Unreadable => {
                let part = self.member(case.server).dir().join("unreadable");
                let meta = file.metadata()?;
                let text = format!("{} {} {at} {}\n", meta.dev(), meta.ino(), at + 1);
                fs::write(&part, text)?;
                environment.push(format!("LD_PRELOAD={}", library().display()));
                environment.push(format!("UNREADABLE={}", part.display()));
            }
        }
        if case.change != Change::Unreadable {
            fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        self.member_mut(case.server).set_environment(environment);
        let healed = self.heal();
        self.kill_running()?;
        self.member_mut(case.server).set_environment(Vec::new());
        healed?;
        self.outcome(case)
    }

    fn outcome(&self, case: ByteCase) -> Result<Outcome> {
        let log = self.member(case.server).log()?;
        let is_found = repair_log::found_damage(&log);
        ensure!(is_found == case.is_damage(), "found: {is_found}; its log:\n{log}");
        Ok(if is_found { Outcome::Repaired } else { Outcome::Unnoticed })
    }
}

impl ByteCase {
    /// The offset of the byte in a log file of this length.
    fn position(self, record: &Record, file_bytes: usize) -> Result<usize> {
        let Record { start, end, slot, .. } = *record;
        ensure!(end - start == RECORD_BYTES, "the record has {} bytes", end - start);
        let part = match self.part {
            Part::Header => 0,
            Part::Record => start,
            Part::Slot => slot,
            Part::Footer => file_bytes - FOOTER_BYTES,
        };
        Ok(part + self.offset)
    }

    /// Whether the server lacks something without the byte. Nobody reads the last field of the header. The table is not
    /// needed while all records are valid; but if its block cannot be read, it is not known whether there were more.
    fn is_damage(self) -> bool {
        match self.part {
            _ if self.change == Change::Unreadable => true,
            Part::Header => self.offset < DATABASE_ID_AT,
            Part::Record => true,
            Part::Slot | Part::Footer => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_damaged_in_every_way() {
        let all = every_byte();
        assert_eq!(all.len(), 3 * (16 + RECORD_BYTES + 32 + 64));
        assert_eq!(all[0].to_string(), "1:header:0:zero");
        assert!(all.iter().all(|case| case.to_string().parse() == Ok(*case)));
        assert!("4:header:0:zero".parse::<ByteCase>().is_err());
        assert!((1..=SERVERS).all(|id| all.iter().any(|case| case.server == id)));
    }

    #[test]
    fn as_many_as_wanted_are_drawn() {
        assert_eq!(draw(12, &[1, 2]).len(), 12);
        assert_eq!(draw(10_000, &[1]).len(), every_byte().len());
    }
}
