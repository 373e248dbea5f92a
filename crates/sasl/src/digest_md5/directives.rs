//! Tokens as lists of directives: `name=value,name="quoted value",…`.
//!
//! Read as the JDK reads them: names in any case, directives in any order, commas or blanks between them,
//! names that are not known passed over. Refused are repeated directives, and whatever is no list. The
//! caller has compared the token's length with the limit, so what is kept here is bounded by it.

use crate::SaslError;

type Result<T> = std::result::Result<T, SaslError>;

/// The directives of both kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Algorithm,
    Authzid,
    Charset,
    Cipher,
    Cnonce,
    DigestUri,
    Maxbuf,
    Nonce,
    NonceCount,
    Qop,
    Realm,
    Response,
    Rspauth,
    Stale,
    Username,
}

impl Directive {
    const ALL: [Directive; 15] = [
        Directive::Algorithm,
        Directive::Authzid,
        Directive::Charset,
        Directive::Cipher,
        Directive::Cnonce,
        Directive::DigestUri,
        Directive::Maxbuf,
        Directive::Nonce,
        Directive::NonceCount,
        Directive::Qop,
        Directive::Realm,
        Directive::Response,
        Directive::Rspauth,
        Directive::Stale,
        Directive::Username,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Directive::Algorithm => "algorithm",
            Directive::Authzid => "authzid",
            Directive::Charset => "charset",
            Directive::Cipher => "cipher",
            Directive::Cnonce => "cnonce",
            Directive::DigestUri => "digest-uri",
            Directive::Maxbuf => "maxbuf",
            Directive::Nonce => "nonce",
            Directive::NonceCount => "nc",
            Directive::Qop => "qop",
            Directive::Realm => "realm",
            Directive::Response => "response",
            Directive::Rspauth => "rspauth",
            Directive::Stale => "stale",
            Directive::Username => "username",
        }
    }

    /// The error for a value that is none of ours.
    pub(super) fn must_be(self, expected: &str) -> SaslError {
        SaslError::Unacceptable { directive: self.name(), expected: expected.to_string() }
    }

    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The directives of one token, unquoted.
pub(super) struct Directives {
    found: Vec<(Directive, Vec<u8>)>,
}

impl Directives {
    /// Reads a token. Only `realm` may occur more than once, because a server may offer several.
    pub(super) fn parse(token: &[u8]) -> Result<Self> {
        let mut directives = Directives { found: Vec::new() };
        let mut cursor = Cursor { rest: token };
        while cursor.skip_separators() {
            let name = cursor.name()?;
            let value = cursor.value()?;
            // What we have no name for is an extension; RFC 2831 wants it passed over.
            let Some(directive) = Directive::named(name) else {
                continue;
            };
            if directive != Directive::Realm && directives.all(directive).next().is_some() {
                return Err(SaslError::Repeated(directive.name()));
            }
            directives.found.push((directive, value));
        }
        Ok(directives)
    }

    /// Every value of a directive.
    pub(super) fn all(&self, directive: Directive) -> impl Iterator<Item = &[u8]> {
        self.found.iter().filter(move |(found, _)| *found == directive).map(|(_, value)| &value[..])
    }

    /// The value of a directive that may occur once.
    pub(super) fn optional(&self, directive: Directive) -> Result<Option<&[u8]>> {
        let mut values = self.all(directive);
        let value = values.next();
        if values.next().is_some() {
            return Err(SaslError::Repeated(directive.name()));
        }
        Ok(value)
    }

    /// The value of a directive that has to be there.
    pub(super) fn required(&self, directive: Directive) -> Result<&[u8]> {
        self.optional(directive)?.ok_or(SaslError::Missing(directive.name()))
    }

    /// The same, as text.
    pub(super) fn required_text(&self, directive: Directive) -> Result<&str> {
        text(directive, self.required(directive)?)
    }
}

/// A value as text.
pub(super) fn text(directive: Directive, value: &[u8]) -> Result<&str> {
    str::from_utf8(value).map_err(|_| SaslError::NotUtf8(directive.name()))
}

/// Appends `name=value`, behind a comma unless it is the first.
pub(super) fn put(token: &mut Vec<u8>, directive: Directive, value: &[u8]) {
    if !token.is_empty() {
        token.push(b',');
    }
    token.extend_from_slice(directive.name().as_bytes());
    token.push(b'=');
    token.extend_from_slice(value);
}

