//! The experiment of "Protocol-Aware Recovery for Consensus-Based Storage" at the level of files: four records on three
//! servers, each of the twelve copies damaged or not. Servers give each other what they have until nothing changes.
//! A fifth record that nobody lacks follows, so that the end of the log is known.

use super::*;

const RECORDS: usize = 4;
const SERVERS: usize = 3;

fn all() -> Vec<i64> {
    epoch(1, 1..=5)
}

/// A small generator of numbers that repeat themselves.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A server with all records, in random batches and files.
fn healthy(numbers: &mut Numbers) -> MemoryDisk {
    let disk = disk();
    snapshot(&disk, &tree_of(&[]));
    let mut log = writer(&disk, Zxid::ZERO);
    let zxids = all();
    let mut from = 0;
    while from < zxids.len() {
        let to = from + numbers.next((zxids.len() - from) as u64) as usize;
        write_batch(&mut log, zxids[from], zxids[to]);
        if numbers.next(3) == 0 {
            log.roll();
        }
        from = to + 1;
    }
    disk
}

/// Damages the records in the set, each in its head, body or end mark.
fn damage_records(disk: &MemoryDisk, set: usize, numbers: &mut Numbers) {
    for name in list_logs(disk, dir()).unwrap() {
        let path = name.path(dir());
        let mut content = disk.content(&path).unwrap();
        let mut reader = RecordReader::open(disk, &path).unwrap();
        let mut places = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            places.push((record.zxid.counter() as usize - 1, record.offset, record.payload.len()));
        }
        for (index, offset, bytes) in places {
            if index >= RECORDS || set & 1 << index == 0 {
                continue;
            }
            let at = usize::try_from(offset).unwrap();
            let end = at + bytes + crate::log::RECORD_EXTRA_BYTES;
            let part = match numbers.next(6) {
                0 => at..at + 12,
                1 => at + 8..at + 12,
                2 => at + 12..end - 1,
                3 => at + 12 + 20..at + 12 + 24,
                4 => at..end,
                _ => end - 1..end,
            };
            let byte = if numbers.next(2) == 0 { 0 } else { 0xa5 };
            content[part].fill(byte);
        }
        disk.put(&path, content);
    }
}

/// One server takes what the others have. Returns whether something was written.
fn repair_once(servers: &[MemoryDisk], index: usize) -> bool {
    if assessed(&servers[index]).is_none() {
        return false;
    }
    let others: Vec<&MemoryDisk> =
        servers.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, it)| it).collect();
    let repair = repair_with(&servers[index], &others);
    !spliced(&servers[index], &repair).files.is_empty()
}

/// The txns that a server still reports as missing.
fn outstanding(servers: &[MemoryDisk], index: usize) -> Vec<i64> {
    let others: Vec<&MemoryDisk> =
        servers.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, it)| it).collect();
    let peers = [ServerId(2), ServerId(3)];
    let missing = repair_with(&servers[index], &others).outstanding(&peers);
    missing
        .iter()
        .flat_map(|range| {
            assert!(range.is_known);
            assert!(range.to_string().ends_with("damaged here, damaged on 2, damaged on 3"));
            range.first.0..=range.last.0
        })
        .collect()
}

#[test]
fn whatever_one_server_has_all_have() {
    let mut recoverable = 0;
    for sets in 0..1 << (RECORDS * SERVERS) {
        let mut numbers = Numbers(sets as u64 + 1);
        let set_of = |server: usize| sets >> (server * RECORDS) & 0xf;
        let servers: Vec<MemoryDisk> = (0..SERVERS)
            .map(|server| {
                let disk = healthy(&mut numbers);
                damage_records(&disk, set_of(server), &mut numbers);
                disk
            })
            .collect();
        while (0..SERVERS).filter(|index| repair_once(&servers, *index)).count() > 0 {}
        let nowhere = (0..SERVERS).fold(0xf, |set, server| set & set_of(server));
        let is_lost = |zxid: &i64| nowhere >> (zxid - all()[0]) & 1 == 1;
        let (lost, kept): (Vec<i64>, Vec<i64>) = all().into_iter().partition(is_lost);
        for index in 0..SERVERS {
            let found: Vec<(i64, Vec<u8>)> = tolerant_records(&servers[index]);
            assert_eq!(found, original(&kept), "{sets:03x}, server {index}");
            if lost.is_empty() {
                assert_eq!(assessed(&servers[index]), None, "{sets:03x}, server {index}");
                let tree = recovered(&servers[index]).tree;
                assert!(same(&tree, &tree_of(&creates(all()))), "{sets:03x}");
            } else {
                assert_eq!(outstanding(&servers, index), lost, "{sets:03x}, server {index}");
                crate::recover(&servers[index], &dirs(), &options(), &mut |_| {}).unwrap_err();
            }
        }
        recoverable += usize::from(lost.is_empty());
    }
    assert_eq!(recoverable, 2401);
}
