//! The table at the end: one line per workload.

use super::check::Findings;
use super::history::{self, Outcome, Record};

/// The result of a workload.
pub struct Report {
    /// Its name.
    pub name: String,
    /// Requests sent.
    pub operations: u64,
    /// Executed.
    pub acknowledged: u64,
    /// Rejected.
    pub refused: u64,
    /// Of unknown outcome.
    pub unknown: u64,
    /// The violations.
    pub findings: Findings,
}

impl Report {
    /// Counts the outcomes of the requests.
    pub fn new(name: &str, records: &[Record], findings: Findings) -> Report {
        let mut report = Report {
            name: name.into(),
            operations: 0,
            acknowledged: 0,
            refused: 0,
            unknown: 0,
            findings,
        };
        for (_, call) in history::calls(records) {
            report.operations += 1;
            match call.outcome {
                Outcome::Done { .. } => report.acknowledged += 1,
                Outcome::Refused { .. } => report.refused += 1,
                Outcome::Unknown => report.unknown += 1,
            }
        }
        report
    }
}

/// All workloads, each followed by its violations.
pub fn table(reports: &[Report]) -> String {
    let head =
        "workload        operations  acknowledged   refused   unknown   wrong    lost   stale";
    let mut lines = vec![head.to_string()];
    for report in reports {
        let Report { name, operations, acknowledged, refused, unknown, findings } = report;
        let [wrong, lost, stale] = [&findings.wrong, &findings.lost, &findings.stale].map(Vec::len);
        lines.push(format!(
            "{name:15} {operations:10} {acknowledged:13} {refused:9} {unknown:9} {wrong:7} {lost:7} {stale:7}"
        ));
        lines.extend(findings.lines().into_iter().map(|line| format!("    {line}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::NO_NODE;
    use crate::workloads::history::made::*;

    #[test]
    fn the_table_counts_and_names() {
        let calls = [
            created("/a", "", 1),
            (crate::wire::Op::get_data("/b"), refused(1, NO_NODE)),
            (crate::wire::Op::delete("/a", -1), Outcome::Unknown),
        ];
        let findings = Findings { lost: vec!["/c".into()], ..Findings::default() };
        let text = table(&[Report::new("set", &history(calls), findings)]);
        let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["set", "3", "1", "1", "1", "0", "1", "0"]);
        assert!(text.ends_with("    lost: /c"), "{text}");
    }
}
