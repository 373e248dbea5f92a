//! What is asked for, what is accepted, and what is reported as missing.

use super::*;
use crate::testing::{create, epoch, payload};

const PEER: ServerId = ServerId(2);

fn bytes(zxid: i64) -> Bytes {
    Bytes::from(payload(&create(zxid, 40)))
}

fn gap(after: i64, before: Option<i64>, known: &[i64], is_complete: bool) -> Gap {
    let known = known.iter().map(|zxid| RecordId::of(Zxid(*zxid))).collect();
    Gap { after: Zxid(after), before: before.map(Zxid), known, is_complete }
}

fn repair(gaps: Vec<Gap>) -> Repair {
    let good = gaps.first().map_or(Zxid::ZERO, |gap| gap.after);
    let end = gaps.last().filter(|gap| gap.is_complete).map(|_| Zxid(99));
    Repair::new(Damage { good, gaps, end, needs_tree: None, places: Vec::new() })
}

/// Offers these records for the first wanted range.
fn offer(repair: &mut Repair, peer: ServerId, zxids: &[i64], answer: Answer) -> Offered {
    let mut offer = repair.offer_of(peer, repair.wanted()[0]);
    for zxid in zxids {
        assert!(offer.push(Zxid(*zxid), bytes(*zxid)));
    }
    repair.offer(offer, answer)
}

fn lines(repair: &Repair, peers: &[i64]) -> Vec<String> {
    let peers: Vec<ServerId> = peers.iter().copied().map(ServerId).collect();
    repair.outstanding(&peers).iter().map(ToString::to_string).collect()
}

fn unbroken(unbroken: bool) -> Answer {
    Answer { unbroken, damaged: Vec::new() }
}

#[test]
fn known_records_are_taken_from_whoever_has_them() {
    let mut repair = repair(vec![gap(7, Some(11), &[8, 9, 10], true)]);
    assert_eq!(repair.wanted(), [(Zxid(7), Zxid(11))]);
    assert_eq!(offer(&mut repair, PEER, &[8, 10], unbroken(false)).accepted, 2);
    assert!(!repair.is_complete());
    assert_eq!(repair.wanted(), [(Zxid(8), Zxid(10))]);
    assert_eq!(offer(&mut repair, ServerId(3), &[9], unbroken(false)).accepted, 1);
    assert!(repair.is_complete());
    assert!(repair.wanted().is_empty() && lines(&repair, &[2, 3]).is_empty());
    assert_eq!(
        repair.found(),
        [(Zxid(8), Zxid(8), PEER), (Zxid(9), Zxid(9), ServerId(3)), (Zxid(10), Zxid(10), PEER),]
    );
    // A second copy is not taken.
    let mut offer = Offer::new(PEER, Zxid(7), Zxid(11));
    offer.push(Zxid(8), bytes(8));
    assert_eq!(repair.offer(offer, unbroken(true)), Offered::default());
}

#[test]
fn only_what_was_asked_for_and_is_the_txn_is_taken() {
    let mut repair = repair(vec![gap(7, Some(10), &[8, 9], true)]);
    let mut offer = repair.offer_of(PEER, (Zxid(7), Zxid(10)));
    offer.push(Zxid(7), bytes(7));
    offer.push(Zxid(10), bytes(10));
    // The payload of another txn, and one that is none.
    offer.push(Zxid(8), bytes(9));
    offer.push(Zxid(9), Bytes::from_static(b"not a txn"));
    assert_eq!(repair.offer(offer, unbroken(true)), Offered { accepted: 0, refused: 2 });
    assert_eq!(lines(&repair, &[2]), ["txns 0x8 to 0x9: damaged here, different on 2"]);
}

