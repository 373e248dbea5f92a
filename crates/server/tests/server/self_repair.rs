//! Servers whose files are damaged repair them with the records of the others.
//!
//! Real log files, with what follows the records in them. Four txns are damaged in many combinations, as in the
//! experiment of "Protocol-Aware Recovery for Consensus-Based Storage" (FAST'18).

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use herdsman_proto::{JuteReader, Request, SessionId};
use herdsman_server::{ServesAs, StartError};
use herdsman_store::{Assessment, Dirs, RealDisk, RecoverOptions, assess};
use herdsman_testing::TestEnsemble;

use crate::client::{Client, connect_request, get};
use crate::log;

/// The length of a log file's header.
const HEADER_BYTES: usize = 16;
/// The checksum, the length and the end mark of a record.
const CHECKSUM_BYTES: usize = 8;
const HEAD_BYTES: usize = CHECKSUM_BYTES + 4;
/// The servers.
const IDS: [usize; 3] = [1, 2, 3];
/// The data of the txns that are damaged.
const VALUES: [&[u8]; 4] = [b"value-1", b"value-2", b"value-3", b"value-4"];

/// An ensemble that has stopped, and its files as they were then.
struct Stopped {
    ensemble: TestEnsemble,
    copies: Vec<PathBuf>,
    _directory: tempfile::TempDir,
}

/// What is damaged of a record.
#[derive(Clone, Copy, Debug)]
enum Part {
    Head,
    Body,
    EndMark,
}

impl Stopped {
    /// Four txns, and others after them.
    fn after_four_txns() -> Self {
        Self::after(|ensemble, mut client| {
            client.call(&Request::CloseSession).ok();
            for id in IDS {
                let mut reader = Client::connect(ensemble.address(id));
                reader.call(&Request::Sync { path: "/".into() }).ok();
                reader.call(&Request::CloseSession).ok();
            }
        })
    }

    /// Four txns, the last of which is the last one in all logs.
    fn with_four_txns_at_the_end() -> Self {
        Self::after(|_, _| {})
    }

    fn after(end: impl FnOnce(&TestEnsemble, Client)) -> Self {
        log::listen();
        let mut ensemble = TestEnsemble::start();
        let leader = ensemble.await_leader();
        let mut client = Client::connect(ensemble.address(leader));
        for (index, value) in VALUES.iter().enumerate() {
            client.create(&path(index), value, 0).ok();
        }
        end(&ensemble, client);
        let leader_zxid = ensemble.handle(leader).core().tree().last_zxid();
        ensemble.await_that("all txns everywhere", || {
            let all =
                IDS.iter().all(|id| ensemble.handle(*id).core().tree().last_zxid() >= leader_zxid);
            all.then_some(())
        });
        for id in IDS {
            ensemble.kill(id);
        }
        let directory = tempfile::tempdir().unwrap();
        let copies = IDS.map(|id| {
            let copy = directory.path().join(id.to_string());
            copy_files(&ensemble.data_dir(id).join("version-2"), &copy);
            copy
        });
        Stopped { ensemble, copies: copies.to_vec(), _directory: directory }
    }

    fn files(&self, id: usize) -> PathBuf {
        self.ensemble.data_dir(id).join("version-2")
    }

    /// Everything as it was.
    fn restore(&self) {
        for id in IDS {
            fs::remove_dir_all(self.files(id)).unwrap();
            copy_files(&self.copies[id - 1], &self.files(id));
        }
    }

