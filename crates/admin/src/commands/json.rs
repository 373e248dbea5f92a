//! JSON in the format of Jackson's default pretty printer: `"key" : value`, objects on several lines, lists on one.
//!
//! Fields keep the order in which they were added. Apache: `JsonOutputter`.

use std::fmt::{self, Write};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Whole(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of fields with fixed names.
    pub(super) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// The text; `None` if it has more bytes than this.
    pub(super) fn to_text(&self, bytes_max: usize) -> Option<String> {
        let mut text = BoundedText { text: String::new(), bytes_max };
        write!(text, "{self}").ok()?;
        Some(text.text)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Whole(value) => write!(f, "{value}"),
            // JSON has no literal for numbers that are not finite.
            Json::Fraction(value) if !value.is_finite() => f.write_str("\"NaN\""),
            Json::Fraction(value) => write!(f, "{value:?}"),
            Json::Text(text) => write_text(f, text),
            Json::List(items) => write_list(f, items, depth),
            Json::Object(fields) => write_object(f, fields, depth),
        }
    }
}

/// A text of bounded size.
struct BoundedText {
    text: String,
    bytes_max: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.text.len() + piece.len() > self.bytes_max {
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, items: &[Json], depth: usize) -> fmt::Result {
    f.write_char('[')?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { " " } else { ", " })?;
        item.write(f, depth)?;
    }
    f.write_str(" ]")
}

fn write_object(
    f: &mut fmt::Formatter<'_>,
    fields: &[(String, Json)],
    depth: usize,
) -> fmt::Result {
    if fields.is_empty() {
        return f.write_str("{ }");
    }
    f.write_char('{')?;
    for (i, (key, value)) in fields.iter().enumerate() {
        f.write_str(if i == 0 { "\n" } else { ",\n" })?;
        write!(f, "{:1$}", "", 2 * (depth + 1))?;
        write_text(f, key)?;
        f.write_str(" : ")?;
        value.write(f, depth + 1)?;
    }
    write!(f, "\n{:1$}}}", "", 2 * depth)
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
    f.write_str(&quoted)
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Json::Whole(value)
    }
}

impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Json::Whole(value.into())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Json::Whole(value.into())
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Json::Whole(value.cast_signed())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Json::Whole((value as u64).cast_signed())
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Json::Fraction(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Json::Text(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Json::Text(value)
    }
}

impl From<Vec<Json>> for Json {
    fn from(value: Vec<Json>) -> Self {
        Json::List(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_jacksons() {
        let value = Json::object([
            (
                "connections",
                Json::List(vec![
                    Json::object([("session_id", Json::Whole(7)), ("peer", "a\"b\n".into())]),
                    Json::object([]),
                ]),
            ),
            ("ids", Json::List(vec![Json::Whole(1), Json::Whole(2)])),
            ("none", Json::List(vec![])),
            ("latency", 1.5.into()),
            ("zero", 0.0.into()),
            ("error", Json::Null),
        ]);
        let expected = "{\n  \"connections\" : [ {\n    \"session_id\" : 7,\n    \"peer\" : \"a\\\"b\\n\"\n  }, { } ],\n  \
                        \"ids\" : [ 1, 2 ],\n  \"none\" : [ ],\n  \"latency\" : 1.5,\n  \"zero\" : 0.0,\n  \"error\" : null\n}";
        assert_eq!(value.to_string(), expected);
        assert_eq!(value.to_text(expected.len()).as_deref(), Some(expected));
        assert_eq!(value.to_text(expected.len() - 1), None);
    }
}
