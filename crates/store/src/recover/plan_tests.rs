//! What is decided about each kind of log. A log is written as text: files separated by `|`, each with its name and its
//! pieces of 100 bytes. `1: 1-7 damage 9-12 | d: torn` is `log.1` with a run of txns 1 to 7, damage, and a run of
//! txns 9 to 12, then `log.d` with nothing but a torn record. `2/1` is the first txn of epoch 2; names of files are
//! given like zxids.

use std::path::Path;

use herdsman_proto::DecodeError;

use super::*;
use crate::log::chain::LogFaultKind;
use crate::log::pieces::{LogPiece, PieceContent};
use crate::log::walk::TrailingBytes;
use crate::names::{Compression, LogName};

const HEADER_BYTES: u64 = crate::log::HEADER_BYTES;
const PIECE_BYTES: u64 = 100;

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

fn content(word: &str) -> PieceContent {
    match word {
        "damage" => PieceContent::Damage { why: "damaged", next_valid: None },
        "torn" => PieceContent::Torn,
        run => match run.strip_prefix('?') {
            Some(unknown) => {
                PieceContent::Undecodable { zxid: zxid(unknown), error: DecodeError::Trailing(1) }
            }
            None => {
                let (first, last) = run.split_once('-').unwrap_or((run, run));
                let (first, last) = (zxid(first), zxid(last));
                PieceContent::Run { first, last, records: (last.0 - first.0).cast_unsigned() + 1 }
            }
        },
    }
}

fn parse(log: &str) -> (Vec<LogName>, LogPieces) {
    let (mut files, mut pieces) = (Vec::new(), LogPieces::default());
    for text in log.split('|').map(str::trim).filter(|text| !text.is_empty()) {
        let (name, rest) = text.split_once(':').unwrap();
        let file = LogName { zxid: zxid(name) };
        files.push(file);
        let mut start = HEADER_BYTES;
        for word in rest.split_whitespace() {
            let end = start + PIECE_BYTES;
            pieces.pieces.push(LogPiece::of(file, (start, end), content(word)));
            start = end;
        }
        pieces.pieces.push(LogPiece::of(file, (start, start + 7), PieceContent::End));
    }
    (files, pieces)
}

fn place(file: LogName, offset: u64) -> String {
    let piece = (offset.saturating_sub(HEADER_BYTES)) / PIECE_BYTES;
    format!("log.{}[{piece}]", shown(file.zxid))
}

fn refusal_text(refusal: &RecoveryRefusal) -> String {
    match refusal {
        RecoveryRefusal::Log(fault) => {
            let kind = match fault.kind {
                LogFaultKind::Damaged { .. } => "damage".to_owned(),
                LogFaultKind::Gap { found } => format!("gap before {}", shown(found)),
                LogFaultKind::Backwards { found } => format!("back to {}", shown(found)),
                LogFaultKind::Undecodable { zxid, .. } => format!("unknown {}", shown(zxid)),
            };
            let place = place(fault.file, fault.offset);
            format!("{kind} at {place} after {}", shown(fault.last_good))
        }
        RecoveryRefusal::Digest(mismatch) => format!("digest at {}", shown(mismatch.zxid)),
        RecoveryRefusal::LogLost { known, last } => {
            format!("ends at {} without {}", shown(*last), shown(*known))
        }
        RecoveryRefusal::LogTooShort { reach, last } => {
            format!("ends at {} before {}", shown(*last), shown(reach.zxid))
        }
    }
}

fn plan_text(plan: &RecoveryPlan) -> String {
    let mut text = format!("until {}", shown(plan.log.last_zxid));
    if let Some(tail) = &plan.log.tail {
        let rest = match tail.rest {
            TrailingBytes::Nothing => "",
            TrailingBytes::Torn => " torn",
            TrailingBytes::GivenUp => " given up",
        };
        text += &format!(", ends {}{rest}", place(tail.name, tail.good_bytes));
    }
    for tail in &plan.log.empty {
        text += &format!(", empty log.{}", shown(tail.name.zxid));
    }
    for file in &plan.log.given_up {
        text += &format!(", aside log.{}", shown(file.zxid));
    }
    if let Some(loss) = &plan.loss {
        text += &format!("; lost: {}", refusal_text(loss));
    }
    if let Some(reason) = &plan.suspend_voting {
        text += &format!("; no vote: {reason}");
    }
    text
}