    fn damage(&self, id: usize, txn: usize, part: Part) {
        let (copy, range) = record_with(&self.copies[id - 1], VALUES[txn]);
        let path = self.files(id).join(copy.file_name().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let damaged = match part {
            Part::Head => range.start..range.start + HEAD_BYTES,
            Part::Body => range.start + HEAD_BYTES + 4..range.end - 5,
            Part::EndMark => range.end - 1..range.end,
        };
        for byte in &mut bytes[damaged] {
            *byte ^= 0x5a;
        }
        fs::write(path, bytes).unwrap();
    }

    /// All servers serve, and have everything. A server that gets its vote back, or loses its leader on a busy machine,
    /// closes its connections; then it is asked again.
    fn check_all(&self, ids: &[usize]) {
        self.ensemble.await_leader();
        for id in ids {
            let values = self.ensemble.await_that("all values", || self.values_of(*id));
            assert_eq!(values, VALUES, "server {id}");
        }
    }

    fn values_of(&self, id: usize) -> Option<Vec<Vec<u8>>> {
        let request = connect_request(SessionId::NONE, &[0; 16]);
        let mut client = Client::connect_as(self.ensemble.address(id), &request)?;
        client.try_call(&Request::Sync { path: "/".into() })?;
        let value = |index| {
            let reply = client.try_call(&get(&path(index), false))?;
            reply.ok().buffer().unwrap().map(<[u8]>::to_vec)
        };
        let values = (0..VALUES.len()).map(value).collect::<Option<Vec<_>>>()?;
        client.try_call(&Request::CloseSession)?;
        Some(values)
    }

    fn stop_all(&mut self) {
        for id in IDS {
            self.ensemble.stop(id);
        }
    }

    /// Nothing is damaged any more that a start would need.
    fn check_files(&self) {
        for id in IDS {
            let files = self.files(id);
            let dirs = Dirs { data: files.clone(), log: files };
            let found = assess(&RealDisk, &dirs, &RecoverOptions::default()).unwrap();
            assert_eq!(found, Assessment::Whole, "server {id}");
        }
    }
}

fn path(index: usize) -> String {
    format!("/e{index}")
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn logs(files: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("log.");
    let mut logs: Vec<_> = entries.filter(is_log).collect();
    logs.sort();
    logs
}

/// The records of a log file.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = HEADER_BYTES;
    while bytes.len() >= start + HEAD_BYTES {
        let length = JuteReader::new(&bytes[start + CHECKSUM_BYTES..]).int().unwrap();
        if length <= 0 {
            break;
        }
        let end = start + HEAD_BYTES + usize::try_from(length).unwrap() + 1;
        found.push(start..end);
        start = end;
    }
    found
}

/// The file and the place of the record that contains this.
fn record_with(files: &Path, content: &[u8]) -> (PathBuf, Range<usize>) {
    for path in logs(files) {
        let bytes = fs::read(&path).unwrap();
        let contains = |range: &Range<usize>| {
            bytes[range.clone()].windows(content.len()).any(|window| window == content)
        };
        if let Some(range) = records(&bytes).into_iter().find(contains) {
            return (path, range);
        }
    }
    panic!("the record is gone");
}

/// Each txn is damaged on some servers, and whole on another one: the ensemble comes up with everything.
#[test]
fn every_txn_that_one_server_has_comes_back() {
    // For each txn, the servers on which it is damaged.
    let combinations: [[&[usize]; 4]; 12] = [
        [&[1], &[], &[], &[]],
        [&[1], &[2], &[3], &[]],
        [&[1, 2], &[], &[], &[]],
        [&[1, 2], &[2, 3], &[1, 3], &[]],
        [&[1, 2], &[1, 2], &[1, 2], &[1, 2]],
        [&[1, 2], &[1, 3], &[2, 3], &[1, 2]],
        [&[3], &[3], &[3], &[3]],
        [&[2, 3], &[], &[2, 3], &[]],
        [&[], &[1, 3], &[], &[2]],
        [&[1], &[2], &[1], &[3]],
        [&[2, 3], &[1], &[1], &[2, 3]],
        [&[], &[], &[], &[1, 2]],
    ];
    check_combinations(Stopped::after_four_txns(), &combinations);
}

/// Nothing follows the damage, so that only the table at the end of the file shows that a record was there.
#[test]
fn the_last_txn_comes_back() {
    let combinations: [[&[usize]; 4]; 4] = [
        [&[], &[], &[], &[1, 2]],
        [&[], &[], &[], &[3]],
        [&[1, 2], &[], &[2, 3], &[1, 3]],
        [&[1, 2], &[1, 2], &[1, 2], &[1, 2]],
    ];
    check_combinations(Stopped::with_four_txns_at_the_end(), &combinations);
}

fn check_combinations(mut stopped: Stopped, combinations: &[[&[usize]; 4]]) {
    for (index, combination) in combinations.iter().enumerate() {
        let part = [Part::Head, Part::Body, Part::EndMark][index % 3];
        stopped.restore();
        for (txn, ids) in combination.iter().enumerate() {
            for id in *ids {
                stopped.damage(*id, txn, part);
            }
        }
        stopped.ensemble.start_together(&IDS);
        stopped.check_all(&IDS);
        stopped.stop_all();
        stopped.check_files();
    }
}

/// Nobody has one of the txns: the servers wait, say for what, and end when they are asked to.
#[test]
fn a_txn_that_nobody_has_is_waited_for() {
    let stopped = Stopped::after_four_txns();
    for id in IDS {
        stopped.damage(id, 1, Part::Body);
    }
    let before: Vec<_> = IDS.iter().map(|id| fs::read(&logs(&stopped.files(*id))[0])).collect();
    let starting: Vec<_> = IDS.iter().map(|id| stopped.ensemble.begin_start(*id)).collect();
    let zxid = zxid_of(&stopped, 1);
    for id in IDS {
        let others: Vec<_> = IDS.into_iter().filter(|other| *other != id).collect();
        let missing = format!(
            "txn {zxid}: damaged here, damaged on {}, damaged on {}. server {}: repairing itself",
            others[0], others[1], others[0],
        );
        stopped.ensemble.await_that("a line in the log", || {
            let lines = log::lines_with(&format!("server{{id={id}}}"));
            let waits = |line: &String| line.contains("waiting (") && line.contains(&missing);
            lines.iter().any(waits).then_some(())
        });
    }
    assert!(starting.iter().all(|starting| !starting.is_finished()));
    let asked = Instant::now();
    for starting in starting {
        let given_up = starting.give_up();
        assert!(matches!(given_up, Err(StartError::Stopped)), "{:?}", given_up.err());
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    for (id, before) in IDS.iter().zip(before) {
        assert_eq!(fs::read(&logs(&stopped.files(*id))[0]).unwrap(), before.unwrap(), "{id}");
    }
}

fn zxid_of(stopped: &Stopped, txn: usize) -> String {
    let (path, range) = record_with(&stopped.copies[0], VALUES[txn]);
    let bytes = fs::read(path).unwrap();
    // Session and cxid come before it.
    let mut reader = JuteReader::new(&bytes[range.start + HEAD_BYTES + 8 + 4..]);
    herdsman_proto::Zxid(reader.long().unwrap()).to_string()
}

/// Two servers serve meanwhile; the third one takes what it lacks from them, and votes again.
#[test]
fn a_damaged_server_joins_those_that_serve() {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&[1, 2]);
    stopped.check_all(&[1, 2]);
    stopped.damage(3, 0, Part::Body);
    stopped.damage(3, 2, Part::Head);
    stopped.ensemble.start_again(3);
    stopped.check_all(&IDS);
    stopped.stop_all();
    stopped.check_files();
}

/// No snapshot is left: records do not help, a leader's tree does. The server votes again, so another one may go.
#[test]
fn a_server_without_a_snapshot_takes_everything_from_the_leader() {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&[1, 2]);
    stopped.check_all(&[1, 2]);
    let snapshots = fs::read_dir(stopped.files(3)).unwrap().map(|entry| entry.unwrap().path());
    for path in snapshots {
        if path.file_name().unwrap().to_string_lossy().starts_with("snapshot.") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x5a;
            fs::write(path, bytes).unwrap();
        }
    }
    stopped.ensemble.start_again(3);
    check_has_everything_and_votes(&mut stopped);
}

