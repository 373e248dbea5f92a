//! Tests the guarantee of docs/tools.md: if a tool is stopped, the directory has the old state or the new one, and the
//! same command again finishes it. Every command is run once for each change that it makes on disk, and stopped there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use herdsman_proto::Zxid;
use herdsman_store::names::GUARD;
use herdsman_store::recover::load;
use herdsman_store::replace::pending;
use herdsman_store::{Dirs, EpochFile, RealDisk, RecoverOptions, read_epoch, recover, voting};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::durable::faults::{Fault, with_fault};
use crate::verify::data_dir::load_options;
use crate::{BackupArguments, Console, Outcome, RepairArguments, RestoreArguments};

#[derive(Parser)]
#[command(name = "herdsman")]
enum Command {
    Repair(RepairArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
}

/// How a command ended, and what it printed.
#[derive(Debug)]
struct CommandResult {
    code: u8,
    text: String,
}

fn run(arguments: &[String]) -> CommandResult {
    let arguments = std::iter::once("herdsman".to_owned()).chain(arguments.iter().cloned());
    let command = Command::try_parse_from(arguments).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console::new(&mut out, &mut err);
    let result = match command {
        Command::Repair(arguments) => arguments.execute(&mut console),
        Command::Backup(arguments) => arguments.execute(&mut console),
        Command::Restore(arguments) => arguments.execute(&mut console),
    };
    let mut text = String::from_utf8([out, err].concat()).unwrap();
    let code = match result {
        Ok(Outcome::Sound) => 0,
        Ok(Outcome::Problems) => 1,
        Err(error) => {
            text.push_str(&format!("herdsman: {}\n", crate::describe(&error)));
            2
        }
    };
    CommandResult { code, text }
}

/// What a server would start with: last txn, digest, epochs, and whether it votes. `None` if it refuses.
type State = Option<(Zxid, i64, [Option<u32>; 2], bool)>;

/// A data directory, with its logs there or elsewhere, and a directory beside it.
struct TestDirs {
    root: TempDir,
    dirs: Dirs,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/apache-3.9.5").join(name)
}

impl TestDirs {
    fn new(is_separate: bool) -> Self {
        // In memory where that can be: nothing here is about power failures, and syncing takes long.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let data_dir = root.path().join("data");
        let log_dir = if is_separate { root.path().join("logs") } else { data_dir.clone() };
        let dirs = Dirs::below(&data_dir, &log_dir);
        dirs.create(&RealDisk).unwrap();
        fs::create_dir(root.path().join("out")).unwrap();
        for entry in fs::read_dir(fixture("plain").join("version-2")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            let is_log = name.to_str().unwrap().starts_with("log.");
            fs::copy(entry.path(), if is_log { &dirs.log } else { &dirs.data }.join(name)).unwrap();
        }
        TestDirs { root, dirs }
    }

    /// A member of an ensemble that must not vote.
    fn member(self) -> Self {
        fs::write(self.dirs.data.join("acceptedEpoch"), "7").unwrap();
        fs::write(self.dirs.data.join("currentEpoch"), "6").unwrap();
        fs::write(self.dirs.data.join(voting::SUSPENDED_FILE), "lost\n").unwrap();
        self
    }

    fn flip(self, name: &str, offset: usize) -> Self {
        let dir = if name.starts_with("log.") { &self.dirs.log } else { &self.dirs.data };
        let mut bytes = fs::read(dir.join(name)).unwrap();
        bytes[offset] ^= 1;
        fs::write(dir.join(name), bytes).unwrap();
        self
    }

    fn cut(self, name: &str, bytes: u64) -> Self {
        let file = fs::OpenOptions::new().write(true).open(self.dirs.log.join(name)).unwrap();
        file.set_len(bytes).unwrap();
        self
    }

    fn text(&self, name: &str) -> String {
        self.root.path().join(name).to_str().unwrap().to_owned()
    }

    fn dir_arguments(&self) -> [String; 2] {
        let log_dir = self.dirs.log.parent().unwrap().to_str().unwrap().to_owned();
        ["--log-dir".to_owned(), log_dir]
    }

