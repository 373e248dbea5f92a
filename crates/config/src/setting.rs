//! The rows of the table of settings: how a text is read, and where the value is stored.
//!
//! Values are read as in Apache, method by method, because that decides which files are accepted: settings that
//! `QuorumPeerConfig` reads itself must be well formed or the server does not start; those that
//! classes read from system properties silently fall back to a default. We fall back too, with a warning.

use super::draft::Draft;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Apache's name in zoo.cfg. A final `*` matches any rest.
    pub key: &'static str,
    /// Where it may be given.
    pub source: Source,
    /// How its text is read.
    pub shape: Shape,
    /// The unit of a number, or nothing.
    pub unit: &'static str,
    /// Its default.
    pub initial: Initial,
    /// Its effect in this server.
    pub status: Status,
    /// Whether a change takes effect without a restart.
    pub reloadable: bool,
    /// One sentence about it.
    pub about: &'static str,
    pub(super) field: &'static str,
    pub(super) store: Store,
}

/// Where a setting may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In zoo.cfg only.
    File,
    /// In zoo.cfg, which becomes the property `zookeeper.<key>`, or as that property; the file wins.
    Property,
    /// As the property `<key>`, without prefix; Apache does not read it in zoo.cfg. We do, with a warning.
    Bare,
    /// As `Property`, and if neither is given as the property `<key>`.
    PropertyOrBare,
}

/// How the text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A 32-bit number, or the server does not start.
    Int,
    /// A 64-bit number, or the server does not start.
    Long,
    /// A port, or the server does not start.
    Port,
    /// Exactly `true` or `false` in any case, or the server does not start.
    Bool,
    /// A number with a fraction, or the server does not start.
    Float,
    /// A 32-bit number, also `0x…`; the default if it is not one.
    LooseInt,
    /// A 64-bit number, also `0x…`; the default if it is not one.
    LooseLong,
    /// A 64-bit number, decimal also if it begins with 0; the default if it is not one.
    LooseDecimal,
    /// A number with a fraction; the default if it is not one.
    LooseFloat,
    /// True for `true` in any case, false for all else.
    Flag,
    /// True for `true` in exactly this case, false for all else.
    OnlyTrue,
    /// False for `false` in exactly this case, true for all else.
    NotFalse,
    /// True for `yes`, false for all else.
    OnlyYes,
    /// False for `no`, true for all else.
    NotNo,
    /// Any text.
    Text,
    /// A text that is never shown.
    Secret,
    /// A path that is not empty.
    Path,
    /// One of a few words, or a special form; the row's field defines them.
    Word,
}