#[test]
fn length_and_checksum_count_where_a_table_has_them() {
    let id = |zxid: i64| RecordId {
        zxid: Zxid(zxid),
        payload_bytes: u32::try_from(bytes(zxid).len()).ok(),
        adler: u32::try_from(checksum(&bytes(zxid))).ok(),
    };
    for (known, accepted) in [
        (id(8), 1),
        (RecordId { adler: None, ..id(8) }, 1),
        (RecordId { adler: Some(1), ..id(8) }, 0),
        (RecordId { payload_bytes: Some(1), ..id(8) }, 0),
    ] {
        let complete = Gap { known: vec![known], ..gap(7, Some(9), &[], true) };
        let open = Gap { is_complete: false, ..complete.clone() };
        for gap in [complete, open] {
            let mut repair = repair(vec![gap]);
            let offered = offer(&mut repair, PEER, &[8], unbroken(true));
            assert_eq!((offered.accepted, offered.refused), (accepted, 1 - accepted));
            assert_eq!(repair.is_complete(), accepted == 1);
        }
    }
}

/// Before a new epoch, one peer must have everything.
#[test]
fn an_unknown_number_of_txns_is_taken_from_one_peer_with_all_of_them() {
    let (old, new) = (epoch(1, 6..=9), epoch(2, 1..=2));
    let unknown = || repair(vec![gap(old[0], Some(new[1]), &[new[0]], false)]);
    let all = [old[1], old[2], new[0]];
    let mut repair = unknown();
    assert_eq!(repair.wanted(), [(Zxid(old[0]), Zxid(new[1]))]);
    assert_eq!(offer(&mut repair, PEER, &all, unbroken(false)).accepted, 0);
    // Not a chain, without the known one, with one too many.
    for wrong in [&[old[2], new[0]][..], &[old[1], old[2]], &[], &[old[1], old[3], new[0]]] {
        assert_eq!(offer(&mut repair, PEER, wrong, unbroken(true)).accepted, 0, "{wrong:?}");
    }
    // A part of the range.
    let mut part = repair.offer_of(PEER, (Zxid(old[1]), Zxid(new[1])));
    part.push(Zxid(old[2]), bytes(old[2]));
    part.push(Zxid(new[0]), bytes(new[0]));
    assert_eq!(repair.offer(part, unbroken(true)).accepted, 0);
    assert!(!repair.is_complete());
    let line =
        format!("all txns between {:#x} and {:#x}: damaged here, missing on 2", old[0], new[1]);
    assert_eq!(lines(&repair, &[2]), [line]);
    assert_eq!(offer(&mut repair, PEER, &all, unbroken(true)).accepted, 3);
    assert!(repair.is_complete());
    // There may have been none.
    let mut repair = self::repair(vec![gap(old[0], Some(new[0]), &[], false)]);
    assert!(!repair.is_complete());
    offer(&mut repair, PEER, &[], unbroken(true));
    assert!(repair.is_complete());
}

#[test]
fn the_end_is_not_guessed() {
    let mut repair = repair(vec![gap(7, None, &[8], false)]);
    assert_eq!(repair.irreparable(), Some(Irreparable::EndUnknown));
    assert!(repair.wanted().is_empty());
    let mut offer = Offer::new(PEER, Zxid(7), Zxid(i64::MAX));
    offer.push(Zxid(8), bytes(8));
    assert_eq!(repair.offer(offer, unbroken(true)).accepted, 0);
    assert_eq!(lines(&repair, &[2]), ["all txns after 0x7: damaged here, missing on 2"]);
    let mut known = self::repair(vec![gap(7, None, &[8, 9], true)]);
    assert_eq!((known.irreparable(), known.wanted()), (None, vec![(Zxid(7), Zxid(10))]));
    self::offer(&mut known, PEER, &[8, 9], unbroken(false));
    assert!(known.is_complete());
    let tree = Damage { needs_tree: Some(Irreparable::NoSnapshot), ..known.damage().clone() };
    let repair = Repair::new(Damage { gaps: Vec::new(), ..tree });
    assert_eq!(repair.irreparable(), Some(Irreparable::NoSnapshot));
    assert!(!repair.is_complete());
}