    fn repair(&self, action: &str) -> Vec<String> {
        let words = ["repair".to_owned(), self.text("data"), action.to_owned(), "--yes".to_owned()];
        [&words[..], &self.dir_arguments()].concat()
    }

    fn restore(&self, backup: &Path) -> Vec<String> {
        let backup = backup.to_str().unwrap().to_owned();
        let words = ["restore".to_owned(), backup, "--data-dir".to_owned(), self.text("data")];
        let forced = ["--force".to_owned(), "--yes".to_owned()];
        [&words[..], &self.dir_arguments(), &forced].concat()
    }

    fn backup(&self, target: &str) -> Vec<String> {
        let words = ["backup".to_owned(), "--data-dir".to_owned(), self.text("data")];
        let target = ["-o".to_owned(), self.text(target)];
        [&words[..], &self.dir_arguments(), &target].concat()
    }

    /// The state that a server would start with, without changing anything.
    fn looked_at(&self) -> Option<(Zxid, i64)> {
        let loaded = load(&RealDisk, &self.dirs, &load_options(), &mut |_| {}).ok()?;
        Some((loaded.0.tree.last_zxid(), loaded.0.tree.digest()))
    }

    /// The state that a server starts with. It repairs and finishes, so the directories change.
    fn started(&self) -> State {
        let options = RecoverOptions { tree: load_options().tree, ..RecoverOptions::default() };
        let recovered = recover(&RealDisk, &self.dirs, &options, &mut |_| {}).ok()?;
        let epoch = |file| read_epoch(&RealDisk, &self.dirs.data, file).unwrap();
        let epochs = [epoch(EpochFile::Current), epoch(EpochFile::Accepted)];
        let votes = voting::suspended(&RealDisk, &self.dirs).unwrap().is_none();
        Some((recovered.tree.last_zxid(), recovered.tree.digest(), epochs, votes))
    }

