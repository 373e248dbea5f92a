//! From damaged files and records of others to whole files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use herdsman_proto::ServerId;
use herdsman_proto::txn::Entry;

use super::*;
use crate::disk::{MemoryDisk, Unsynced};
use crate::epoch::{EpochFile, known_log, recover_epochs, write_epoch};
use crate::log::record::RecordReader;
use crate::names::list_logs;
use crate::repair::{Answer, Assessment, Damage, assess, read_records};
use crate::testing::*;
use crate::voting;

#[path = "matrix_tests.rs"]
mod matrix;

fn options() -> RecoverOptions {
    RecoverOptions::default()
}

/// A server with these txns, each list in a file of its own, and their first snapshot.
fn server(files: &[Vec<i64>]) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    for zxids in files {
        disk.put(&log_path(zxids[0]), log_bytes(&creates(zxids.iter().copied())));
    }
    disk
}

fn assessed(disk: &MemoryDisk) -> Option<Damage> {
    match assess(disk, &dirs(), &options()) {
        Ok(Assessment::Whole) => None,
        Ok(Assessment::Damaged(damage)) => Some(damage),
        Err(error) => panic!("{error}"),
    }
}

/// Fetches what is missing from another server.
fn fetch(repair: &mut Repair, from: &MemoryDisk, peer: i64) {
    for (after, before) in repair.wanted() {
        let mut offer = repair.offer_of(ServerId(peer), (after, before));
        let mut records = read_records(Arc::new(from.clone()), &dirs(), after, before).unwrap();
        while let Some((zxid, payload)) = records.next_record().unwrap() {
            offer.push(zxid, payload);
        }
        let damaged = assessed(from).map(|damage| damage.gaps).unwrap_or_default();
        let end = Zxid(i64::MAX);
        let damaged = damaged.iter().map(|gap| (gap.after, gap.before.unwrap_or(end))).collect();
        repair.offer(offer, Answer { unbroken: records.is_unbroken(), damaged });
    }
}

/// Repairs a server with what others have.
fn repair_with(disk: &MemoryDisk, others: &[&MemoryDisk]) -> Repair {
    let mut repair = Repair::new(assessed(disk).expect("it is damaged"));
    for (index, other) in others.iter().enumerate() {
        fetch(&mut repair, other, index as i64 + 2);
    }
    repair
}

fn spliced(disk: &MemoryDisk, repair: &Repair) -> Spliced {
    splice(disk, &dirs(), &options(), repair).unwrap()
}

/// All valid records, file by file.
fn records(disk: &MemoryDisk) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    for name in list_logs(disk, dir()).unwrap() {
        let mut reader = RecordReader::open(disk, &name.path(dir())).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            all.push((record.zxid.0, record.payload.to_vec()));
        }
    }
    all
}

fn original(zxids: &[i64]) -> Vec<(i64, Vec<u8>)> {
    creates(zxids.iter().copied())
        .iter()
        .map(|entry| (entry.header.zxid.0, payload(entry)))
        .collect()
}

/// Where the n-th record of a file is.
fn record_at(entries: &[Entry], record: usize) -> Range<usize> {
    log_bytes(&entries[..record]).len()..log_bytes(&entries[..=record]).len()
}

/// Changes a part of a file.
fn overwrite(disk: &MemoryDisk, file: i64, part: Range<usize>, byte: u8) {
    let mut content = disk.content(&log_path(file)).unwrap();
    content[part].fill(byte);
    disk.put(&log_path(file), content);
}

/// Destroys a record: 0 its head, 1 its body, 2 its end mark.
fn destroy(disk: &MemoryDisk, zxids: &[i64], record: usize, kind: usize) {
    let at = record_at(&creates(zxids.iter().copied()), record);
    let part = match kind {
        0 => at.start..at.start + 12,
        1 => at.start + 50..at.start + 60,
        _ => at.end - 1..at.end,
    };
    overwrite(disk, zxids[0], part, 0);
}

/// A damaged server, and what it had.
struct Case {
    name: &'static str,
    damaged: fn() -> MemoryDisk,
    zxids: Vec<i64>,
}

