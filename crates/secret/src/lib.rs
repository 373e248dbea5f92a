//! A password that does not get out by accident: whatever holds one may be printed, compared and dropped
//! without a thought.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A password, or anything else that a configuration holds and a log must not. Its `Debug` output is `…`,
/// it has no `Display`, its memory is wiped when it goes, and comparing two takes the same time wherever
/// they differ.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text in.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text. Whoever calls this answers for where it goes.
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
