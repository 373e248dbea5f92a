//! What is looked for: a piece of text in names and data. Capitals matter only if there are some in it,
//! so `config` finds `Config`, and `Config` finds nothing else.

/// A piece of text to look for.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    text: Vec<u8>,
    ignores_case: bool,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        let has_capitals = text.bytes().any(|byte| byte.is_ascii_uppercase());
        Needle { text: text.as_bytes().to_vec(), ignores_case: !has_capitals }
    }

    /// Where it begins. Data that is no text is looked through all the same.
    pub(super) fn find(&self, hay: &[u8]) -> Option<usize> {
        let Some(&first) = self.text.first() else {
            return Some(0);
        };
        let last_start = hay.len().checked_sub(self.text.len())?;
        let starts = hay[..=last_start].iter().enumerate();
        let other = if self.ignores_case { first.to_ascii_uppercase() } else { first };
        starts
            .filter(|&(_, &byte)| byte == first || byte == other)
            .find(|&(start, _)| self.is_at(&hay[start..]))
            .map(|(start, _)| start)
    }

    pub(super) fn is_in(&self, hay: &str) -> bool {
        self.find(hay.as_bytes()).is_some()
    }

    fn is_at(&self, hay: &[u8]) -> bool {
        let hay = &hay[..self.text.len()];
        if self.ignores_case { hay.eq_ignore_ascii_case(&self.text) } else { hay == self.text }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
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
}