fn files() -> Vec<Vec<i64>> {
    let one = epoch(1, 1..=20);
    vec![
        one[..7].to_vec(),
        one[7..12].to_vec(),
        one[12..].to_vec(),
        epoch(2, 1..=6),
        epoch(3, 1..=4),
    ]
}

fn cases() -> Vec<Case> {
    let mut all = cases_of_records();
    all.extend(cases_of_files());
    all
}

fn case(name: &'static str, damaged: fn() -> MemoryDisk) -> Case {
    Case { name, damaged, zxids: files().concat() }
}

fn cases_of_records() -> Vec<Case> {
    vec![
        case("a record", || {
            let disk = server(&files());
            destroy(&disk, &files()[1], 2, 1);
            disk
        }),
        case("records in several files", || {
            let disk = server(&files());
            destroy(&disk, &files()[0], 2, 0);
            destroy(&disk, &files()[0], 5, 2);
            destroy(&disk, &files()[2], 0, 1);
            destroy(&disk, &files()[3], 0, 0);
            destroy(&disk, &files()[4], 2, 1);
            disk
        }),
        case("the end of an epoch", || {
            let disk = server(&files());
            let last = record_at(&creates(files()[2].clone()), 6);
            overwrite(&disk, files()[2][0], last.start..last.end, 0xa5);
            destroy(&disk, &files()[2], 7, 1);
            disk
        }),
        case("both sides of a new epoch", || {
            let disk = server(&files());
            destroy(&disk, &files()[3], 5, 0);
            destroy(&disk, &files()[4], 0, 1);
            disk
        }),
        case("a missing file", || {
            let disk = server(&files());
            disk.remove(&log_path(files()[1][0])).unwrap();
            disk.sync_dir(dir()).unwrap();
            disk
        }),
        case("a missing first file", || {
            let disk = server(&files());
            disk.remove(&log_path(files()[0][0])).unwrap();
            disk.sync_dir(dir()).unwrap();
            disk
        }),
    ]
}

/// More of them.
fn cases_of_files() -> Vec<Case> {
    vec![
        case("an empty file", || {
            let disk = server(&files());
            disk.put(&log_path(files()[1][0]), Vec::new());
            disk
        }),
        case("a shortened file", || {
            let disk = server(&files());
            let at = record_at(&creates(files()[1].clone()), 2).start;
            let content = disk.content(&log_path(files()[1][0])).unwrap();
            disk.put(&log_path(files()[1][0]), content[..at].to_vec());
            disk
        }),
        case("a lengthened file", || {
            let disk = server(&files());
            let mut content = disk.content(&log_path(files()[2][0])).unwrap();
            content.extend([0xee; 700]);
            disk.put(&log_path(files()[2][0]), content);
            disk
        }),
        case("headers", || {
            let disk = server(&files());
            for file in &files()[1..] {
                overwrite(&disk, file[0], 0..16, 0x11);
            }
            disk
        }),
        case("a header and the first record", || {
            let disk = server(&files());
            overwrite(&disk, files()[3][0], 0..40, 0);
            disk
        }),
        case("an unreadable block", || {
            let disk = server(&files());
            disk.fail_reads(&log_path(files()[1][0]), 100..101);
            disk
        }),
        case("a file that cannot be opened", || {
            let disk = server(&files());
            disk.fail_open(&log_path(files()[1][0]));
            disk
        }),
        case("a damaged snapshot that shows the end of an epoch", || {
            let disk = server(&files());
            let missing = [&files()[0][..], &files()[1], &files()[2]].concat();
            let path = snapshot(&disk, &tree_of(&creates(missing)));
            disk.flip_bit(&path, 60, 0);
            let at = record_at(&creates(files()[2].clone()), 5).start;
            let content = disk.content(&log_path(files()[2][0])).unwrap();
            disk.put(&log_path(files()[2][0]), content[..at].to_vec());
            disk
        }),
        case("a txn that is none", || {
            let disk = server(&files());
            let mut entries: Vec<Vec<u8>> =
                creates(files()[1].clone()).iter().map(payload).collect();
            entries[2].truncate(40);
            let mut content = crate::log::HEADER.to_vec();
            for payload in &entries {
                crate::log::encode_record(payload, &mut content);
            }
            disk.put(&log_path(files()[1][0]), content);
            disk
        }),
    ]
}

