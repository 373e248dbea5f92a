//! The tables of words and metrics as Markdown, for docs/operating.md. A test compares them.

use std::fmt::Write;

use super::TABLE;
use crate::operators::metrics::{self, ALWAYS_ZERO, Source};

/// The table of four-letter words.
#[must_use]
pub fn words_markdown() -> String {
    let mut text = "| word | answer |\n|---|---|\n".to_owned();
    for word in &TABLE {
        let name = match std::str::from_utf8(&word.bytes) {
            Ok(name) => format!("`{name}`"),
            Err(_) => format!("`{:x?}` (telnet close)", word.bytes),
        };
        let _ = writeln!(text, "| {name} | {} |", word.about);
    }
    text.truncate(text.trim_end().len());
    text
}

/// The table of metrics, and the names of those that are always 0.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut text = "| metric | kind | what it is |\n|---|---|---|\n".to_owned();
    for metric in metrics::TABLE {
        let kind = match metric.source {
            Source::Gauge(_) | Source::Ratio(_) => "gauge",
            Source::OfMember(_) => "gauge of a member of an ensemble",
            Source::OfLeader(_) => "gauge of a leader",
            Source::Counter(_) => "counter",
            Source::Summary(_) => "summary",
            Source::Detailed(_) => "summary with percentiles",
        };
        let _ = writeln!(text, "| `{}` | {kind} | {} |", metric.name, metric.about);
    }
    let names = [ALWAYS_ZERO.counters, ALWAYS_ZERO.summaries, ALWAYS_ZERO.detailed].concat();
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let _ = write!(text, "\nAlways 0 here: {}.", names.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set UPDATE_DOCS=1 to write the table into the file instead of comparing.
    fn check(mark: &str, fresh: &str) {
        let begin = format!("<!-- {mark}:begin -->\n\n");
        let end = format!("\n\n<!-- {mark}:end -->");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
        let page = std::fs::read_to_string(path).expect("docs/operating.md can be read");
        let (before, rest) = page.split_once(&begin).expect("the page has the first mark");
        let (table, after) = rest.split_once(&end).expect("the page has the last mark");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let page = format!("{before}{begin}{fresh}{end}{after}");
            std::fs::write(path, page).expect("docs/operating.md can be written");
            return;
        }
        assert!(table == fresh, "{mark}: docs/operating.md is old; run with UPDATE_DOCS=1");
    }

    /// One test, so that two do not write the page at the same time.
    #[test]
    fn the_operators_page_has_words_and_metrics() {
        check("words", &words_markdown());
        check("metrics", &metrics_markdown());
    }
}
