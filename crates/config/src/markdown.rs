//! The table of settings as Markdown, for docs/operating.md. A test holds the two together.

use std::fmt::Write;

use super::setting::{Initial, Setting, Source, Status};
use super::settings::TABLE;

/// The whole table, one section for each area.
#[must_use]
pub fn settings_markdown() -> String {
    let mut text = String::new();
    for group in &TABLE {
        let _ = writeln!(text, "### {}\n", group.title);
        text.push_str("| name | as a flag | value | default | in effect | what it does |\n");
        text.push_str("|---|---|---|---|---|---|\n");
        for setting in group.settings {
            let _ = writeln!(text, "{}", row(setting));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

fn row(setting: &Setting) -> String {
    let key = setting.key;
    let flag = match setting.source {
        Source::File => "–".to_owned(),
        Source::Property => format!("`-Dzookeeper.{key}`"),
        Source::Bare => format!("`-D{key}`"),
        Source::PropertyOrBare => format!("`-Dzookeeper.{key}`, `-D{key}`"),
    };
    let kind = setting.shape.kind();
    let value = match setting.unit {
        "" => kind.to_owned(),
        unit => format!("{kind}, {unit}"),
    };
    let initial = match setting.initial {
        Initial::Is("") | Initial::Unset => "–".to_owned(),
        Initial::Is(text) => format!("`{text}`"),
        Initial::Derived(words) => words.to_owned(),
    };
    let status = match setting.status {
        Status::Acted if setting.reloadable => "yes, without a restart".to_owned(),
        Status::Acted => "yes".to_owned(),
        Status::NotYet | Status::NotYetUnless(_) => "not yet".to_owned(),
        Status::Ensemble => "in an ensemble".to_owned(),
        Status::Ignored(why) => format!("no: {why}"),
    };
    let about = setting.about.replace('|', "\\|");
    format!("| `{key}` | {flag} | {value} | {initial} | {status} | {about} |")
}
