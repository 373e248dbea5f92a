//! The gaps of each kind of log. A log is written as text, as in the tests of `recover::plan`: files separated by `|`,
//! each with its name and its pieces. `damage` is damage of which nothing is known, `damage(8,9)` damage for which a
//! table lists these txns and no others, `damage(8,?)` with others. A gap is written as `7 [8 9] 10`, with `?` for
//! txns that nobody knows, and `end` if nothing valid follows.

use super::*;
use crate::log::pieces::PieceContent;
use herdsman_proto::DecodeError;

fn zxid(text: &str) -> Zxid {
    let (epoch, counter) = text.split_once('/').unwrap_or(("0", text));
    Zxid(Zxid::start_of(epoch.parse().unwrap()).0 | counter.parse::<i64>().unwrap())
}

fn shown(zxid: Zxid) -> String {
    match zxid.epoch() {
        0 => zxid.counter().to_string(),
        epoch => format!("{epoch}/{}", zxid.counter()),
    }
}

fn piece(file: LogName, start: u64, word: &str) -> LogPiece {
    let part = (start, start + 100);
    if let Some(rest) = word.strip_prefix("damage") {
        let content = PieceContent::Damage { why: "damaged", next_valid: None };
        let mut piece = LogPiece::of(file, part, content);
        let Some(listed) = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
            return piece;
        };
        let listed = listed.split(',').filter(|text| !text.is_empty());
        piece.lost_is_complete = !listed.clone().any(|text| text == "?");
        piece.lost =
            listed.filter(|text| *text != "?").map(|text| RecordId::of(zxid(text))).collect();
        return piece;
    }
    let content = match (word, word.strip_prefix('~')) {
        ("torn", _) => PieceContent::Torn,
        (_, Some(unknown)) => {
            PieceContent::Undecodable { zxid: zxid(unknown), error: DecodeError::Trailing(1) }
        }
        (run, None) => {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last) = (zxid(first), zxid(last));
            PieceContent::Run { first, last, records: (last.0 - first.0).cast_unsigned() + 1 }
        }
    };
    LogPiece::of(file, part, content)
}

fn parse(log: &str) -> (Vec<LogName>, Vec<LogPiece>) {
    let (mut files, mut pieces) = (Vec::new(), Vec::new());
    for text in log.split('|').map(str::trim).filter(|text| !text.is_empty()) {
        let (name, rest) = text.split_once(':').unwrap();
        let file = LogName { zxid: zxid(name) };
        files.push(file);
        for (index, word) in rest.split_whitespace().enumerate() {
            pieces.push(piece(file, 100 * index as u64, word));
        }
        pieces.push(LogPiece::of(file, (10_000, 10_000), PieceContent::End));
    }
    (files, pieces)
}

fn text(found: &FoundGaps) -> String {
    let mut text = String::new();
    for gap in &found.gaps {
        let known: Vec<String> = gap.known.iter().map(|id| shown(id.zxid)).collect();
        let open = if gap.is_complete { "" } else { "?" };
        let before = gap.before.map_or("end".to_owned(), shown);
        text += &format!("{} [{}{open}] {before}; ", shown(gap.after), known.join(" "));
    }
    text + &format!("until {}", found.end.map_or("?".to_owned(), shown))
}

#[derive(Clone, Copy, Default)]
struct Facts<'a> {
    base: &'a str,
    known: &'a str,
    reach: &'a str,
}

const BEGINNING: Facts<'static> = Facts { base: "0", known: "", reach: "0" };

fn find(facts: Facts<'_>, log: &str) -> Result<FoundGaps, LogFault> {
    let (files, pieces) = parse(log);
    let known: Vec<Zxid> = facts.known.split_whitespace().map(zxid).collect();
    let (base, reach) = (zxid(facts.base), zxid(facts.reach));
    let facts = LogFacts { base, known: &known, reach, last_file: files.last().copied() };
    find_gaps(&pieces, facts)
}