/// What there is besides the log.
#[derive(Default)]
struct PlanCase {
    /// The snapshot that is used.
    base: &'static str,
    /// Newer snapshots that cannot be used, and how far the used one is fuzzy.
    reaches: &'static [&'static str],
    /// A txn that was durable here.
    known_last: Option<&'static str>,
    accept: Option<&'static str>,
    digest_mismatch: Option<DigestMismatch>,
    on_mismatch: OnDigestMismatch,
    serves: ServerKind,
}

fn check(given: &PlanCase, log: &str, expected: &str) {
    let (files, pieces) = parse(log);
    let after = zxid(given.base);
    let reaches: Vec<SnapshotReach> = given
        .reaches
        .iter()
        .map(|text| SnapshotReach {
            snapshot: SnapshotName { zxid: zxid(text), compression: Compression::None },
            zxid: zxid(text),
        })
        .collect();
    let known: Vec<Zxid> = reaches.iter().map(|reach| reach.zxid).collect();
    let dir = Path::new("/log");
    let log_files = LogFiles { dir, files: &files, after, until: None, known: &known, open: None };
    let digest_mismatch = given.digest_mismatch;
    let found = RecoveryInput {
        is_fresh: log.is_empty() && after == Zxid::ZERO,
        log: log_files,
        pieces: &pieces,
        reaches: &reaches,
        known_last: given.known_last.map(zxid),
        digest_mismatch,
    };
    let options = RecoverOptions {
        accept_loss_after: given.accept.map(zxid),
        on_mismatch: given.on_mismatch,
        serves: given.serves,
        ..RecoverOptions::default()
    };
    let text = match plan_recovery(&found, &options) {
        Ok(plan) => plan_text(&plan),
        Err(refusal) => format!("refuse: {}", refusal_text(&refusal)),
    };
    assert_eq!(text, expected, "{log} from {} accepting {:?}", given.base, given.accept);
}

fn from(base: &'static str) -> PlanCase {
    PlanCase { base, ..PlanCase::default() }
}

#[test]
fn a_log_without_faults() {
    check(&from("0"), "", "until 0");
    check(&from("0"), "1: 1-7", "until 7, ends log.1[1]");
    check(&from("0"), "1: 1-7 | 8: 8-9", "until 9, ends log.8[1]");
    check(&from("5"), "1: 1-7 | 8: 8-9", "until 9, ends log.8[1]");
    check(&from("9"), "1: 1-7", "until 9, ends log.1[1]");
    check(&from("0"), "1: 1-7 torn", "until 7, ends log.1[1] torn");
    check(&from("0"), "1: 1-7 | 8:", "until 7, ends log.1[1], empty log.8");
    check(&from("0"), "1: 1-7 | 8: torn", "until 7, ends log.1[1], empty log.8");
    // A server that goes on after a crash, as Apache's does, leaves the torn write where it is.
    check(&from("0"), "1: 1-7 torn | 8: 8-9", "until 9, ends log.8[1]");
    check(&from("1/3"), "1/1: 1/1-1/5 2/1-2/3", "until 2/3, ends log.1/1[2]");
    check(&from("1/3"), "1/1: 1/1-1/5 torn | 2/1: 2/1", "until 2/1, ends log.2/1[1]");
    check(&from("1/3"), "1/1: 1/1-1/5 | 1/6: | 2/1: 2/1", "until 2/1, ends log.2/1[1]");
}

#[test]
fn a_log_must_reach_what_was_durable_here() {
    let given = |base, accept| PlanCase { known_last: Some("8"), accept, ..from(base) };
    check(&given("0", None), "1: 1-7", "refuse: ends at 7 without 8");
    check(&given("0", None), "1: 1-8", "until 8, ends log.1[1]");
    check(&given("8", None), "", "until 8");
    check(&given("5", None), "", "refuse: ends at 5 without 8");
    check(&given("0", Some("7")), "1: 1-7", "until 7, ends log.1[1]; lost: ends at 7 without 8");
    // Nothing is left at all: a member like that does not vote for other reasons.
    check(&given("0", None), "", "until 0");
}