#[test]
fn every_damage_is_repaired_from_one_whole_server() {
    for case in cases() {
        let (disk, whole) = ((case.damaged)(), server(&files()));
        let before = tree_of(&creates(case.zxids.clone()));
        let repair = repair_with(&disk, &[&whole]);
        assert!(repair.is_complete(), "{}: {:?}", case.name, repair.damage());
        spliced(&disk, &repair);
        disk.crash(|_| false);
        assert_eq!(assessed(&disk), None, "{}", case.name);
        assert_eq!(records(&disk), original(&case.zxids), "{}", case.name);
        assert!(same(&recovered(&disk).tree, &before), "{}", case.name);
        assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
        // Nothing more is to be done.
        let plan = plan_splice(&disk, &dirs(), &options(), &repair).unwrap();
        assert!(plan.is_empty(), "{}: {plan:?}", case.name);
    }
}

/// A crash at every change of a splice leaves the damage or less of it, never another record, and the repair can be
/// done again.
#[test]
fn a_crash_at_any_point_forgets_nothing() {
    for case in cases() {
        let whole = server(&files());
        let expected: BTreeMap<i64, Vec<u8>> = original(&case.zxids).into_iter().collect();
        let mut steps = 0;
        loop {
            let mut is_finished = false;
            for survivors in [0, 3, 1000] {
                let disk = (case.damaged)();
                let repair = repair_with(&disk, &[&whole]);
                let had: Vec<(i64, Vec<u8>)> = tolerant_records(&disk);
                disk.cut_power_after(steps);
                is_finished |= splice(&disk, &dirs(), &options(), &repair).is_ok();
                let mut asked = 0;
                disk.crash(|_: Unsynced<'_>| {
                    asked += 1;
                    asked <= survivors
                });
                check_no_worse(&disk, &had, &expected, repair.damage(), case.name);
                if assessed(&disk).is_some() {
                    let again = repair_with(&disk, &[&whole]);
                    assert!(again.is_complete(), "{}, {steps}: {:?}", case.name, again.damage());
                    spliced(&disk, &again);
                }
                assert_eq!(records(&disk), original(&case.zxids), "{}, {steps}", case.name);
                let tree = recovered(&disk).tree;
                assert!(same(&tree, &tree_of(&creates(case.zxids.clone()))), "{}", case.name);
            }
            if is_finished {
                break;
            }
            steps += 1;
        }
        assert!(steps > 3, "{}", case.name);
    }
}

/// All valid records, reading past damage.
fn tolerant_records(disk: &MemoryDisk) -> Vec<(i64, Vec<u8>)> {
    let mut records =
        read_records(Arc::new(disk.clone()), &dirs(), Zxid::ZERO, Zxid(i64::MAX)).unwrap();
    let mut all = Vec::new();
    while let Some((zxid, payload)) = records.next_record().unwrap() {
        all.push((zxid.0, payload.to_vec()));
    }
    all
}

fn check_no_worse(
    disk: &MemoryDisk,
    had: &[(i64, Vec<u8>)],
    expected: &BTreeMap<i64, Vec<u8>>,
    damage: &Damage,
    name: &str,
) {
    let has = tolerant_records(disk);
    for (zxid, payload) in &has {
        // A record whose txn cannot be decoded stays until it is replaced.
        let was_here = had.iter().any(|(old, bytes)| old == zxid && bytes == payload);
        assert!(expected.get(zxid) == Some(payload) || was_here, "{name}: {zxid:#x}");
    }
    for (zxid, _) in had {
        assert!(has.iter().any(|(new, _)| new == zxid), "{name}: {zxid:#x} is gone");
    }
    for gap in assessed(disk).map(|damage| damage.gaps).unwrap_or_default() {
        let is_part = |old: &crate::repair::Gap| {
            old.after <= gap.after && (old.before.is_none() || gap.before <= old.before)
        };
        assert!(damage.gaps.iter().any(is_part), "{name}: {gap:?}");
        // What is missing is missing because nobody has put it there yet: it shows.
        let inside = expected.keys().filter(|zxid| gap.contains(Zxid(**zxid)));
        let known = gap.known.iter().map(|id| id.zxid.0).collect::<Vec<_>>();
        let inside: Vec<i64> = inside.copied().collect();
        assert!(!gap.is_complete || known == inside, "{name}: {gap:?}, {inside:x?}");
    }
}

