//! A password that does not get out by accident.

use std::fmt;

use zeroize::Zeroizing;

/// A text that is never shown: not by `Debug`, not in an error. Its memory is overwritten when it is
/// dropped.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself. Whoever asks for it answers for where it goes.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("tulip".to_owned());
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret(hidden) Secret(hidden)");
        assert_eq!(secret.expose(), "tulip");
    }
}
