//! Reports and the expected tables.

use super::super::samples;
use super::*;

fn check(report: &Report, style: Style, expected: &str) {
    let text = render(report, style);
    assert_eq!(text, expected, "got:\n{text}");
}

#[test]
fn a_terminal_gets_aligned_columns() {
    check(&samples::two_targets_and_echo(), Style::Plain, include_str!("golden/terminal.txt"));
}

#[test]
fn a_document_gets_markdown() {
    check(&samples::two_targets_and_echo(), Style::Markdown, include_str!("golden/document.txt"));
}

#[test]
fn failures_are_prominent_and_empty_rows_have_no_numbers() {
    check(&samples::empty_and_failed(), Style::Plain, include_str!("golden/failures.txt"));
}

#[test]
fn failures_cannot_break_a_document() {
    let text = render(&samples::empty_and_failed(), Style::Markdown);
    assert!(text.contains("**ERROR:** set 64 × 1 against apache: 1,207 of 1,257"), "{text}");
    assert!(text.contains("has \\| the wrong value"), "{text}");
}

#[test]
fn a_single_target_is_not_compared() {
    let report =
        Report { rows: vec![samples::row("get", "local", 1, &[1e3], 50.0)], ..Report::default() };
    check(&report, Style::Plain, include_str!("golden/single.txt"));
}

#[test]
fn sizes_are_named_where_they_differ() {
    let mut report = samples::two_targets_and_echo();
    report.rows[0].value_bytes = 1024;
    let text = render(&report, Style::Plain);
    assert!(text.contains("get (values of 1024 bytes, 1,000 znodes)"), "{text}");
}

#[test]
fn a_workload_without_keys_matches_any_number_of_them() {
    let mut report = samples::two_targets_and_echo();
    report.rows[3].keys = 0;
    let text = render(&report, Style::Plain);
    assert!(text.contains("\nvalues of 100 bytes, 1,000 znodes, 3 rounds\n"), "{text}");
    report.rows.retain(|row| row.keys == 0);
    assert!(render(&report, Style::Plain).contains("\nvalues of 100 bytes, 3 rounds\n"));
}

#[test]
fn the_echo_server_alone_is_not_compared() {
    let report =
        Report { rows: vec![samples::row("get", ECHO, 1, &[1e3], 50.0)], ..Report::default() };
    assert!(!render(&report, Style::Plain).contains("of echo"));
}

#[test]
fn a_partially_measured_disk_is_reported_partially() {
    let disk = DiskLimit { syncs_per_second: 100.0, bytes: 200, ..DiskLimit::default() };
    let text = render(&Report { disk: Some(disk), ..Report::default() }, Style::Plain);
    assert!(text.contains("each append") && !text.contains(" 0 appends"), "{text}");
}

#[test]
fn an_empty_report_has_no_table() {
    check(&Report::default(), Style::Plain, "");
}

#[test]
fn without_apache_the_last_target_is_the_baseline() {
    let row = |target| samples::row("get", target, 1, &[1e3], 50.0);
    let mut report = Report { rows: vec![row("new"), row("old"), row(ECHO)], ..Report::default() };
    assert_eq!(report.baseline(), Some("old"));
    report.rows.insert(0, row("apache"));
    assert_eq!(report.baseline(), Some("apache"));
}