#[test]
fn what_the_snapshot_does_not_cover_must_be_whole() {
    check(&from("5"), "1: 1-7 damage 9", "refuse: damage at log.1[1] after 7");
    check(&from("5"), "1: 1-7 damage", "refuse: damage at log.1[1] after 7");
    check(&from("5"), "1: 1-7 damage | 9: 9", "refuse: damage at log.1[1] after 7");
    check(&from("5"), "1: damage | 8: 8-9", "refuse: damage at log.1[0] after 5");
    check(&from("5"), "1: 1-4 damage", "refuse: damage at log.1[1] after 5");
    check(&from("5"), "1: 1-4 damage 7", "refuse: damage at log.1[1] after 5");
    check(&from("5"), "1: 1-4 damage | 1/1: 1/1", "refuse: damage at log.1[1] after 5");
    check(&from("5"), "1: 1-7 9", "refuse: gap before 9 at log.1[1] after 7");
    check(&from("5"), "1: 1-7 | 9: 9", "refuse: gap before 9 at log.9[0] after 7");
    check(&from("5"), "1: 1-7 | 9:", "refuse: gap before 9 at log.9[0] after 7");
    check(&from("5"), "1: 1-7 6", "refuse: back to 6 at log.1[1] after 7");
    check(&from("5"), "1: 1-7 | 8: ?8 9", "refuse: unknown 8 at log.8[0] after 7");
    // The first fault counts, and the first damage before it.
    check(&from("5"), "1: 1-7 damage 9 11 | 20: 20", "refuse: damage at log.1[1] after 7");
}

#[test]
fn what_the_snapshot_covers_need_not_be_whole() {
    check(&from("5"), "1: 1-2 damage 4-7", "until 7, ends log.1[3]");
    check(&from("5"), "1: damage 5-7", "until 7, ends log.1[2]");
    check(&from("5"), "1: 1-2 damage 6-7", "until 7, ends log.1[3]");
    check(&from("5"), "1: damage 3 damage 6-7", "until 7, ends log.1[4]");
    check(&from("5"), "1: 1-2 4-7", "until 7, ends log.1[2]");
    check(&from("5"), "1: 1-4 2-7", "until 7, ends log.1[2]");
    check(&from("5"), "1: 1-2 damage | 6: 6-7", "until 7, ends log.6[1]");
    check(&from("5"), "1: 1-2 | 4: 4-7", "until 7, ends log.4[1]");
}

#[test]
fn damage_that_an_earlier_start_has_dropped_is_harmless() {
    check(&from("0"), "1: 1-7 damage | 8: 8-9", "until 9, ends log.8[1]");
    check(&from("0"), "1: 1-7 damage | 8:", "until 7, ends log.1[1], empty log.8");
    check(&from("0"), "1: 1-7 damage 8-9", "until 9, ends log.1[3]");
    check(&from("0"), "1: 1-7 damage | 1/1: 1/1", "refuse: damage at log.1[1] after 7");
}

/// The first txn of an epoch follows any older one, unless something shows that there was another one.
#[test]
fn a_hole_before_a_new_epoch_is_seen_by_names() {
    let log = "1/1: 1/1-1/5 | 2/1: 2/1";
    check(&from("1/0"), log, "until 2/1, ends log.2/1[1]");
    let given = PlanCase { reaches: &["1/7"], ..from("1/0") };
    check(&given, log, "refuse: gap before 2/1 at log.2/1[0] after 1/5");
    let misnamed = "1/1: 1/1-1/5 | 1/6: 2/1";
    check(&from("1/0"), misnamed, "refuse: gap before 2/1 at log.1/6[0] after 1/5");
    check(&from("1/7"), misnamed, "until 2/1, ends log.1/6[1]");
    check(&from("1/0"), "1/1: 1/1-1/5 2/2", "refuse: gap before 2/2 at log.1/1[1] after 1/5");
}

