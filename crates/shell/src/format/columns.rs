//! Names in columns, for a terminal.

use unicode_width::UnicodeWidthStr as _;

use super::printable;

/// Smallest distance between columns.
const GAP: usize = 2;

/// The names in columns, ordered downwards; `None` if `line` fits on one line.
pub(crate) fn in_columns(line: &str, names: &[String], width: usize) -> Option<String> {
    if line.width() <= width {
        return None;
    }
    let names: Vec<_> = names.iter().map(|name| printable(name)).collect();
    let widest = names.iter().map(|name| name.width()).max()? + GAP;
    let columns = (width / widest).max(1);
    let rows = names.len().div_ceil(columns);
    let mut lines = Vec::with_capacity(rows);
    for row in 0..rows {
        let cells = names.iter().skip(row).step_by(rows);
        let padded = cells.map(|name| format!("{name}{}", " ".repeat(widest - name.width())));
        lines.push(padded.collect::<String>().trim_end().to_owned());
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_downwards() {
        let names = ["a", "bb", "ccc", "東京", "e"].map(String::from);
        let line = super::super::bracketed(&names);
        assert_eq!(in_columns(&line, &names, 80), None);
        let expected = "a     東京\nbb    e\nccc";
        assert_eq!(in_columns(&line, &names, 14).as_deref(), Some(expected));
        assert_eq!(in_columns(&line, &names, 1).map(|text| text.lines().count()), Some(5));
    }
}
