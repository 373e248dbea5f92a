//! `name/host@REALM`.

use std::fmt;

use crate::exchange::shown;

/// The text is not a principal's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a Kerberos name of the form name@REALM or name/host@REALM")]
pub struct BadName {
    /// The text, truncated if it is long.
    pub text: String,
}

/// A principal's name: one or two parts, and an optional realm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrincipalName {
    name: String,
    host: Option<String>,
    realm: Option<String>,
}

impl PrincipalName {
    /// Parses a name. A name with more than two parts is rejected, as in Apache, and so is one with a
    /// separator inside a part: the library writes it with a backslash, and what Apache would take for the
    /// host after it is not one.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let bad = || BadName { text: shown(text) };
        if text.contains('\\') || text.contains(char::is_control) {
            return Err(bad());
        }
        let (parts, realm) = match text.split_once('@') {
            Some((parts, realm)) => (parts, Some(realm)),
            None => (text, None),
        };
        let (name, host) = match parts.split_once('/') {
            Some((name, host)) => (name, Some(host)),
            None => (parts, None),
        };
        let pieces = [Some(name), host, realm];
        let is_piece = |piece: &str| !piece.is_empty() && !piece.contains(['/', '@']);
        match pieces.into_iter().flatten().all(is_piece) {
            true => Ok(PrincipalName {
                name: name.to_owned(),
                host: host.map(Into::into),
                realm: realm.map(Into::into),
            }),
            false => Err(bad()),
        }
    }

    /// The first part: a user or a service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The second part: a host, by convention.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The realm, if given.
    #[must_use]
    pub fn realm(&self) -> Option<&str> {
        self.realm.as_deref()
    }
}

impl fmt::Display for PrincipalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.host.iter().try_for_each(|host| write!(f, "/{host}"))?;
        self.realm.iter().try_for_each(|realm| write!(f, "@{realm}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: &str, host: Option<&str>, realm: Option<&str>) {
        let parsed = PrincipalName::parse(text).unwrap();
        assert_eq!((parsed.name(), parsed.host(), parsed.realm()), (name, host, realm), "{text}");
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn a_name_is_parsed() {
        check("ann@HERD", "ann", None, Some("HERD"));
        check("zk/a.example@HERD", "zk", Some("a.example"), Some("HERD"));
        check("zk/a.example", "zk", Some("a.example"), None);
        check("ann", "ann", None, None);
    }

    #[test]
    fn invalid_names_are_rejected() {
        let odd =
            ["", "@", "ann@", "@HERD", "zk/@HERD", "/a@HERD", "zk/a/b@HERD", "a@B@C", "a@B/c"];
        for text in odd {
            assert!(PrincipalName::parse(text).is_err(), "{text}");
        }
    }

    /// A user may be called `zk/a`, in a single part. It must not pass for the server `zk` on host `a`.
    #[test]
    fn a_separator_inside_a_part_is_rejected() {
        for text in [r"zk\/a@HERD", r"ann\@HERD@OTHER", "ann\n@HERD", "ann\\n@HERD"] {
            assert!(PrincipalName::parse(text).is_err(), "{text}");
        }
    }
}
