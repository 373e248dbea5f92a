//! Runs commands in this process and creates directories for them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Parser;
use herdsman_inspect::{
    BackupArguments, Console, InspectArguments, Outcome, RepairArguments, RestoreArguments,
};
use serde_json::Value;
use tempfile::TempDir;

#[derive(Parser)]
#[command(name = "herdsman")]
enum Command {
    Inspect(InspectArguments),
    Repair(RepairArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    pub code: u8,
    pub out: String,
    pub err: String,
}

impl CommandResult {
    /// Each line of the output as JSON.
    pub fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub fn expect(self, code: u8, pieces: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        for piece in pieces {
            let said = self.out.contains(piece) || self.err.contains(piece);
            assert!(said, "{piece:?} is not in {self:#?}");
        }
        self
    }
}

/// Runs a command without a terminal.
pub fn run(arguments: &[&str]) -> CommandResult {
    run_on(arguments, None, Vec::new())
}

/// Runs a command whose standard output fails from the line that contains this text on.
pub fn run_failing_output(
    text: &'static str,
    kind: ErrorKind,
    arguments: &[&str],
) -> CommandResult {
    run_on(arguments, None, FailingOutput { printed: Vec::new(), text, kind })
}

struct FailingOutput {
    printed: Vec<u8>,
    text: &'static str,
    kind: ErrorKind,
}

impl Write for FailingOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.printed.extend_from_slice(bytes);
        match String::from_utf8_lossy(&self.printed).contains(self.text) {
            true => Err(self.kind.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<FailingOutput> for Vec<u8> {
    fn from(output: FailingOutput) -> Self {
        output.printed
    }
}

/// Runs a command on a terminal with this input.
pub fn run_answering(answer: &str, arguments: &[&str]) -> CommandResult {
    run_on(arguments, Some(answer), Vec::new())
}

fn run_on<W: Write + Into<Vec<u8>>>(
    arguments: &[&str],
    answer: Option<&str>,
    mut out: W,
) -> CommandResult {
    let command = match Command::try_parse_from([&["herdsman"], arguments].concat()) {
        Ok(command) => command,
        Err(error) => return CommandResult { code: 2, out: String::new(), err: error.to_string() },
    };
    let mut err = Vec::new();
    let mut input = answer.unwrap_or_default().as_bytes();
    let mut console = Console::new(&mut out, &mut err);
    if answer.is_some() {
        console = console.answered_by(&mut input);
    }
    let result = match command {
        Command::Inspect(arguments) => arguments.execute(&mut console),
        Command::Repair(arguments) => arguments.execute(&mut console),
        Command::Backup(arguments) => arguments.execute(&mut console),
        Command::Restore(arguments) => arguments.execute(&mut console),
    };
    let mut err = String::from_utf8(err).unwrap();
    let code = match result {
        Ok(Outcome::Sound) => 0,
        Ok(Outcome::Problems) => 1,
        Err(error) => {
            err.push_str(&format!("herdsman: {}\n", herdsman_inspect::describe(&error)));
            2
        }
    };
    CommandResult { code, out: String::from_utf8(out.into()).unwrap(), err }
}

/// The fixtures: data directories that Apache has written.
pub fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let subdirs = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        dirs.sort();
        dirs
    };
    let variants: Vec<PathBuf> = subdirs(&root).iter().flat_map(|dir| subdirs(dir)).collect();
    assert!(variants.len() >= 10, "the fixtures are missing");
    variants
}

/// One fixture, in place.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// A copy of a fixture that may be damaged.
pub struct Copy {
    dir: TempDir,
}

impl Copy {
    pub fn of(name: &str) -> Self {
        let dir = TempDir::with_prefix("herdsman-inspect-").unwrap();
        let target = dir.path().join("version-2");
        fs::create_dir(&target).unwrap();
        for entry in fs::read_dir(fixture(name).join("version-2")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), target.join(entry.file_name())).unwrap();
        }
        Copy { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join("version-2").join(name)
    }