/// A failed sync or a full disk leaves the file as it was.
#[test]
fn a_failure_changes_nothing() {
    let damaged = cases()[0].damaged;
    let whole = server(&files());
    for is_full in [false, true] {
        let disk = damaged();
        let repair = repair_with(&disk, &[&whole]);
        let before = crate::testing::files(&disk);
        if is_full {
            disk.set_capacity(Some(0));
        } else {
            disk.fail_sync(0);
        }
        let error = splice(&disk, &dirs(), &options(), &repair).unwrap_err();
        assert!(error.to_string().contains("tmp.log.100000008"), "{error}");
        assert_eq!(crate::testing::files(&disk), before);
        disk.set_capacity(None);
        spliced(&disk, &repair);
        assert_eq!(assessed(&disk), None);
    }
}

/// In one epoch what is still missing shows by itself, so the rest is written.
#[test]
fn a_part_is_written_if_the_rest_still_shows() {
    let file = epoch(1, 1..=12);
    let (disk, other) = (server(std::slice::from_ref(&file)), server(std::slice::from_ref(&file)));
    for record in [3, 4, 8] {
        destroy(&disk, &file, record, 1);
    }
    for record in [4, 9] {
        destroy(&other, &file, record, 1);
    }
    let repair = repair_with(&disk, &[&other]);
    assert!(!repair.is_complete());
    let lines: Vec<String> =
        repair.outstanding(&[ServerId(2), ServerId(3)]).iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["txn 0x100000005: damaged here, damaged on 2, not answered by 3"]);
    assert_eq!(spliced(&disk, &repair).records, 2);
    let left = assessed(&disk).unwrap();
    assert_eq!(left.gaps.len(), 1);
    assert_eq!((left.gaps[0].after, left.gaps[0].before), (Zxid(file[3]), Some(Zxid(file[5]))));
    // Later another server has it.
    let third = server(std::slice::from_ref(&file));
    spliced(&disk, &repair_with(&disk, &[&third]));
    assert_eq!(records(&disk), original(&file));
}

/// Before a new epoch, damage is all that shows that something was there.
#[test]
fn a_part_is_not_written_if_the_rest_would_be_forgotten() {
    let (old, new) = (epoch(1, 1..=7), epoch(2, 1..=4));
    let pair = || server(&[old.clone(), new.clone()]);
    let disk = pair();
    let end = record_at(&creates(old.clone()), 5);
    overwrite(&disk, old[0], end.start..end.start + 30, 0xa5);
    destroy(&disk, &old, 6, 1);
    destroy(&disk, &old, 1, 1);
    // Two servers that each have a part.
    let (left, right) = (pair(), pair());
    destroy(&left, &old, 5, 1);
    destroy(&right, &old, 6, 1);
    let before = disk.content(&log_path(old[0]));
    let repair = repair_with(&disk, &[&left, &right]);
    assert!(!repair.is_complete());
    assert_eq!(spliced(&disk, &repair), Spliced::default());
    assert_eq!(disk.content(&log_path(old[0])), before);
    let repair = repair_with(&disk, &[&left, &pair()]);
    assert_eq!(spliced(&disk, &repair).records, 3);
    assert_eq!(records(&disk), original(&[old, new].concat()));
}

