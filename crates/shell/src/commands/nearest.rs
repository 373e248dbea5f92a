//! Finds the command that a misspelled name was probably meant to be.

use super::description;

/// The command whose name is nearest to the typed one, if it is near enough.
pub(crate) fn command_like(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    let names = description().get_subcommands().map(clap::Command::get_name);
    let distances = names.map(|name| (distance(&typed, &name.to_lowercase()), name));
    let (steps, name) = distances.min_by_key(|(steps, _)| *steps)?;
    // Up to one letter in three, and at least one.
    let length = name.len().min(typed.chars().count());
    (length > 1 && steps <= (length / 3).max(1)).then_some(name)
}

/// The number of letters that must be changed, added or removed (the Levenshtein distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found() {
        assert_eq!(command_like("lx"), Some("ls"));
        assert_eq!(command_like("crate"), Some("create"));
        assert_eq!(command_like("getacls"), Some("getAcl"));
        assert_eq!(command_like("frobnicate"), None);
        assert_eq!(command_like("deletall"), Some("deleteall"));
        assert_eq!((command_like("x"), command_like("nope")), (None, None));
        assert_eq!((distance("kitten", "sitting"), distance("", "ab")), (3, 2));
    }
}
