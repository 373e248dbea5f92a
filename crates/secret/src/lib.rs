//! Passwords that do not leak by accident: a value that holds one may be printed, compared and dropped
//! without further care.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A password, or another secret from a configuration that must not appear in a log. Its `Debug` output is
/// `…`, it has no `Display`, its memory is wiped when it is dropped, and it is compared in constant time.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Zeroizing::new(text.into()))
    }

    /// Returns the text. The caller is responsible for where it goes.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("tulip");
        assert_eq!(format!("{secret:?} {secret:#?}"), "… …");
        assert_eq!(secret.expose(), "tulip");
    }

    #[test]
    fn secrets_are_equal_as_their_texts_are() {
        assert_eq!(Secret::new("tulip"), Secret::new("tulip"));
        assert_ne!(Secret::new("tulip"), Secret::new("tulis"));
        assert_ne!(Secret::new("tulip"), Secret::new("tuli"));
    }
}