/// What the snapshot covers stays as it is, and still shows that something was there.
#[test]
fn covered_damage_stays() {
    let file = epoch(1, 1..=12);
    let disk = server(std::slice::from_ref(&file));
    let older = tree_of(&creates(file[..6].to_vec()));
    snapshot(&disk, &older);
    destroy(&disk, &file, 2, 1);
    destroy(&disk, &file, 8, 1);
    overwrite(&disk, file[0], 0..4, 9);
    let covered = record_at(&creates(file.clone()), 2);
    let bytes = disk.content(&log_path(file[0])).unwrap()[covered.clone()].to_vec();
    let damage = assessed(&disk).unwrap();
    assert_eq!(damage.gaps.len(), 1);
    let whole = server(std::slice::from_ref(&file));
    spliced(&disk, &repair_with(&disk, &[&whole]));
    assert_eq!(assessed(&disk), None);
    let content = disk.content(&log_path(file[0])).unwrap();
    assert_eq!(content[covered], bytes);
    assert_eq!(content[..16], crate::log::HEADER);
    assert_eq!(content.len(), log_bytes(&creates(file)).len());
    // Without the snapshot it is damage again.
    disk.remove(&dir().join("snapshot.100000006")).unwrap();
    assert_eq!(assessed(&disk).unwrap().gaps[0].known.len(), 1);
}

#[test]
fn damaged_bytes_and_snapshots_are_kept_aside() {
    let disk = (cases()[0].damaged)();
    let newest = snapshot(&disk, &tree_of(&creates(files()[..3].concat())));
    disk.flip_bit(&newest, 60, 0);
    let at = record_at(&creates(files()[1].clone()), 2);
    let damaged = disk.content(&log_path(files()[1][0])).unwrap()[at.clone()].to_vec();
    spliced(&disk, &repair_with(&disk, &[&server(&files())]));
    let kept = format!("damaged.log.{:x}.from.{}", files()[1][0], at.start);
    assert_eq!(disk.content(&dir().join(kept)), Some(damaged));
    assert!(disk.content(&dir().join("damaged.snapshot.100000014")).is_some());
    assert!(disk.content(&newest).is_none());
    // They are no part of the state.
    assert_eq!(assessed(&disk), None);
    recovered(&disk);
}

#[test]
fn a_rewritten_file_has_the_records_and_nothing_else() {
    let disk = (cases()[9].damaged)();
    assert!(Repair::new(assessed(&disk).unwrap()).is_complete(), "nobody else is needed");
    let repair = repair_with(&disk, &[&server(&files())]);
    spliced(&disk, &repair);
    let mut reader = RecordReader::open(&disk, &log_path(files()[1][0])).unwrap();
    while reader.next_record().unwrap().is_some() {}
    let end = crate::log::ending::classify(&reader).unwrap();
    assert_eq!(end, crate::log::ending::RecordsEnd::Clean);
    for file in files() {
        let content = disk.content(&log_path(file[0])).unwrap();
        assert!(content.starts_with(&log_bytes(&creates(file))));
    }
}

/// Two servers with the same snapshots and logs, one of them damaged after a snapshot of the middle.
#[test]
fn a_log_that_goes_on_after_a_repair_is_whole() {
    let disk = (cases()[0].damaged)();
    spliced(&disk, &repair_with(&disk, &[&server(&files())]));
    let recovered = crate::testing::recovered(&disk);
    let last = recovered.tree.last_zxid();
    write_batch(&mut writer(&disk, last), last.0 + 1, last.0 + 3);
    assert_eq!(crate::testing::recovered(&disk).tree.last_zxid(), Zxid(last.0 + 3));
}

/// A rewritten file has a table, so its end is known when it is damaged again.
#[test]
fn a_rewritten_file_has_a_table() {
    let file = epoch(1, 1..=12);
    let (disk, whole) = (server(std::slice::from_ref(&file)), server(std::slice::from_ref(&file)));
    destroy(&disk, &file, 3, 1);
    spliced(&disk, &repair_with(&disk, &[&whole]));
    destroy(&disk, &file, 11, 1);
    destroy(&disk, &file, 10, 0);
    let damage = assessed(&disk).unwrap();
    assert_eq!(damage.end, Some(Zxid(file[11])));
    assert!(damage.gaps[0].known.iter().all(|id| id.adler.is_some() && id.payload_bytes.is_some()));
    spliced(&disk, &repair_with(&disk, &[&whole]));
    assert_eq!(records(&disk), original(&file));
}