    /// Every file below the root, also what was kept.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut rest = vec![self.root.path().to_owned()];
        while let Some(dir) = rest.pop() {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    rest.push(path);
                } else if entry.file_name() != "herdsman.lock" {
                    let name = path.strip_prefix(self.root.path()).unwrap().to_owned();
                    files.insert(name, fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

const KINDS: [Fault; 3] = [Fault::Kill, Fault::Once(Errno::NOSPC), Fault::FromThenOn(Errno::ROFS)];

/// Stops a command at each of its changes. `make` makes the directories, `command` the arguments for them.
fn sweep(make: impl Fn() -> TestDirs, command: impl Fn(&TestDirs) -> Vec<String>) {
    let (old, new, changes) = {
        let old = make().started();
        let test = make();
        let before = test.files();
        let (ran, changes) = with_fault(None, || run(&command(&test)));
        assert_eq!(ran.code, 0, "{ran:?}");
        check_kept(&before, &test, "not stopped");
        (old, test.started(), changes)
    };
    assert!(changes > 5 && new.is_some() && new != old, "{changes} {old:?} {new:?}");
    let mut seen = [0, 0];
    for kind in KINDS {
        for number in 0..changes {
            let at = format!("{kind:?} at {number}");
            let (test, again) = (make(), make());
            let before = test.files();
            let stop = Some((number, kind));
            let (ran, _) = with_fault(stop, || run(&command(&test)));
            check_message(&ran, kind, &before, &test, &at);
            check_kept(&before, &test, &at);
            with_fault(stop, || run(&command(&again)));
            let looked = test.looked_at();
            let started = test.started();
            assert!(started == old || started == new, "{at}: {started:?} {ran:?}");
            seen[usize::from(started == new)] += 1;
            assert!(ran.code != 0 || started == new, "{at}: {started:?} {ran:?}");
            assert_eq!(looked, started.map(|(zxid, digest, ..)| (zxid, digest)), "{at}");
            let ran = run(&command(&again));
            assert_eq!(ran.code, 0, "{at}: {ran:?}");
            assert!(
                !ran.text.contains("restored") || ran.text.contains("the previous state is in")
            );
            check_kept(&before, &again, &at);
            assert_eq!(again.started(), new, "{at}");
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// No file is lost: each is where it was, or is kept somewhere under its name.
fn check_kept(before: &BTreeMap<PathBuf, Vec<u8>>, test: &TestDirs, at: &str) {
    let after = test.files();
    for (path, bytes) in before {
        let name = path.file_name();
        let is_kept = after.iter().any(|(other, held)| other.file_name() == name && held == bytes);
        assert!(is_kept, "{at}: {} is gone from {:?}", path.display(), after.keys());
    }
}

/// A command that says that nothing was changed has changed nothing, and one that failed says why.
fn check_message(
    ran: &CommandResult,
    kind: Fault,
    before: &BTreeMap<PathBuf, Vec<u8>>,
    test: &TestDirs,
    at: &str,
) {
    assert!(ran.code == 0 || ran.text.contains("herdsman: "), "{at}: {ran:?}");
    let says_guarded = ran.text.contains("are left: Apache ZooKeeper refuses to start");
    assert!(!says_guarded || test.dirs.log.join(GUARD).exists(), "{at}: {ran:?}");
    let is_unchanged = ran.text.to_lowercase().contains("nothing was changed");
    // After the other two, what was prepared cannot be removed again.
    if is_unchanged && matches!(kind, Fault::Once(_)) {
        assert_eq!(&test.files(), before, "{at}: {ran:?}");
    }
}

#[test]
fn a_restore_leaves_the_old_state_or_the_new_one() {
    let backup = fixture("plain/version-2/snapshot.54");
    for is_separate in [false, true] {
        sweep(|| TestDirs::new(is_separate).member(), |test| test.restore(&backup));
    }
}

/// Into directories that are not there yet.
#[test]
fn a_restore_into_nothing_leaves_nothing_or_the_new_state() {
    let backup = fixture("plain/version-2/snapshot.54");
    for is_separate in [false, true] {
        let make = || {
            let test = TestDirs::new(is_separate);
            fs::remove_dir_all(test.text("data")).unwrap();
            let _ = fs::remove_dir_all(test.text("logs"));
            test
        };
        let test = make();
        let arguments = |test: &TestDirs| {
            let mut arguments = test.restore(&backup);
            arguments.retain(|word| word != "--force" && word != "--yes");
            arguments
        };
        let (ran, changes) = with_fault(None, || run(&arguments(&test)));
        assert_eq!(ran.code, 0, "{ran:?}");
        let new = test.started();
        for kind in KINDS {
            for number in 0..changes {
                let test = make();
                with_fault(Some((number, kind)), || run(&arguments(&test)));
                let looked = test.looked_at().filter(|(zxid, _)| *zxid != Zxid::ZERO);
                let expected = new.map(|(zxid, digest, ..)| (zxid, digest));
                assert!(looked.is_none() || looked == expected, "{kind:?} at {number}");
                let ran = run(&arguments(&test));
                assert_eq!(ran.code, 0, "{kind:?} at {number}: {ran:?}");
                assert_eq!(test.started(), new, "{kind:?} at {number}");
            }
        }
    }
}

#[test]
fn each_repair_leaves_the_old_state_or_the_new_one() {
    // Txn 0x60 is damaged, and 0x30 in the log before.
    let in_last =
        |is_separate| TestDirs::new(is_separate).flip("log.55", offset_of("log.55", 0x60));
    let in_first = |is_separate| {
        let test = TestDirs::new(is_separate).flip("log.1", offset_of("log.1", 0x30));
        test.flip("snapshot.54", 500)
    };
    for is_separate in [false, true] {
        sweep(|| in_last(is_separate).member(), |test| test.repair("--accept-loss"));
        sweep(|| in_first(is_separate), |test| test.repair("--accept-loss"));
        sweep(|| in_last(is_separate), |test| test.repair("--accept-loss=damaged-only"));
        let from = format!("--from={}", fixture("plain").display());
        sweep(|| in_last(is_separate).member(), |test| test.repair(&from));
        sweep(|| in_first(is_separate), |test| test.repair(&from));
    }
}

/// The state is the same before and after, so it must be at each moment in between.
#[test]
fn a_repair_without_loss_keeps_the_state_at_each_moment() {
    let torn = |is_separate| {
        let end = offset_of("log.55", 0x71) as u64 + 30;
        TestDirs::new(is_separate).cut("log.55", end)
    };
    let damaged = |is_separate| TestDirs::new(is_separate).flip("snapshot.54", 500);
    for is_separate in [false, true] {
        constant(|| torn(is_separate), |test| test.repair("--cut-torn-tail"));
        constant(|| damaged(is_separate), |test| test.repair("--rebuild-snapshot"));
        let older = "--rebuild-snapshot=snapshot.0";
        constant(|| TestDirs::new(is_separate), |test| test.repair(older));
    }
}

/// As [`sweep`], where the old state and the new one are the same.
fn constant(make: impl Fn() -> TestDirs, command: impl Fn(&TestDirs) -> Vec<String>) {
    let expected = make().started();
    assert!(expected.is_some());
    let test = make();
    let (ran, changes) = with_fault(None, || run(&command(&test)));
    assert!(ran.code == 0 && changes > 5, "{changes} {ran:?}");
    for kind in KINDS {
        for number in 0..changes {
            let at = format!("{kind:?} at {number}");
            let (test, again) = (make(), make());
            let before = test.files();
            for test in [&test, &again] {
                let (ran, _) = with_fault(Some((number, kind)), || run(&command(test)));
                check_message(&ran, kind, &before, test, &at);
                check_kept(&before, test, &at);
            }
            assert_eq!(test.started(), expected, "{at}");
            let ran = run(&command(&again));
            assert_eq!(ran.code, 0, "{at}: {ran:?}");
            assert_eq!(again.started(), expected, "{at}");
        }
    }
}

/// Where a txn's record is in the fixture, a little behind its start.
fn offset_of(log: &str, zxid: i64) -> usize {
    let path = fixture("plain/version-2").join(log);
    let mut found = None;
    crate::log_file::read_log(&path, &mut |piece| {
        if let crate::log_file::LogItem::Txn { offset, entry } = piece {
            found = found.or((entry.header.zxid.0 == zxid).then_some(*offset));
        }
        Ok(())
    })
    .unwrap();
    usize::try_from(found.unwrap()).unwrap() + 20
}

/// A restore was interrupted, and another command follows: what it says that it has left alone, it has.
#[test]
fn nothing_was_changed_is_true_after_an_interrupted_restore() {
    let (first, other) =
        (fixture("plain/version-2/snapshot.54"), fixture("unclean/version-2/snapshot.0"));
    let without = |mut arguments: Vec<String>, words: &[&str]| {
        arguments.retain(|word| !words.contains(&word.as_str()));
        arguments
    };
    let commands = |test: &TestDirs| {
        [
            without(test.restore(&other), &["--force", "--yes"]),
            without(test.restore(&other), &["--yes"]),
            without(test.repair("--accept-loss"), &["--yes"]),
            without(test.repair("--rebuild-snapshot"), &["--yes"]),
            test.repair("--rebuild-snapshot=snapshot.1"),
        ]
    };
    let test = TestDirs::new(true);
    let (_, changes) = with_fault(None, || run(&test.restore(&first)));
    let mut unchanged = 0;
    for number in 0..changes {
        for command in 0..commands(&test).len() {
            let test = TestDirs::new(true);
            with_fault(Some((number, Fault::Kill)), || run(&test.restore(&first)));
            let before = test.files();
            let ran = run(&commands(&test)[command]);
            if ran.text.to_lowercase().contains("nothing was changed") {
                assert!(test.files() == before, "{number}: {ran:?}");
                unchanged += 1;
            }
        }
        // With --force it is replaced, whatever was interrupted.
        let test = TestDirs::new(true);
        with_fault(Some((number, Fault::Kill)), || run(&test.restore(&first)));
        let ran = run(&test.restore(&other));
        assert_eq!(ran.code, 0, "{number}: {ran:?}");
        assert_eq!(test.looked_at().map(|(zxid, _)| zxid), Some(Zxid::ZERO), "{number}");
    }
    assert!(unchanged > 0);
}

/// As above, where the second restore finishes the first one and then fails itself.
#[test]
fn nothing_was_changed_is_true_if_a_restore_fails_after_an_interrupted_one() {
    let (first, other) =
        (fixture("plain/version-2/snapshot.54"), fixture("unclean/version-2/snapshot.0"));
    let interrupted = |number| {
        let test = TestDirs::new(true);
        with_fault(Some((number, Fault::Kill)), || run(&test.restore(&first)));
        test
    };
    let is_decided =
        |number: &u64| matches!(pending(&RealDisk, &interrupted(*number).dirs), Ok(Some(_)));
    let decided = (0..1000).find(is_decided).unwrap();
    let test = interrupted(decided);
    let (ran, changes) = with_fault(None, || run(&test.restore(&other)));
    assert!(ran.code == 0 && ran.text.contains("finished an interrupted operation"), "{ran:?}");
    let mut messages = [0, 0];
    for number in 0..changes {
        let test = interrupted(decided);
        let before = test.files();
        let fault = Some((number, Fault::Once(Errno::NOSPC)));
        let (ran, _) = with_fault(fault, || run(&test.restore(&other)));
        let text = ran.text.to_lowercase();
        assert!(!text.contains("nothing was changed") || test.files() == before, "{ran:?}");
        messages[0] += u32::from(text.contains("nothing was changed"));
        messages[1] += u32::from(text.contains("nothing else was changed"));
    }
    assert!(messages.iter().all(|count| *count > 0), "{messages:?}");
}

/// A damaged tree of a leader was in the way of the restore: then a start may refuse, and the same command finishes.
#[test]
fn a_restore_over_a_damaged_installation_is_finished_by_the_same_command() {
    let backup = fixture("plain/version-2/snapshot.54");
    let make = || {
        let test = TestDirs::new(false);
        fs::write(test.dirs.data.join("install.snapshot.60"), "damaged").unwrap();
        test
    };
    let test = make();
    let (ran, changes) = with_fault(None, || run(&test.restore(&backup)));
    assert_eq!(ran.code, 0, "{ran:?}");
    let (new, mut refusals) = (test.started(), 0);
    for number in 0..changes {
        let test = make();
        with_fault(Some((number, Fault::Kill)), || run(&test.restore(&backup)));
        let options = RecoverOptions { tree: load_options().tree, ..RecoverOptions::default() };
        if let Err(error) = recover(&RealDisk, &test.dirs, &options, &mut |_| {}) {
            refusals += u32::from(error.to_string().contains("several files"));
        }
        let ran = run(&test.restore(&backup));
        assert_eq!(ran.code, 0, "{number}: {ran:?}");
        assert_eq!(test.started(), new, "{number}");
    }
    assert!(refusals > 0, "docs/tools.md says that a start may refuse");
}

#[test]
fn a_backup_is_there_whole_or_not_at_all() {
    let whole = {
        let test = TestDirs::new(false);
        assert_eq!(run(&test.backup("out/zk")).code, 0);
        fs::read(test.text("out/zk")).unwrap()
    };
    for is_replacing in [false, true] {
        let make = || {
            let test = TestDirs::new(false);
            if is_replacing {
                fs::write(test.text("out/zk"), "older").unwrap();
            }
            test
        };
        let arguments = |test: &TestDirs| {
            let force = is_replacing.then(|| "--force".to_owned());
            test.backup("out/zk").into_iter().chain(force).collect::<Vec<_>>()
        };
        let old = is_replacing.then(|| b"older".to_vec());
        let (_, changes) = with_fault(None, || run(&arguments(&make())));
        assert!(changes > 5);
        for kind in KINDS {
            for number in 0..changes {
                let at = format!("{kind:?} at {number}");
                let test = make();
                let before = test.files();
                let (ran, _) = with_fault(Some((number, kind)), || run(&arguments(&test)));
                let found = fs::read(test.text("out/zk")).ok();
                assert!(found == old || found.as_ref() == Some(&whole), "{at}");
                assert!(ran.code != 0 || found.as_ref() == Some(&whole), "{at}: {ran:?}");
                if matches!(kind, Fault::Once(_)) && found == old {
                    assert_eq!(test.files(), before, "{at}: nothing is left behind");
                }
                if found == old {
                    assert_eq!(run(&arguments(&test)).code, 0, "{at}");
                    assert_eq!(fs::read(test.text("out/zk")).unwrap(), whole, "{at}");
                }
            }
        }
    }
}
