//! Text that must not be seen.

use std::fmt;

use zeroize::Zeroizing;

/// A password, or anything else that a configuration file holds and a log must not. Its `Debug` output
/// is `…`, it has no `Display`, and its memory is wiped when it goes.
///
/// It has no `==`: comparing secrets takes a comparison whose time does not depend on them.
#[derive(Clone)]
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