#[test]
fn the_log_must_reach_what_snapshots_show() {
    let given = PlanCase { reaches: &["9"], ..from("5") };
    check(&given, "1: 1-7", "refuse: ends at 7 before 9");
    check(&given, "1: 1-9", "until 9, ends log.1[1]");
    let given = PlanCase { accept: Some("7"), ..given };
    check(&given, "1: 1-7", "until 7, ends log.1[1]; lost: ends at 7 before 9");
    check(&given, "1: 1-9", "until 9, ends log.1[1]");
}

/// Only who has lost something must not vote.
#[test]
fn a_member_that_has_lost_something_does_not_vote() {
    let [new, lost] =
        [EmptyDirs::New, EmptyDirs::Lost].map(|empty| ServerKind::InEnsemble { empty });
    let no_data = "until 0; no vote: there were no snapshots and no logs, and db.autocreate=false";
    for (serves, expected) in [(ServerKind::Alone, "until 0"), (new, "until 0"), (lost, no_data)] {
        check(&PlanCase { serves, ..from("0") }, "", expected);
    }
    for serves in [new, lost] {
        check(&PlanCase { serves, ..from("0") }, "1: 1-7 torn", "until 7, ends log.1[1] torn");
        check(&PlanCase { serves, ..from("5") }, "1: 1-3 damage 5-7", "until 7, ends log.1[3]");
        let given = PlanCase { serves, accept: Some("7"), ..from("5") };
        check(
            &given,
            "1: 1-7 damage",
            "until 7, ends log.1[1] given up; lost: damage at log.1[1] after 7; no vote: txns after 0x7 were given up (herdsman.acceptLossAfter)",
        );
        check(&given, "1: 1-9", "until 9, ends log.1[1]");
    }
}

#[test]
fn a_tree_with_another_digest_is_refused() {
    let zxid = zxid("7");
    let mismatch = DigestMismatch { zxid, expected: 1, found: 2, last_fit: None, healed_by: None };
    let given = PlanCase { digest_mismatch: Some(mismatch), ..from("5") };
    check(&given, "1: 1-9", "refuse: digest at 7");
    // To give up what follows some damage does not make it right.
    let given = PlanCase { accept: Some("9"), ..given };
    check(&given, "1: 1-9 damage 11", "refuse: digest at 7");
    let looks = PlanCase { on_mismatch: OnDigestMismatch::Report, ..given };
    check(&looks, "1: 1-9", "until 9, ends log.1[1]");
    let healed = DigestMismatch { healed_by: Some(Zxid(8)), ..mismatch };
    let given = PlanCase { digest_mismatch: Some(healed), ..from("5") };
    check(&given, "1: 1-9", "until 9, ends log.1[1]");
}

#[test]
fn an_operator_can_give_up_what_follows_the_last_good_txn() {
    let given = PlanCase { accept: Some("7"), ..from("5") };
    check(
        &given,
        "1: 1-7 damage 9 | 10: 10",
        "until 7, ends log.1[1] given up, aside log.10; lost: damage at log.1[1] after 7",
    );
    check(
        &given,
        "1: 1-7 | 8: damage | 9: 9",
        "until 7, ends log.1[1], aside log.8, aside log.9; lost: damage at log.8[0] after 7",
    );
    check(
        &given,
        "1: 1-7 | 8: ?8 9",
        "until 7, ends log.1[1], aside log.8; lost: unknown 8 at log.8[0] after 7",
    );
    check(
        &given,
        "1: 1-2 damage 5-7 9",
        "until 7, ends log.1[3] given up; lost: gap before 9 at log.1[3] after 7",
    );
    // Another txn than the last good one is no consent, and consent without a fault has no effect.
    check(&given, "1: 1-8 damage 10", "refuse: damage at log.1[1] after 8");
    check(&given, "1: 1-6 damage 8", "refuse: damage at log.1[1] after 6");
    check(&given, "1: 1-9", "until 9, ends log.1[1]");
    let given = PlanCase { accept: Some("5"), ..from("5") };
    check(
        &given,
        "1: 1-2 damage",
        "until 5, ends log.1[1] given up; lost: damage at log.1[1] after 5",
    );
}
