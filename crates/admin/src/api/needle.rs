//! A text to search for in names and data. The search is case-sensitive only if the text has capitals, so `config`
//! finds `Config`, and `Config` finds nothing else.
//!
//! The cost is linear in the searched text, for any text to search for: both may be hostile, and a comparison at each
//! position would cost the product of their lengths.

use memchr::memmem::Finder;

/// Most text whose case is folded at once; more would be a large copy of large data.
const WINDOW_BYTES: usize = 16 << 10;

/// A text to search for.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    finder: Finder<'static>,
    ignores_case: bool,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        let has_capitals = text.bytes().any(|byte| byte.is_ascii_uppercase());
        Needle { finder: Finder::new(text).into_owned(), ignores_case: !has_capitals }
    }

    /// The position of the first match. Data that is not text is searched, too.
    pub(super) fn find(&self, hay: &[u8]) -> Option<usize> {
        if !self.ignores_case {
            return self.finder.find(hay);
        }
        // Windows overlap by the length of the needle, so that each match is completely in one of them.
        let (window, overlap) = (WINDOW_BYTES.max(self.len()), self.len());
        let mut start = 0;
        loop {
            let end = (start + window + overlap).min(hay.len());
            let folded = hay[start..end].to_ascii_lowercase();
            if let Some(at) = self.finder.find(&folded) {
                return Some(start + at);
            }
            if end == hay.len() {
                return None;
            }
            start += window;
        }
    }

    pub(super) fn is_in(&self, hay: &str) -> bool {
        self.find(hay.as_bytes()).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.finder.needle().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_matter_if_there_are_some() {
        let find = |needle: &str, hay: &[u8]| Needle::new(needle).find(hay);
        assert_eq!(find("config", b"my Config"), Some(3));
        assert_eq!(find("Config", b"my config"), None);
        assert_eq!(find("Config", b"my Config"), Some(3));
        assert_eq!(find("b", b"\xff\xffB"), Some(2));
        assert_eq!(find("long", b"lon"), None);
        assert_eq!(find("", b"x"), Some(0));
        assert_eq!(find("grüß", "Oh, GRüß".as_bytes()), Some(4));
        assert_eq!(find("aab", b"aaab"), Some(1));
    }

    /// Matches do not depend on where the data is cut into windows.
    #[test]
    fn matches_across_windows_are_found() {
        for at in [0, 1, WINDOW_BYTES - 3, WINDOW_BYTES - 1, WINDOW_BYTES, 2 * WINDOW_BYTES + 7] {
            for padding in [0, 3, WINDOW_BYTES] {
                let hay = [vec![b'N'; at], b"NEEDLE".to_vec(), vec![b'e'; padding]].concat();
                assert_eq!(Needle::new("needle").find(&hay), Some(at), "{at} {padding}");
                assert_eq!(Needle::new("NEEDLE").find(&hay), Some(at), "{at} {padding}");
            }
        }
        let long = "n".repeat(2 * WINDOW_BYTES);
        assert_eq!(
            Needle::new(&long).find(format!("x{}", long.to_uppercase()).as_bytes()),
            Some(1)
        );
    }
}
