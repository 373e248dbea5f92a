//! The ends of a log: torn tails are cut, damage is refused, at every byte and bit.

use super::*;
use crate::log::lost::RecordId;
use crate::testing::*;

/// A file with these bytes, and how its records end.
fn ending(content: Vec<u8>) -> (usize, RecordsEnd) {
    let disk = disk();
    disk.put(&log_path(1), content);
    let mut reader = RecordReader::open(&disk, &log_path(1)).unwrap();
    let mut records = 0;
    while reader.next_record().unwrap().is_some() {
        records += 1;
    }
    (records, classify(&reader).unwrap())
}

fn padded(mut content: Vec<u8>, bytes: usize) -> Vec<u8> {
    content.resize(content.len() + bytes, 0);
    content
}

fn two_records() -> (Vec<u8>, usize) {
    let first = log_bytes(&[create(1, 700)]).len();
    (log_bytes(&[create(1, 700), create(2, 1500)]), first)
}

/// Cut anywhere, with the file ending there or continuing with zeros, the complete records are returned and
/// the rest is a torn write.
#[test]
fn a_write_torn_at_any_byte_is_a_torn_tail() {
    let (content, first) = two_records();
    for cut in 0..content.len() {
        for padding in [0, 1, 5000] {
            let (records, ending) = ending(padded(content[..cut].to_vec(), padding));
            assert_eq!(records, usize::from(cut >= first), "cut at {cut}");
            assert!(
                matches!(ending, RecordsEnd::Clean | RecordsEnd::Torn { .. }),
                "cut at {cut}: {ending:?}"
            );
        }
    }
    let (records, ending) = ending(padded(content, 5000));
    assert_eq!((records, ending), (2, RecordsEnd::Clean));
}

/// Whatever bit flips in a synced record, the record is still read or damage is reported.
#[test]
fn a_flipped_bit_never_passes_for_a_torn_tail() {
    let (content, _) = two_records();
    for padding in [0, 4000] {
        let whole = padded(content.clone(), padding);
        for offset in 0..content.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[offset] ^= 1 << bit;
                let (records, ending) = ending(flipped);
                let told = matches!(ending, RecordsEnd::Damaged(_));
                assert!(records == 2 || told, "bit {bit} of {offset}: {ending:?}");
            }
        }
    }
}

#[test]
fn a_length_that_swallows_the_rest_of_the_file_is_found_out() {
    let (content, first) = two_records();
    for at in [16, first] {
        for length in [0x7fff_ffff, 100_000, 4000] {
            let mut content = padded(content.clone(), 200_000);
            content[at + 8..at + 12].copy_from_slice(&i32::to_be_bytes(length));
            let (_, ending) = ending(content);
            assert!(matches!(ending, RecordsEnd::Damaged(_)), "{at} {length}: {ending:?}");
        }
    }
}

/// Garbage over the checksum and the length of a record, with a length that reaches behind the last byte: the
/// records that follow were synced after it, so it is not a torn write, whatever it claims to be.
#[test]
fn garbage_over_a_head_with_valid_records_behind_it_is_damage() {
    let entries = [create(1, 300), create(2, 300), create(3, 300), create(4, 300)];
    let starts: Vec<usize> = (0..4).map(|count| log_bytes(&entries[..count]).len()).collect();
    for (from, until) in [(1, 2), (1, 3), (0, 1), (0, 3)] {
        for length in [0x7fff_ffff, 900_000, 5000] {
            let mut content = padded(log_bytes(&entries), 3000);
            for start in &starts[from..until] {
                content[*start..start + 8].fill(0xa5);
                content[start + 8..start + 12].copy_from_slice(&i32::to_be_bytes(length));
            }
            let (records, ending) = ending(content);
            let RecordsEnd::Damaged(damage) = ending else {
                panic!("{from}..{until} with length {length}: {ending:?}");
            };
            assert_eq!(records, from);
            let next = (starts[until] as u64, Zxid(until as i64 + 1));
            assert_eq!(damage.next_valid, Some(next), "{from}..{until} with length {length}");
        }
    }
}