/// The same for every other way in which its snapshots may be unusable.
#[test]
fn a_server_with_unusable_snapshots_comes_back() {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&[1, 2]);
    let half = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let without_seal = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1);
    let longer = |bytes: &mut Vec<u8>| bytes.extend([0x5a; 1000]);
    let damages: [fn(&mut Vec<u8>); 4] = [half, without_seal, longer, Vec::clear];
    for (index, damage) in damages.into_iter().enumerate() {
        for path in snapshots(&stopped.files(3)) {
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
        let starting = stopped.ensemble.begin_start(3);
        stopped.ensemble.finish_start(starting);
        await_vote_or_lead(&stopped, 3);
        stopped.check_all(&IDS);
        let files = stopped.files(3);
        let dirs = Dirs { data: files.clone(), log: files };
        let found = assess(&RealDisk, &dirs, &RecoverOptions::default()).unwrap();
        assert_eq!(found, Assessment::Whole, "{index}");
        stopped.ensemble.stop(3);
    }
    // None at all, but logs.
    for path in snapshots(&stopped.files(3)) {
        fs::remove_file(path).unwrap();
    }
    stopped.ensemble.start_again(3);
    check_has_everything_and_votes(&mut stopped);
}

fn snapshots(files: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path());
    let is_snapshot =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("snapshot.");
    entries.filter(is_snapshot).collect()
}