/// The default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// This text.
    Is(&'static str),
    /// No value.
    Unset,
    /// As described; `rules` computes it.
    Derived(&'static str),
}

/// The effect of a setting in this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has the effect described.
    Acted,
    /// It is read and checked, but has no effect yet; a warning says so if it is set.
    NotYet,
    /// Like `NotYet`, but this value needs no warning, because it disables the missing feature.
    NotYetUnless(&'static str),
    /// It has the effect described, in an ensemble only.
    Ensemble,
    /// It has no meaning here, for this reason.
    Ignored(&'static str),
}

/// Where the value is stored.
#[derive(Debug)]
pub(super) enum Store {
    Kept,
    Int(fn(&mut Draft, i64)),
    Bool(fn(&mut Draft, bool)),
    Float(fn(&mut Draft, f64)),
    Text(fn(&mut Draft, &str)),
    Word(fn(&mut Draft, &str) -> Result<(), &'static str>),
}

/// A text that was read according to its shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Int(i64),
    Bool(bool),
    Float(f64),
    Text(&'a str),
}

/// A value and, where Apache would silently accept an unusual text, a warning about it. `value` is
/// `None` where the default is used.
#[derive(Debug, PartialEq)]
pub(super) struct Reading<'a> {
    pub(super) value: Option<Value<'a>>,
    pub(super) odd: Option<&'static str>,
}

impl<'a> Reading<'a> {
    fn plain(value: Value<'a>) -> Self {
        Self { value: Some(value), odd: None }
    }

    /// `truth`, with a warning unless the text is one of `words` in any case.
    fn switch(truth: bool, text: &str, words: [&str; 2], odd: &'static str) -> Self {
        let known = words.iter().any(|word| text.eq_ignore_ascii_case(word));
        Self { value: Some(Value::Bool(truth)), odd: (!known).then_some(odd) }
    }

    fn or_default(value: Option<Value<'a>>) -> Self {
        let odd = value.is_none().then_some("is not a number; the default is used, as in Apache");
        Self { value, odd }
    }
}

impl Shape {
    /// Reads a text, or returns what is expected.
    pub(super) fn read(self, text: &str) -> Result<Reading<'_>, &'static str> {
        const INT: &str = "a whole number up to 2147483647";
        Ok(match self {
            Self::Int => Reading::plain(Value::Int(text.parse::<i32>().map_err(|_| INT)?.into())),
            Self::Long => Reading::plain(Value::Int(text.parse().map_err(|_| "a whole number")?)),
            Self::Port => match text.parse::<u16>() {
                Ok(port) => Reading::plain(Value::Int(port.into())),
                Err(_) => return Err("a port from 0 to 65535"),
            },
            Self::Bool if text.eq_ignore_ascii_case("true") => Reading::plain(Value::Bool(true)),
            Self::Bool if text.eq_ignore_ascii_case("false") => Reading::plain(Value::Bool(false)),
            Self::Bool => return Err("true or false"),
            Self::Float => match parse_float(text) {
                Some(number) => Reading::plain(Value::Float(number)),
                None => return Err("a number such as 0.02"),
            },
            Self::Path if text.is_empty() => return Err("a path that is not empty"),
            Self::Path | Self::Text | Self::Secret | Self::Word => {
                Reading::plain(Value::Text(text))
            }
            loose => loose.read_loosely(text),
        })
    }

    /// The shapes that never prevent the start.
    fn read_loosely(self, text: &str) -> Reading<'_> {
        const BOOL: [&str; 2] = ["true", "false"];
        const YES_NO: [&str; 2] = ["yes", "no"];
        match self {
            Self::LooseInt => {
                let fits = |number: &i64| i32::try_from(*number).is_ok();
                Reading::or_default(decode(text).filter(fits).map(Value::Int))
            }
            Self::LooseLong => Reading::or_default(decode(text).map(Value::Int)),
            Self::LooseDecimal => Reading::or_default(text.parse().ok().map(Value::Int)),
            Self::LooseFloat => Reading::or_default(parse_float(text).map(Value::Float)),
            Self::OnlyTrue => {
                Reading::switch(text == "true", text, BOOL, "is read as false; write true or false")
            }
            Self::NotFalse => {
                Reading::switch(text != "false", text, BOOL, "is read as true; write true or false")
            }
            Self::OnlyYes => {
                Reading::switch(text == "yes", text, YES_NO, "is read as no; write yes or no")
            }
            Self::NotNo => {
                Reading::switch(text != "no", text, YES_NO, "is read as yes; write yes or no")
            }
            _ => {
                let truth = text.eq_ignore_ascii_case("true");
                Reading::switch(truth, text, BOOL, "is read as false; write true or false")
            }
        }
    }

    /// The kind of value, for documentation.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Int | Self::Long => "number",
            Self::LooseInt | Self::LooseLong | Self::LooseDecimal => "number",
            Self::Float | Self::LooseFloat => "fraction",
            Self::Port => "port",
            Self::Bool | Self::Flag | Self::OnlyTrue | Self::NotFalse => "true/false",
            Self::OnlyYes | Self::NotNo => "yes/no",
            Self::Text | Self::Word => "text",
            Self::Secret => "secret",
            Self::Path => "path",
        }
    }
}

impl Setting {
    /// Reads a text and stores the value; returns a warning if there is one, or an error with what is expected.
    pub(super) fn apply(
        &self,
        draft: &mut Draft,
        text: &str,
    ) -> Result<Option<&'static str>, &'static str> {
        let reading = self.shape.read(text)?;
        match (&self.store, reading.value) {
            (Store::Kept, _) | (_, None) => {}
            (Store::Int(put), Some(Value::Int(number))) => put(draft, number),
            (Store::Bool(put), Some(Value::Bool(truth))) => put(draft, truth),
            (Store::Float(put), Some(Value::Float(number))) => put(draft, number),
            (Store::Text(put), Some(Value::Text(text))) => put(draft, text),
            (Store::Word(put), Some(Value::Text(text))) => put(draft, text)?,
            (store, value) => unreachable!("{}: {store:?} was given {value:?}", self.key),
        }
        Ok(reading.odd)
    }

    /// Our name: the field that stores it, or `None` if it is only kept as text.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        let path = self.field.trim_start_matches('.');
        (path != "kept").then(|| path.strip_prefix("raw.").unwrap_or(path))
    }

    /// Whether the row is about this key of zoo.cfg.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        match self.key.strip_suffix('*') {
            Some(prefix) => key.len() > prefix.len() && key.starts_with(prefix),
            None => self.key == key,
        }
    }
}

/// `Integer.decode` and `Long.decode`: a sign, then `0x`, `#` or `0` for another base.
fn decode(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits {
        hex if hex.starts_with("0x") || hex.starts_with("0X") => (&hex[2..], 16),
        hex if hex.starts_with('#') => (&hex[1..], 16),
        octal if octal.starts_with('0') && octal.len() > 1 => (&octal[1..], 8),
        decimal => (decimal, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// `Double.parseDouble` without its hexadecimal forms.
fn parse_float(text: &str) -> Option<f64> {
    text.trim_end_matches(['d', 'D', 'f', 'F'])
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests;
