//! Renders differences: as lines like those of diff(1), and as JSON objects.

use std::time::Duration;

use herdsman_client::{Acl, Lifetime};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

use super::{DiffCounts, Difference, Field};
use crate::format::{printable, printable_lines};
use crate::subtree::human;
use crate::subtree::record::{Record, as_text, perms_text};

/// Longest time to look for the shortest difference of two texts; after that, a longer one is shown.
const TEXT_DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// The names of the two subtrees.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'l> {
    /// The first.
    pub left: &'l str,
    /// The second.
    pub right: &'l str,
}

/// A difference on one line: what diff(1) calls brief.
#[must_use]
pub fn summary_line(difference: &Difference) -> String {
    let path = printable(difference.path());
    match difference {
        Difference::OnlyLeft(record) => format!("- {path}{}", marks(record)),
        Difference::OnlyRight(record) => format!("+ {path}{}", marks(record)),
        Difference::Changed { fields, .. } => {
            let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
            format!("~ {path}: {}", names.join(", "))
        }
    }
}

fn marks(record: &Record) -> String {
    let size = human::size(record.data.len() as u64);
    match record.lifetime {
        Lifetime::Persistent => format!(" ({size})"),
        _ => format!(" ({size}, {})", record.node_type().name()),
    }
}

/// A difference in full. Control characters are escaped.
#[must_use]
pub fn as_text_lines(difference: &Difference, labels: Labels<'_>) -> Vec<String> {
    let mut lines = vec![summary_line(difference)];
    if let Difference::Changed { left, right, fields } = difference {
        for field in fields {
            lines.extend(field_lines(*field, left, right, labels));
        }
    }
    lines
}

fn field_lines(field: Field, left: &Record, right: &Record, labels: Labels<'_>) -> Vec<String> {
    match field {
        Field::Data => data_lines(left, right, labels),
        Field::Acl => {
            let lines = |sign: char, acl: &[Acl]| {
                let line = |entry: &Acl| format!("  {sign} acl {}", printable(&acl_text(entry)));
                acl.iter().map(line).collect::<Vec<_>>()
            };
            [lines('-', &left.acl), lines('+', &right.acl)].concat()
        }
        Field::Type => vec![format!("  type {} -> {}", type_text(left), type_text(right))],
        Field::Stat(name) => {
            vec![format!("  {name} {} -> {}", stat_text(left, name), stat_text(right, name))]
        }
    }
}

fn data_lines(left: &Record, right: &Record, labels: Labels<'_>) -> Vec<String> {
    let (Some(old), Some(new)) = (as_text(&left.data), as_text(&right.data)) else {
        return vec![
            format!("  - data {}", digest_text(&left.data)),
            format!("  + data {}", digest_text(&right.data)),
        ];
    };
    let header = |label: &str| printable(&format!("{label}: {}", left.path)).into_owned();
    unified(old, new, &header(labels.left), &header(labels.right))
}

/// A unified diff of two texts, as lines.
pub(crate) fn unified(old: &str, new: &str, old_name: &str, new_name: &str) -> Vec<String> {
    let diff = TextDiff::configure().timeout(TEXT_DIFF_TIME_MAX).diff_lines(old, new);
    let text = diff.unified_diff().header(old_name, new_name).to_string();
    text.lines().map(|line| printable_lines(line).into_owned()).collect()
}

/// Size and digest of data that is not text.
#[must_use]
pub fn digest_text(data: &[u8]) -> String {
    format!("{}, sha256 {}", human::count(data.len() as u64, "byte"), sha256(data))
}

fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn acl_text(entry: &Acl) -> String {
    format!("{}:{}:{}", entry.id.scheme, entry.id.id, perms_text(entry.perms))
}

fn type_text(record: &Record) -> String {
    match record.lifetime {
        Lifetime::Ttl(ttl) => format!("ttl of {} ms", ttl.as_millis()),
        _ => record.node_type().name().to_owned(),
    }
}

fn stat_text(record: &Record, field: &str) -> String {
    let Some(stat) = &record.stat else {
        return "unknown".to_owned();
    };
    match field {
        "czxid" => human::hex(stat.czxid.0),
        "mzxid" => human::hex(stat.mzxid.0),
        "pzxid" => human::hex(stat.pzxid.0),
        "ctime" => human::time(stat.ctime),
        "mtime" => human::time(stat.mtime),
        "version" => stat.version.to_string(),
        "cversion" => stat.cversion.to_string(),
        "aversion" => stat.aversion.to_string(),
        _ => human::hex(stat.ephemeral_owner),
    }
}

/// A difference as a JSON object: with sizes and digests, not the data itself.
#[must_use]
pub fn as_json(difference: &Difference) -> Value {
    let path = difference.path();
    match difference {
        Difference::OnlyLeft(record) => {
            json!({"path": path, "difference": "only_left", "left": side_json(record)})
        }
        Difference::OnlyRight(record) => {
            json!({"path": path, "difference": "only_right", "right": side_json(record)})
        }
        Difference::Changed { left, right, fields } => json!({
            "path": path,
            "difference": "changed",
            "fields": fields.iter().map(|field| field.name()).collect::<Vec<_>>(),
            "left": side_json(left),
            "right": side_json(right),
        }),
    }
}

fn side_json(record: &Record) -> Value {
    let ttl_ms = match record.lifetime {
        Lifetime::Ttl(ttl) => Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        _ => None,
    };
    json!({
        "bytes": record.data.len(),
        "sha256": sha256(&record.data),
        "acl": record.acl.iter().map(acl_text).collect::<Vec<_>>(),
        "type": record.node_type(),
        "ttl_ms": ttl_ms,
        "stat": record.stat.as_ref().map(crate::format::stat_json),
    })
}

/// The last line of the text output.
impl std::fmt::Display for DiffCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DiffCounts { equal, changed, only_left, only_right } = self;
        write!(
            f,
            "{equal} equal, {changed} changed, {only_left} only in the first, {only_right} only \
             in the second"
        )
    }
}