/// Appends `name="value"` and escapes what the JDK escapes: quotes, backslashes and most control
/// characters.
pub(super) fn put_quoted(token: &mut Vec<u8>, directive: Directive, value: &[u8]) {
    let mut quoted = vec![b'"'];
    for &byte in value {
        if matches!(byte, b'"' | b'\\') || (byte.is_ascii_control() && !is_blank(byte)) {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    put(token, directive, &quoted);
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_separator(byte: u8) -> bool {
    is_blank(byte) || byte == b','
}

/// The part of a token that is not read yet.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Whether anything is left behind the separators.
    fn skip_separators(&mut self) -> bool {
        self.take_while(is_separator);
        !self.rest.is_empty()
    }

    /// A name and the `=` behind it.
    fn name(&mut self) -> Result<&'a [u8]> {
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if name.is_empty() {
            return Err(SaslError::Malformed("expected the name of a directive"));
        }
        self.take_while(is_blank);
        self.rest = self
            .rest
            .strip_prefix(b"=")
            .ok_or(SaslError::Malformed("expected `=` behind the name of a directive"))?;
        self.take_while(is_blank);
        Ok(name)
    }

    fn value(&mut self) -> Result<Vec<u8>> {
        if let Some(rest) = self.rest.strip_prefix(b"\"") {
            self.rest = rest;
            return self.quoted_value();
        }
        let value = self.take_while(|byte| !is_separator(byte));
        if value.is_empty() {
            return Err(SaslError::Malformed("expected a value behind `=`"));
        }
        Ok(value.to_vec())
    }

    fn quoted_value(&mut self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            value.extend_from_slice(self.take_while(|byte| !matches!(byte, b'"' | b'\\')));
            match self.rest {
                [b'\\', escaped, rest @ ..] => {
                    value.push(*escaped);
                    self.rest = rest;
                }
                [b'"', rest @ ..] => {
                    self.rest = rest;
                    break;
                }
                _ => return Err(SaslError::Malformed("quotes are not closed")),
            }
        }
        match self.rest.first() {
            Some(&next) if !is_separator(next) => {
                Err(SaslError::Malformed("expected a comma behind quotes"))
            }
            _ => Ok(value),
        }
    }

    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| !is_wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read, written as `name=value` again with a space between.
    fn read(token: &str) -> Result<String> {
        let found = Directives::parse(token.as_bytes())?.found;
        let shown = |(directive, value): &(Directive, Vec<u8>)| {
            format!("{}={}", directive.name(), String::from_utf8_lossy(value))
        };
        Ok(found.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lists_are_read_however_they_are_spaced() {
        for (token, expected) in [
            ("", ""),
            (" ,, ", ""),
            ("qop=auth", "qop=auth"),
            ("QOP = auth ,\r\n\tnc=00000001,", "qop=auth nc=00000001"),
            ("qop=auth nc=1", "qop=auth nc=1"),
            ("realm=\"a,b =c\",nonce=\"\"", "realm=a,b =c nonce="),
            (r#"realm="q\"b\\s\x",realm=two"#, r#"realm=q"b\sx realm=two"#),
            ("digest-uri=zookeeper/host", "digest-uri=zookeeper/host"),
            ("x-extension=\"1\",qop=auth,x-extension=2", "qop=auth"),
        ] {
            assert_eq!(read(token).as_deref(), Ok(expected), "{token:?}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for token in [
            "qop",
            "=auth",
            "qop=",
            "qop=,nc=1",
            "qop=\"a",
            "qop=\"a\\",
            "qop=\"a\"b=c",
            "q\u{fc}=1",
        ] {
            assert!(matches!(read(token), Err(SaslError::Malformed(_))), "{token:?}");
        }
    }

    #[test]
    fn a_repeated_directive_is_refused_even_if_nobody_asks_for_it() {
        assert_eq!(read("maxbuf=1,MaxBuf=2"), Err(SaslError::Repeated("maxbuf")));
        let two_realms = Directives::parse(b"realm=a,realm=b").expect("a list");
        assert_eq!(two_realms.optional(Directive::Realm), Err(SaslError::Repeated("realm")));
    }

    #[test]
    fn quoted_values_come_back() {
        let value: Vec<u8> = (0..=255).collect();
        let mut token = Vec::new();
        put(&mut token, Directive::Qop, b"auth");
        put_quoted(&mut token, Directive::Realm, &value);
        let directives = Directives::parse(&token).expect("a list");
        assert_eq!(directives.required(Directive::Realm), Ok(&value[..]));
    }
}
