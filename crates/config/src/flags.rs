//! Java system properties without a JVM: `-Dname=value` flags.
//!
//! In: the text of SERVER_JVMFLAGS or JVMFLAGS, or single `-D` arguments; the caller reads the
//! environment. Out: names and values. Flags that are meant for a JVM (`-Xmx`, `-XX:…`,
//! `-javaagent:…`) are skipped. Apache's start script puts SERVER_JVMFLAGS before JVMFLAGS and
//! a JVM takes the last of equal names, so add them in that order.

use std::collections::BTreeMap;
use std::fmt;

/// System properties by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SystemProperties(BTreeMap<String, String>);

impl SystemProperties {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The `-D` flags in a text of JVM flags. See [`SystemProperties::add_flags`].
    #[must_use]
    pub fn from_flags(text: &str) -> Self {
        let mut properties = Self::new();
        properties.add_flags(text);
        properties
    }

    /// Sets one property; the last value of a name wins.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Adds one flag if it is `-Dname=value` or `-Dname`; returns whether it was.
    pub fn add_flag(&mut self, flag: &str) -> bool {
        let Some(definition) = flag.strip_prefix("-D") else {
            return false;
        };
        let (name, value) = definition.split_once('=').unwrap_or((definition, ""));
        if name.is_empty() {
            return false;
        }
        self.set(name, value);
        true
    }

    /// Adds every `-D` flag of a text, which is split into words as by a shell: quotes and
    /// backslashes protect blanks. Other flags are skipped.
    pub fn add_flags(&mut self, text: &str) {
        for word in words(text) {
            self.add_flag(&word);
        }
    }

    /// The value of a property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All properties in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Shows names only: values can be passwords.
impl fmt::Debug for SystemProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Splits a text into words. An open quote ends with the text.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == c => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let properties = SystemProperties::from_flags(text);
        assert_eq!(properties.iter().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn only_definitions_are_taken() {
        check("", &[]);
        check("-Xmx1000m -XX:+UseG1GC -server -javaagent:/x.jar=9404:/y", &[]);
        check("-Xmx1g -Da=1  -Db.c=x=y\n-Dd", &[("a", "1"), ("b.c", "x=y"), ("d", "")]);
        check("-Da=1 -Da=2", &[("a", "2")]);
        check("-D -D=x", &[]);
    }

    #[test]
    fn quotes_keep_words_together() {
        check("'-Da=1 2' -Db=\"3 4\" -Dc=5\\ 6", &[("a", "1 2"), ("b", "3 4"), ("c", "5 6")]);
        check(r#"-Da="x\"y" -Db='x\y'"#, &[("a", "x\"y"), ("b", "x\\y")]);
        check("-Da=''", &[("a", "")]);
        check("-Da='open", &[("a", "open")]);
    }

    #[test]
    fn debug_output_hides_values() {
        let shown = format!("{:?}", SystemProperties::from_flags("-Dpassword=hunter2"));
        assert_eq!(shown, "{\"password\"}");
    }
}