#[track_caller]
fn check(facts: Facts<'_>, log: &str, expected: &str) {
    match find(facts, log) {
        Ok(found) => assert_eq!(text(&found), expected, "{log}"),
        Err(fault) => assert_eq!(format!("{:?}", fault.kind), expected, "{log}"),
    }
}

#[test]
fn a_whole_log_has_no_gaps() {
    for log in
        ["", "1: 1-7", "1: 1-7 | 8: 8-12", "1: 1-7 torn", "1: 1-7 | 8:", "1: 1-7 torn | 8: 8"]
    {
        let found = find(BEGINNING, log).unwrap();
        assert!(found.gaps.is_empty(), "{log}");
        assert!(found.fates.iter().all(|fate| *fate == PieceFate::Stays), "{log}");
    }
    check(BEGINNING, "1: 1-7 | 1/1: 1/1-1/3 | 3/1: 3/1", "until 3/1");
    check(Facts { base: "1/5", ..BEGINNING }, "1/1: 1/1-1/9", "until 1/9");
}

#[test]
fn in_one_epoch_the_missing_txns_are_known() {
    check(BEGINNING, "1: 1-7 damage 9-12", "7 [8] 9; until 12");
    check(BEGINNING, "1: damage 3-12", "0 [1 2] 3; until 12");
    check(BEGINNING, "1: 1-2 damage 4 damage 7-9", "2 [3] 4; 4 [5 6] 7; until 9");
    check(BEGINNING, "1: 1-7 | 10: 10-12", "7 [8 9] 10; until 12");
    check(BEGINNING, "1: 1-7 damage | 10: damage 12", "7 [8 9 10 11] 12; until 12");
    check(BEGINNING, "1: 1-7 | 8: | 10: 10", "7 [8 9] 10; until 10");
    check(BEGINNING, "1: 1-7 | 8: damage | 10: 10", "7 [8 9] 10; until 10");
    check(BEGINNING, "1: 1-7 | 10:", "7 [8 9] end; until 9");
    check(BEGINNING, "5: 5-7", "0 [1 2 3 4] 5; until 7");
    check(BEGINNING, "1: 1-3 6-7", "3 [4 5] 6; until 7");
    check(BEGINNING, "1: 1-3 ~4 5-7", "3 [4] 5; until 7");
    check(BEGINNING, "1: 1-3 ~4 damage 7", "3 [4 5 6] 7; until 7");
    check(BEGINNING, "1: 1-3 ~4", "3 [4] end; until 4");
    check(BEGINNING, "1: 1-7 torn | 9: 9", "7 [8] 9; until 9");
}

#[test]
fn what_the_snapshot_covers_does_not_count() {
    let facts = Facts { base: "5", ..BEGINNING };
    check(facts, "1: 1-2 damage 5-9", "until 9");
    check(facts, "1: damage 6-9", "until 9");
    check(facts, "1: 1-2 damage | 4: damage 6-9", "until 9");
    check(facts, "1: 1-2 damage 7-9", "5 [6] 7; until 9");
    check(facts, "1: 1-2 4-9", "until 9");
    check(facts, "1: ~3 damage 5-9", "until 9");
    check(facts, "1: 1-7 damage 9 damage", "7 [8] 9; 9 [?] end; until ?");
    check(facts, "1: damage", "5 [?] end; until ?");
    check(facts, "1: damage | 6:", "until 5");
    for fate in find(facts, "1: 1-2 damage 4 damage 6-9").unwrap().fates {
        assert_eq!(fate, PieceFate::Stays);
    }
}