    pub fn file_text(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// Flips one bit.
    pub fn flip(&self, name: &str, offset: u64) {
        let file = fs::OpenOptions::new().read(true).write(true).open(self.file(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    }

    /// Fills a part of a file.
    pub fn write(&self, name: &str, offset: u64, bytes: &[u8]) {
        let file = fs::OpenOptions::new().write(true).open(self.file(name)).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    /// Puts the txn `other` in the place of a txn, under its zxid and with a valid checksum. Both have the same length.
    pub fn replace_record(&self, name: &str, zxid: i64, other: i64) {
        use herdsman_store::log::{RECORD_EXTRA_BYTES, RECORD_HEAD_BYTES, encode_record};
        let offsets = self.offsets(name);
        let bytes = fs::read(self.file(name)).unwrap();
        let record = |zxid: i64| {
            let start = usize::try_from(offsets[&zxid]).unwrap();
            let end = usize::try_from(offsets[&(zxid + 1)]).unwrap();
            &bytes[start..end]
        };
        let payload = |zxid: i64| {
            let record = record(zxid);
            record[RECORD_HEAD_BYTES..record.len() - (RECORD_EXTRA_BYTES - RECORD_HEAD_BYTES)]
                .to_vec()
        };
        let mut forged = payload(other);
        assert_eq!(forged.len(), payload(zxid).len(), "choose another pair");
        forged[12..20].copy_from_slice(&zxid.to_be_bytes());
        let mut record = Vec::new();
        encode_record(&forged, &mut record);
        self.write(name, offsets[&zxid], &record);
    }

    /// Cuts a file.
    pub fn cut(&self, name: &str, bytes: u64) {
        let file = fs::OpenOptions::new().write(true).open(self.file(name)).unwrap();
        file.set_len(bytes).unwrap();
    }

    /// Sets another digest in a snapshot of 3.9, with matching checksums.
    pub fn falsify_digest(&self, name: &str) {
        const SEAL_BYTES: usize = 13;
        let mut bytes = fs::read(self.file(name)).unwrap();
        let last_seal = bytes.len() - SEAL_BYTES;
        let digest = last_seal - 8 - SEAL_BYTES - 8;
        bytes[digest + 7] ^= 1;
        for seal in [digest + 8, last_seal] {
            let sum = herdsman_store::log::checksum(&bytes[..seal]).to_be_bytes();
            bytes[seal..seal + 8].copy_from_slice(&sum);
        }
        fs::write(self.file(name), bytes).unwrap();
    }

    /// Where each txn of a log starts.
    pub fn offsets(&self, name: &str) -> BTreeMap<i64, u64> {
        let ran = run(&["inspect", "log", &self.file_text(name), "--json"]);
        let number =
            |value: &Value| i64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
        let pair = |line: &Value| Some((number(&line["zxid"])?, line["offset"].as_u64()?));
        ran.json().iter().filter_map(pair).collect()
    }

    /// The directory repair-backup-TIME that a repair has made.
    pub fn kept(&self) -> PathBuf {
        let mut dirs: Vec<PathBuf> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.file_name().unwrap().to_str().unwrap().starts_with("repair-backup-")
            })
            .collect();
        assert_eq!(dirs.len(), 1, "{dirs:?}");
        dirs.remove(0)
    }
}

/// Everything below a directory: content, and when it was last changed.
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut rest = vec![dir.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let content = if metadata.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        all.insert(path, (metadata.modified().unwrap(), content));
    }
    all
}

/// Only the content.
pub fn bytes_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    contents(dir).into_iter().map(|(path, (_, bytes))| (path, bytes)).collect()
}

/// The digest in `expected.txt`, if Apache has computed one.
pub fn expected_digest(variant: &Path) -> Option<i64> {
    let text = fs::read_to_string(variant.join("expected.txt")).unwrap();
    let line = text.lines().find(|line| line.starts_with("digest\t"))?;
    line.split('\t').nth(2)?.parse().ok().filter(|digest| *digest != 0)
}

/// The last zxid in `expected.txt`.
pub fn expected_zxid(variant: &Path) -> String {
    let text = fs::read_to_string(variant.join("expected.txt")).unwrap();
    let line = text.lines().find(|line| line.starts_with("zxid\t")).unwrap();
    line.split('\t').nth(1).unwrap().to_owned()
}