#[test]
fn damage_without_missing_txns_needs_nobody() {
    let repair = repair(Vec::new());
    assert!(repair.is_complete() && repair.wanted().is_empty());
}

#[test]
fn what_is_missing_is_reported_with_what_each_peer_has_said() {
    let mut repair =
        repair(vec![gap(7, Some(12), &[8, 9, 10, 11], true), gap(20, Some(22), &[21], true)]);
    let damaged = Answer { unbroken: false, damaged: vec![(Zxid(8), Zxid(11))] };
    offer(&mut repair, PEER, &[8], damaged);
    assert_eq!(
        lines(&repair, &[2, 3]),
        [
            "txns 0x9 to 0xa: damaged here, damaged on 2, not answered by 3",
            "txn 0xb: damaged here, missing on 2, not answered by 3",
            "txn 0x15: damaged here, not answered by 2, not answered by 3",
        ]
    );
}

#[test]
fn memory_is_bounded() {
    let mut repair = repair(vec![gap(0, Some(3), &[1, 2], true)]);
    repair.bytes = REPAIR_BYTES_MAX - 10;
    let mut offer = repair.offer_of(PEER, (Zxid(0), Zxid(3)));
    assert!(!offer.push(Zxid(1), bytes(1)));
    assert_eq!(repair.offer(offer, unbroken(true)).accepted, 0);
    assert_eq!(repair.irreparable(), Some(Irreparable::TooLarge));
    // An offer that was not limited.
    let mut offer = Offer::new(PEER, Zxid(0), Zxid(3));
    assert!(offer.push(Zxid(1), bytes(1)));
    assert_eq!(repair.offer(offer, unbroken(true)).accepted, 0);
    assert!(repair.bytes <= REPAIR_BYTES_MAX);
    // Many txns that nobody has.
    let known: Vec<i64> = (1..3000).map(|index| 2 * index).collect();
    let repair = self::repair(vec![gap(0, Some(9000), &known, true)]);
    assert_eq!(repair.outstanding(&[PEER]).len(), OUTSTANDING_MAX);
}

/// All of it used to be asked for again in each round, from each peer, although it is never taken.
#[test]
fn what_does_not_fit_is_not_asked_for_again() {
    let mut repair = repair(vec![gap(0, Some(9), &[], false), gap(9, Some(12), &[10, 11], true)]);
    repair.bytes = REPAIR_BYTES_MAX - 10;
    let mut offer = repair.offer_of(PEER, repair.wanted()[0]);
    assert!(!offer.push(Zxid(1), bytes(1)));
    repair.offer(offer, Answer::default());
    assert_eq!(repair.irreparable(), Some(Irreparable::TooLarge));
    // What is known can come from several peers, as far as there is room.
    assert_eq!(repair.wanted(), [(Zxid(9), Zxid(12))]);
}

/// After a crash in the middle of a splice, a part of a gap is left.
#[test]
fn records_are_found_for_a_part_of_a_gap() {
    let mut repair = repair(vec![gap(7, Some(10), &[8, 9], true)]);
    offer(&mut repair, PEER, &[9], unbroken(false));
    let found = |repair: &Repair, after: i64, before: Option<i64>| {
        let (records, is_filled) = repair.found_in(&gap(after, before, &[], true));
        (records.iter().map(|(zxid, _)| zxid.0).collect::<Vec<_>>(), is_filled)
    };
    assert_eq!(found(&repair, 7, Some(10)), (vec![9], false));
    assert_eq!(found(&repair, 7, Some(9)), (vec![], false));
    assert_eq!(found(&repair, 6, Some(10)), (vec![], false));
    assert_eq!(found(&repair, 7, None), (vec![], false));
    offer(&mut repair, PEER, &[8], unbroken(false));
    assert_eq!(found(&repair, 7, Some(10)), (vec![8, 9], true));
    assert_eq!(found(&repair, 8, Some(10)), (vec![9], true));
}