/// A whole file is gone, and the next one begins with the first txn of an epoch: zxids show nothing, but the footer of
/// the next file names the last txn before it.
#[test]
fn a_hole_before_a_new_epoch_is_filled() {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&IDS);
    stopped.check_all(&IDS);
    stopped.stop_all();
    fs::remove_file(&logs(&stopped.files(3))[0]).unwrap();
    let starting = stopped.ensemble.begin_start(3);
    stopped.ensemble.start_together(&[1, 2]);
    stopped.ensemble.finish_start(starting);
    let lines = log::lines_with(&"server{id=3}");
    assert!(lines.iter().any(|line| line.contains("into the log")), "{lines:?}");
    check_has_everything_and_votes(&mut stopped);
}

/// Somebody has put files of two servers into one directory: nothing of it is used.
#[test]
fn a_log_that_goes_back_is_replaced_by_the_leader() {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&[1, 2]);
    stopped.check_all(&[1, 2]);
    let log = &logs(&stopped.files(3))[0];
    let bytes = fs::read(log).unwrap();
    let end = records(&bytes).last().unwrap().end;
    fs::write(log.with_file_name("log.200000001"), &bytes[..end]).unwrap();
    stopped.ensemble.start_again(3);
    check_has_everything_and_votes(&mut stopped);
}

/// Server 3 has everything, and votes again, so that another one may go.
fn check_has_everything_and_votes(stopped: &mut Stopped) {
    // Getting the vote back closes connections of clients.
    await_vote_or_lead(stopped, 3);
    stopped.check_all(&IDS);
    let leader = stopped.ensemble.await_leader();
    stopped.ensemble.stop(if leader == 1 { 2 } else { 1 });
    let rest: Vec<_> =
        IDS.into_iter().filter(|id| stopped.ensemble.serves_as(*id).is_some()).collect();
    stopped.check_all(&rest);
    stopped.stop_all();
    stopped.check_files();
}

/// The newest log file of a server is gone, empty, or has lost its end.
const LOSSES: [fn(&Path); 3] = [
    |log| fs::remove_file(log).unwrap(),
    |log| fs::write(log, b"").unwrap(),
    |log| {
        let bytes = fs::read(log).unwrap();
        let end = records(&bytes).last().unwrap().start;
        fs::write(log, &bytes[..end]).unwrap();
    },
];

#[test]
fn a_server_that_has_lost_its_newest_log_takes_everything_from_the_leader() {
    for lose in LOSSES {
        let mut stopped = Stopped::after_four_txns();
        lose(logs(&stopped.files(3)).last().unwrap());
        stopped.ensemble.start_together(&IDS);
        // Getting the vote back closes connections of clients.
        await_vote_or_lead(&stopped, 3);
        stopped.check_all(&IDS);
        stopped.stop_all();
        stopped.check_files();
    }
}

