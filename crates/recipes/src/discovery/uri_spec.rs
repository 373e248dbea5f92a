//! A template for the URI of an instance: text with variables in braces.
//!
//! `{scheme}://{address}:{port}` alternates variables and text. This is Curator's `UriSpec`, which is stored in the
//! instance's JSON as a list of parts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A template for URIs. Parse it from text.
///
/// The variables are `scheme` (`https` if there is a TLS port, else `http`), `name`, `id`, `address`, `port`,
/// `ssl-port`, `registration-time-utc` and `service-type`; `{[}` and `{]}` stand for braces. A variable without a
/// value is replaced by nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriSpec {
    /// Text and variables in order.
    pub parts: Vec<UriPart>,
}

/// A piece of a [`UriSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriPart {
    /// The text, or the variable's name.
    pub value: String,
    /// Whether it is a variable.
    pub variable: bool,
}

impl UriSpec {
    pub(super) fn build_with(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let part = |part: &UriPart| match part.variable {
            true => variable(&part.value).unwrap_or_default(),
            false => part.value.clone(),
        };
        self.parts.iter().map(part).collect()
    }
}

impl FromStr for UriSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind
                .split_once('}')
                .ok_or_else(|| Error::invalid(format!("{text:?} has a '{{' without a '}}'")))?;
            if !before.is_empty() {
                parts.push(UriPart { value: before.to_owned(), variable: false });
            }
            parts.push(UriPart { value: name.trim().to_owned(), variable: true });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(UriPart { value: rest.to_owned(), variable: false });
        }
        Ok(UriSpec { parts })
    }
}

impl fmt::Display for UriSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part.variable {
            true => write!(f, "{{{}}}", part.value),
            false => f.write_str(&part.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["", "x", "{a}", "{scheme}://{address}:{port}", "{a}{b}x{[}y{]}"] {
            assert_eq!(text.parse::<UriSpec>().unwrap().to_string(), text);
        }
        assert_eq!("{ a }".parse::<UriSpec>().unwrap().to_string(), "{a}");
        "{a".parse::<UriSpec>().unwrap_err();
    }
}