#[test]
fn before_a_new_epoch_only_a_table_knows() {
    check(BEGINNING, "1: 1-7 damage | 1/1: 1/1-1/3", "7 [?] 1/1; until 1/3");
    check(BEGINNING, "1: 1-7 damage 1/3", "7 [1/1 1/2?] 1/3; until 1/3");
    check(BEGINNING, "1: 1-7 damage(8,9) | 1/1: 1/1", "7 [8 9] 1/1; until 1/1");
    check(BEGINNING, "1: 1-7 damage(8,9,?) | 1/1: 1/1", "7 [8 9?] 1/1; until 1/1");
    check(BEGINNING, "1: 1-7 damage(9) | 1/1: 1/1", "7 [9?] 1/1; until 1/1");
    check(BEGINNING, "1: 1-7 damage() | 1/1: 1/1", "until 1/1");
    check(BEGINNING, "1: 1-7 damage(8,1/1) 1/2", "7 [8 1/1] 1/2; until 1/2");
    check(BEGINNING, "1: 1-7 damage(8) 1/2", "7 [8 1/1?] 1/2; until 1/2");
    // Without damage, zxids show nothing but the first txns of the new epoch.
    check(BEGINNING, "1: 1-7 | 1/3: 1/3", "7 [1/1 1/2?] 1/3; until 1/3");
    check(BEGINNING, "1: 1-7 1/3", "7 [1/1 1/2?] 1/3; until 1/3");
}

/// A file is named by its first txn, so damage in its beginning took that one, and none before it.
#[test]
fn the_name_of_a_file_is_its_first_txn() {
    check(BEGINNING, "1: 1-7 | 1/1: damage 1/3", "7 [1/1 1/2] 1/3; until 1/3");
    check(BEGINNING, "1: 1-7 | 1/1: damage 1/1-1/3", "until 1/3");
    check(BEGINNING, "1: 1-7 damage | 1/1: damage 1/1-1/3", "7 [?] 1/1; until 1/3");
    check(BEGINNING, "1: 1-7 damage | 1/1: damage 1/3", "7 [1/1 1/2?] 1/3; until 1/3");
    check(BEGINNING, "1: 1-7 | 1/1: damage 2/1", "7 [1/1?] 2/1; until 2/1");
    check(BEGINNING, "1: 1-7 | 1/1: ~1/1 1/2", "7 [1/1] 1/2; until 1/2");
    // A file without txns: only what comes before its name was there.
    check(BEGINNING, "1: 1-7 | 1/1:", "until 7");
    check(BEGINNING, "1: 1-7 | 1/1: | 1/3: 1/3", "7 [1/1 1/2] 1/3; until 1/3");
    check(BEGINNING, "1: 1-7 | 1/1: torn | 1/1: 1/1-1/3", "until 1/3");
    check(BEGINNING, "1: 1-7 | 1/1: | 2/1: 2/1", "until 2/1");
    check(BEGINNING, "1: 1-7 damage(8,9) | 1/1:", "7 [8 9] end; until 9");
    check(BEGINNING, "1: 1-7 damage | 1/1:", "7 [?] end; until ?");
    check(BEGINNING, "1: 1-7 damage | 1/1: | 2/1: 2/1", "7 [?] 2/1; until 2/1");
    check(BEGINNING, "1: 1-7 | 1/4: | 1/6: 1/6", "7 [1/1 1/2 1/3 1/4 1/5?] 1/6; until 1/6");
    // Too late a name of a file with a txn of a new epoch.
    check(BEGINNING, "1: 1-7 | 1/4: 2/1", "7 [1/1 1/2 1/3 1/4?] 2/1; until 2/1");
}

#[test]
fn an_earlier_start_may_have_dropped_what_is_damaged() {
    check(BEGINNING, "1: 1-7 damage | 8: 8-9", "until 9");
    check(BEGINNING, "1: 1-7 damage | 8:", "until 7");
    check(BEGINNING, "1: 1-7 damage 8-9", "until 9");
    let fates = find(BEGINNING, "1: 1-7 damage 8-9").unwrap().fates;
    assert_eq!(fates, [PieceFate::Stays, PieceFate::Dropped, PieceFate::Stays, PieceFate::Stays]);
}

