//! The table of settings: every name that an Apache configuration can have, with what it means.
//!
//! It makes the parser, the warnings and the table in docs/operating.md. A name that is not here is
//! kept and reported as unknown. To add a setting: a row in the area's file, and a field in
//! [`types`](super::types) or [`quorum`](super::quorum).

use super::setting::{Setting, Source};

mod clients;
mod ensemble;
mod operations;
mod security;
mod storage;
mod tls;

/// Settings of one area.
#[derive(Debug)]
pub struct Group {
    /// Heading.
    pub title: &'static str,
    /// The rows.
    pub settings: &'static [Setting],
}

/// The whole table.
pub static TABLE: [Group; 11] = [
    Group { title: "Files", settings: storage::SETTINGS },
    Group { title: "Client ports and sessions", settings: clients::SETTINGS },
    Group { title: "Limits and throttling", settings: clients::LIMITS },
    Group { title: "Znodes and access", settings: security::SETTINGS },
    Group { title: "Authentication", settings: security::AUTHENTICATION },
    Group { title: "Operations", settings: operations::SETTINGS },
    Group { title: "Ensemble", settings: ensemble::SETTINGS },
    Group { title: "TLS for clients", settings: tls::CLIENTS },
    Group { title: "More TLS for clients", settings: tls::CLIENTS_ONLY },
    Group { title: "TLS between servers", settings: tls::SERVERS },
    Group { title: "Accepted but ignored", settings: operations::WITHOUT_MEANING },
];

/// All rows of the table.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().flat_map(|group| group.settings)
}

/// The row for a key of zoo.cfg; an exact name counts before a pattern.
#[must_use]
pub fn by_key(key: &str) -> Option<&'static Setting> {
    all().find(|row| row.key == key).or_else(|| all().find(|row| row.matches(key)))
}

/// The row that a system property sets, and the key it has there.
pub(super) fn by_property(name: &str) -> Option<(&'static Setting, &str)> {
    if let Some(key) = name.strip_prefix("zookeeper.") {
        let row = by_key(key)
            .filter(|row| matches!(row.source, Source::Property | Source::PropertyOrBare));
        return row.map(|row| (row, key));
    }
    let row =
        by_key(name).filter(|row| matches!(row.source, Source::Bare | Source::PropertyOrBare));
    row.map(|row| (row, name))
}

/// The known key that an unknown one is most likely meant to be: at most two letters away.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    let wanted = key.to_lowercase();
    let allowed = if wanted.len() < 6 { 1 } else { 2 };
    let names = all().map(|row| row.key).filter(|name| !name.ends_with('*'));
    let ranked = names.map(|name| (edit_distance(&wanted, &name.to_lowercase()), name));
    ranked
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= allowed)
        .map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed to make one word of the other.
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != against);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