/// Two servers acknowledge, the third one lags. One of the two loses its newest log: with the one that lags it must not
/// form a quorum, which would lose what was acknowledged.
#[test]
fn a_server_that_has_lost_its_newest_log_elects_nobody_that_lags() {
    for lose in LOSSES {
        let mut stopped = Stopped::after_four_txns();
        stopped.ensemble.start_together(&IDS);
        stopped.check_all(&IDS);
        let lagging = stopped.ensemble.follower();
        stopped.ensemble.kill(lagging);
        let leader = stopped.ensemble.await_leader();
        let mut client = Client::connect(stopped.ensemble.address(leader));
        client.create("/acknowledged", b"later", 0).ok();
        let damaged = IDS.into_iter().find(|id| ![lagging, leader].contains(id)).unwrap();
        let last = |id| stopped.ensemble.handle(id).core().tree().last_zxid();
        stopped.ensemble.await_that("the txn", || (last(damaged) == last(leader)).then_some(()));
        stopped.ensemble.kill(leader);
        stopped.ensemble.kill(damaged);
        lose(logs(&stopped.files(damaged)).last().unwrap());

        stopped.ensemble.start_again(lagging);
        let starting = stopped.ensemble.begin_start(damaged);
        stopped.ensemble.await_that("a line in the log", || {
            let lines = log::lines_with(&format!("server{{id={damaged}}}"));
            lines.iter().any(|line| line.contains("waiting (")).then_some(())
        });
        assert!(!starting.is_finished());
        assert_eq!(stopped.ensemble.serves_as(lagging), None);
        stopped.ensemble.start_again(leader);
        stopped.ensemble.finish_start(starting);
        // Getting the vote back closes connections of clients.
        await_vote_or_lead(&stopped, damaged);
        stopped.check_all(&IDS);
        for id in IDS {
            let mut client = Client::connect(stopped.ensemble.address(id));
            client.call(&Request::Sync { path: "/".into() }).ok();
            assert_eq!(client.get("/acknowledged", false).unwrap().0, b"later");
        }
    }
}

/// Waits until a server follows and its mark is gone.
fn await_vote(stopped: &Stopped, id: usize) {
    let mark = stopped.files(id).join("herdsman.votingSuspended");
    stopped.ensemble.await_that("a vote", || {
        let follows = stopped.ensemble.serves_as(id) == Some(ServesAs::Follower);
        (follows && !mark.exists()).then_some(())
    });
}

/// A voter that has lost its directory comes back, and votes again.
#[test]
fn a_server_with_an_empty_directory_comes_back() {
    let mut stopped = Stopped::after_four_txns();
    fs::remove_dir_all(stopped.files(3)).unwrap();
    stopped.ensemble.start_together(&IDS);
    stopped.check_all(&IDS);
    await_vote_or_lead(&stopped, 3);
    stopped.stop_all();
    stopped.check_files();
}

fn await_vote_or_lead(stopped: &Stopped, id: usize) {
    let mark = stopped.files(id).join("herdsman.votingSuspended");
    stopped.ensemble.await_that("a vote", || {
        let votes =
            matches!(stopped.ensemble.serves_as(id), Some(ServesAs::Follower | ServesAs::Leader));
        (votes && !mark.exists()).then_some(())
    });
}

/// The epochs are left: it is not new, so it does not vote before it is up to date.
#[test]
fn a_server_that_has_lost_all_but_its_epochs_comes_back() {
    let mut stopped = Stopped::after_four_txns();
    for entry in fs::read_dir(stopped.files(3)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("log.") || name.starts_with("snapshot.") {
            fs::remove_file(path).unwrap();
        }
    }
    stopped.ensemble.start_again(3);
    let mark = fs::read_to_string(stopped.files(3).join("herdsman.votingSuspended")).unwrap();
    assert!(mark.contains("has been in epoch"), "{mark}");
    stopped.ensemble.start_together(&[1, 2]);
    stopped.check_all(&IDS);
    await_vote(&stopped, 3);
    stopped.stop_all();
    stopped.check_files();
}