#[test]
fn the_end_is_known_only_if_a_table_knows_it() {
    check(BEGINNING, "1: 1-7 damage", "7 [?] end; until ?");
    check(BEGINNING, "1: 1-7 damage(8,9)", "7 [8 9] end; until 9");
    check(BEGINNING, "1: 1-7 damage(9)", "7 [8 9] end; until 9");
    check(BEGINNING, "1: 1-7 damage()", "until 7");
    check(BEGINNING, "1: 1-7 damage(8,?)", "7 [8?] end; until ?");
    check(BEGINNING, "1: 1-7 | 8: damage", "7 [8?] end; until ?");
    check(BEGINNING, "1: 1-7 | 8: damage(8,9)", "7 [8 9] end; until 9");
    check(BEGINNING, "1: 1-7 | 8: damage()", "until 7");
    check(BEGINNING, "1: 1-7 damage(8) | 1/1: damage(1/1)", "7 [8 1/1] end; until 1/1");
}

#[test]
fn snapshots_show_txns() {
    let damaged = Facts { known: "9", reach: "9", ..BEGINNING };
    check(damaged, "1: 1-7", "7 [8 9?] end; until ?");
    check(damaged, "1: 1-12", "until 12");
    check(damaged, "1: 1-7 | 1/1: 1/1", "7 [9?] 1/1; until 1/1");
    check(damaged, "1: 1-7 damage(8,9) | 1/1: 1/1", "7 [8 9] 1/1; until 1/1");
    // A leader's snapshot may be named by the start of its epoch, which is no txn.
    let start = Facts { known: "1/0", reach: "1/0", ..BEGINNING };
    check(start, "1: 1-7 | 1/1: 1/1", "7 [?] 1/1; until 1/1");
    check(start, "1: 1-7", "7 [?] end; until ?");
}

#[test]
fn zxids_that_go_back_are_no_gap() {
    check(BEGINNING, "1: 1-7 5-8", "Backwards { found: Zxid(5) }");
    check(BEGINNING, "1: 1-7 | 1/1: 1/1 | 1/2: 1/1", "Backwards { found: Zxid(4294967297) }");
}

#[test]
fn a_gap_of_any_size_takes_little_memory() {
    let found = find(BEGINNING, "1: 1-7 damage 4000000000").unwrap();
    assert_eq!(text(&found), "7 [?] 4000000000; until 4000000000");
    let found = find(BEGINNING, "1: 1-7 damage 1/4000000000").unwrap();
    assert_eq!(text(&found), "7 [?] 1/4000000000; until 1/4000000000");
}

/// Each piece of damage is dropped with the gap that it is in.
#[test]
fn damage_belongs_to_its_gap() {
    use PieceFate::{FilledBy, Stays};
    let fates = |log| find(BEGINNING, log).unwrap().fates;
    assert_eq!(
        fates("1: 1-2 damage 4 damage | 6: damage 8"),
        [Stays, FilledBy(0), Stays, FilledBy(1), Stays, FilledBy(1), Stays, Stays]
    );
    assert_eq!(
        fates("1: 1-2 | 3: damage | 4: 4"),
        [Stays, Stays, FilledBy(0), Stays, Stays, Stays]
    );
    assert_eq!(fates("1: 1-2 ~3 damage 5"), [Stays, FilledBy(0), FilledBy(0), Stays, Stays]);
    assert_eq!(fates("1: 1-2 damage"), [Stays, FilledBy(0), Stays]);
}

/// If not everything was read, the end is not known.
#[test]
fn a_log_that_was_not_read_to_its_end_has_no_end() {
    let (_, pieces) = parse("1: 1-7");
    let last_file = Some(LogName { zxid: Zxid(8) });
    let facts = LogFacts { base: Zxid::ZERO, known: &[], reach: Zxid::ZERO, last_file };
    assert_eq!(text(&find_gaps(&pieces, facts).unwrap()), "7 [?] end; until ?");
}