/// A server with the end of epoch 1 in a file of its own, without digests. Each file has a table.
fn server_of_epochs() -> (MemoryDisk, [Vec<i64>; 3]) {
    let files = [epoch(1, 1..=3), epoch(1, 4..=5), epoch(2, 1..=2)];
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    let mut log = writer(&disk, Zxid::ZERO);
    for zxids in &files {
        for entry in creates(zxids.iter().copied()) {
            log.append(entry.header.zxid, &payload(&entry)).unwrap();
        }
        log.flush(crate::SyncMode::Sync).unwrap();
        log.roll();
    }
    (disk, files)
}

/// Zxids do not show that the end of an epoch is missing; the footer of the next file does. Without it, such a server
/// would start, and serve a tree that never existed.
#[test]
fn the_end_of_an_epoch_is_missed() {
    let (whole, [first, end, next]) = server_of_epochs();
    let all = [&first[..], &end, &next].concat();
    let path = log_path(end[0]);
    let lose_all: fn(&MemoryDisk, &Path) = |disk, path| disk.remove(path).unwrap();
    let empty: fn(&MemoryDisk, &Path) = |disk, path| disk.put(path, Vec::new());
    let shorten: fn(&MemoryDisk, &Path) = |disk, path| {
        let entries = creates(epoch(1, 4..=4));
        disk.put(path, log_bytes(&entries));
    };
    for (lose, good) in [(lose_all, first[2]), (empty, first[2]), (shorten, end[0])] {
        let (disk, _) = server_of_epochs();
        lose(&disk, &path);
        let refused =
            crate::recover(&disk, &dirs(), &options(), &mut |_| {}).unwrap_err().to_string();
        let missing = format!("missing between {} and {}", Zxid(good), Zxid(next[0]));
        assert!(refused.contains(&missing), "{refused}");
        let damage = assessed(&disk).unwrap();
        assert_eq!((damage.good, damage.end), (Zxid(good), Some(Zxid(next[1]))));
        assert!(!damage.gaps[0].is_complete);
        // Another server that lacks them, too, does not prove that there was nothing.
        let (other, _) = server_of_epochs();
        lose(&other, &path);
        assert!(!repair_with(&disk, &[&other]).is_complete());
        let repair = repair_with(&disk, &[&whole]);
        assert!(repair.is_complete());
        spliced(&disk, &repair);
        assert_eq!(records(&disk), original(&all));
        assert_eq!(recovered(&disk).tree.last_zxid(), Zxid(next[1]));
    }
}

/// A file that is written again still says what comes before it.
#[test]
fn a_repaired_file_shows_what_comes_before_it() {
    let (whole, [_, end, next]) = server_of_epochs();
    let (disk, _) = server_of_epochs();
    destroy(&disk, &next, 0, 1);
    spliced(&disk, &repair_with(&disk, &[&whole]));
    assert_eq!(assessed(&disk), None);
    disk.remove(&log_path(end[0])).unwrap();
    let damage = assessed(&disk).unwrap();
    assert_eq!(damage.gaps[0].before, Some(Zxid(next[0])));
}

/// Otherwise nobody would notice that it was made shorter before the next start.
#[test]
fn a_repaired_file_is_known_to_its_last_txn() {
    let (whole, [.., next]) = server_of_epochs();
    let (disk, _) = server_of_epochs();
    for file in [EpochFile::Accepted, EpochFile::Current] {
        write_epoch(&disk, dir(), file, 2).unwrap();
    }
    recover_epochs(&disk, &dirs(), Zxid(next[0])).unwrap();
    assert_eq!(known_log(&disk, dir()).last, Some(Zxid(next[0])));
    destroy(&disk, &next, 0, 1);
    spliced(&disk, &repair_with(&disk, &[&whole]));
    assert_eq!(known_log(&disk, dir()).last, Some(Zxid(next[1])));
}