/// Nothing follows the last record, but it is complete: only its checksum and length are garbage.
#[test]
fn garbage_over_the_head_of_the_last_record_is_damage() {
    let (content, first) = two_records();
    for padding in [0, 3000] {
        let mut content = padded(content.clone(), padding);
        content[first..first + 8].fill(0xa5);
        content[first + 8..first + 12].copy_from_slice(&i32::to_be_bytes(900_000));
        assert!(matches!(ending(content), (1, RecordsEnd::Damaged(_))));
    }
}

/// A client's data may look like a record. One that is older than the log continues nothing.
#[test]
fn a_torn_record_that_holds_an_older_record_is_torn() {
    let mut data = Vec::new();
    crate::log::encode_record(&payload(&create(1, 100)), &mut data);
    data.resize(2000, 7);
    let mut torn = create(3, 0);
    if let herdsman_proto::Txn::Create(create) = &mut torn.txn {
        create.data = Some(data.into());
    }
    let content = log_bytes(&[create(1, 20), create(2, 20), torn]);
    let cut = content.len() - 500;
    let (records, ending) = ending(padded(content[..cut].to_vec(), 3000));
    assert_eq!(records, 2);
    assert!(matches!(ending, RecordsEnd::Torn { .. }), "{ending:?}");
}

#[test]
fn damage_names_the_next_valid_record() {
    let (mut content, first) = two_records();
    content[100] ^= 1;
    let expected = LogDamage {
        why: "the record's checksum is wrong",
        next_valid: Some((first as u64, Zxid(2))),
        lost: LostRecords { ids: vec![RecordId::of(Zxid(1))], is_complete: true },
    };
    assert_eq!(ending(content), (0, RecordsEnd::Damaged(expected)));
}

/// Record 1 is torn, record 2 of the same batch is whole: this looks exactly like corruption, so it is damage.
#[test]
fn a_hole_with_a_record_behind_it_is_damage() {
    let (content, first) = two_records();
    for hole in [16..first, 16..512, 512..first] {
        let mut content = content.clone();
        content[hole.clone()].fill(0);
        let (records, ending) = ending(content);
        assert_eq!(records, 0);
        let RecordsEnd::Damaged(damage) = ending else {
            panic!("{hole:?}: {ending:?}");
        };
        assert_eq!(damage.next_valid, Some((first as u64, Zxid(2))));
    }
}

#[test]
fn headers() {
    let (content, _) = two_records();
    assert_eq!(ending(Vec::new()), (0, RecordsEnd::Clean));
    assert_eq!(ending(vec![0; 9000]), (0, RecordsEnd::Clean));
    assert_eq!(ending(content[..16].to_vec()), (0, RecordsEnd::Clean));
    assert_eq!(ending(padded(content[..3].to_vec(), 100)), (0, RecordsEnd::Torn { bytes: 3 }));
    let mut missing = content.clone();
    missing[..16].fill(0);
    assert!(matches!(ending(missing), (0, RecordsEnd::Damaged(_))));
    let mut snapshot = content;
    snapshot[..4].copy_from_slice(b"ZKSN");
    assert!(matches!(ending(snapshot), (0, RecordsEnd::Damaged(_))));
}

/// An inspection can continue after the damage, up to the end.
#[test]
fn reading_can_be_resumed_at_the_next_valid_record() {
    let mut content = log_bytes(&[create(1, 700), create(2, 1500), create(3, 10)]);
    let second = log_bytes(&[create(1, 700)]).len();
    let third = log_bytes(&[create(1, 700), create(2, 1500)]).len() as u64;
    content[second + 100] ^= 1;
    let disk = disk();
    disk.put(&log_path(1), content);
    let mut reader = RecordReader::open(&disk, &log_path(1)).unwrap();
    while reader.next_record().unwrap().is_some() {}
    let RecordsEnd::Damaged(damage) = classify(&reader).unwrap() else {
        panic!("the second record is damaged");
    };
    assert_eq!(damage.next_valid, Some((third, Zxid(3))));
    reader.resume_at(third);
    assert_eq!(reader.next_record().unwrap().map(|record| record.zxid), Some(Zxid(3)));
    assert_eq!(classify(&reader).unwrap(), RecordsEnd::Clean);
}