/// What happened to the epochs of a server.
#[derive(Clone, Copy, Debug)]
enum EpochLoss {
    /// A file was replaced.
    File(&'static str, &'static [u8]),
    /// A file is gone.
    Gone(&'static str),
    /// All of it.
    All(&'static [EpochLoss]),
}

impl EpochLoss {
    fn carry_out(self, files: &Path) {
        match self {
            EpochLoss::File(name, content) => fs::write(files.join(name), content).unwrap(),
            EpochLoss::Gone(name) => fs::remove_file(files.join(name)).unwrap(),
            EpochLoss::All(losses) => losses.iter().for_each(|loss| loss.carry_out(files)),
        }
    }
}

/// Server 3 starts after each of these losses, while the others serve. Says whether it may vote at once.
fn check_epoch_losses(losses: &[EpochLoss], may_vote: bool) {
    let mut stopped = Stopped::after_four_txns();
    stopped.ensemble.start_together(&[1, 2]);
    for loss in losses {
        loss.carry_out(&stopped.files(3));
        let lines = lines_of_suspension(&stopped);
        stopped.ensemble.start_again(3);
        await_vote_or_lead(&stopped, 3);
        stopped.check_all(&IDS);
        assert_eq!(lines_of_suspension(&stopped) == lines, may_vote, "{loss:?}");
        stopped.ensemble.stop(3);
    }
    stopped.ensemble.start_again(3);
    check_has_everything_and_votes(&mut stopped);
}

/// Lines of server 3; they name its directory.
fn lines_of_suspension(stopped: &Stopped) -> usize {
    let lines = log::lines_with(&stopped.ensemble.data_dir(3).display());
    let is_suspended = "does not vote until a leader has brought it up to date";
    lines.iter().filter(|line| line.contains(is_suspended)).count()
}

const RUBBISH: &[u8] = b"\xff\xff";

/// The epochs are known from the copies, or from the files, so it votes as if nothing had happened.
#[test]
fn a_server_with_one_record_of_its_epochs_votes() {
    use EpochLoss::{All, File, Gone};
    let both = &[Gone("currentEpoch"), Gone("acceptedEpoch")];
    check_epoch_losses(
        &[
            File("currentEpoch", RUBBISH),
            File("acceptedEpoch", RUBBISH),
            File("acceptedEpoch", b"0"),
            Gone("currentEpoch"),
            Gone("acceptedEpoch"),
            All(both),
            File("herdsman.epochs", RUBBISH),
            Gone("herdsman.epochs"),
        ],
        true,
    );
}

/// It may have promised anything, so it does not vote before it is up to date.
#[test]
fn a_server_that_has_lost_its_epochs_comes_back() {
    use EpochLoss::{All, File, Gone};
    check_epoch_losses(
        &[
            All(&[Gone("herdsman.epochs"), File("currentEpoch", RUBBISH)]),
            All(&[Gone("herdsman.epochs"), File("acceptedEpoch", RUBBISH)]),
            All(&[Gone("herdsman.epochs"), Gone("currentEpoch")]),
            All(&[File("herdsman.epochs", RUBBISH), Gone("acceptedEpoch")]),
            All(&[File("herdsman.epochs", RUBBISH), Gone("currentEpoch"), Gone("acceptedEpoch")]),
            // Older than the log, and older than each other.
            All(&[
                Gone("herdsman.epochs"),
                File("currentEpoch", b"0"),
                File("acceptedEpoch", b"0"),
            ]),
            All(&[Gone("herdsman.epochs"), File("acceptedEpoch", b"0")]),
            All(&[
                Gone("herdsman.epochs"),
                File("currentEpoch", b"7"),
                File("acceptedEpoch", b"1"),
            ]),
        ],
        false,
    );
}

/// It is the operator's choice.
#[test]
fn without_self_repair_a_damaged_server_refuses_to_start() {
    let mut stopped = Stopped::after_four_txns();
    stopped.damage(1, 1, Part::Body);
    stopped.ensemble.configure(1, |config| config.storage.self_repair = false);
    let refused = stopped.ensemble.begin_start(1).give_up();
    assert!(matches!(refused, Err(StartError::Recover(_))), "{:?}", refused.err());
}
