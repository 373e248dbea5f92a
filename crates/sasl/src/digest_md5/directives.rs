//! Tokens as lists of directives: `name=value,name="quoted value",…`.
//!
//! Parsed as in the JDK: names in any case, directives in any order, separated by commas or blanks, unknown
//! names skipped. Repeated directives and malformed lists are rejected. The caller has checked the token's
//! length, which bounds the memory used here.

use crate::SaslError;

type Result<T> = std::result::Result<T, SaslError>;

/// The directives of both kinds of tokens.
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

    /// Returns the error for an unexpected value.
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
    /// Parses a token. Only `realm` may occur more than once, because a server may offer several.
    pub(super) fn parse(token: &[u8]) -> Result<Self> {
        let mut directives = Directives { found: Vec::new() };
        let mut cursor = Cursor { rest: token };
        while cursor.skip_separators() {
            let name = cursor.name()?;
            let value = cursor.value()?;
            // Unknown names are extensions, to be ignored according to RFC 2831.
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

    /// Returns all values of a directive.
    pub(super) fn all(&self, directive: Directive) -> impl Iterator<Item = &[u8]> {
        self.found.iter().filter(move |(found, _)| *found == directive).map(|(_, value)| &value[..])
    }

    /// Returns the value of a directive that may occur at most once.
    pub(super) fn optional(&self, directive: Directive) -> Result<Option<&[u8]>> {
        let mut values = self.all(directive);
        let value = values.next();
        if values.next().is_some() {
            return Err(SaslError::Repeated(directive.name()));
        }
        Ok(value)
    }

    /// Returns the value of a mandatory directive.
    pub(super) fn required(&self, directive: Directive) -> Result<&[u8]> {
        self.optional(directive)?.ok_or(SaslError::Missing(directive.name()))
    }

    /// Returns the value of a mandatory directive as text.
    pub(super) fn required_text(&self, directive: Directive) -> Result<&str> {
        text(directive, self.required(directive)?)
    }
}

/// Decodes a value as text.
pub(super) fn text(directive: Directive, value: &[u8]) -> Result<&str> {
    str::from_utf8(value).map_err(|_| SaslError::NotUtf8(directive.name()))
}

/// Appends `name=value`, after a comma unless it is the first.
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

/// The rest of the token.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Skips separators; returns whether anything is left.
    fn skip_separators(&mut self) -> bool {
        self.take_while(is_separator);
        !self.rest.is_empty()
    }

    /// Reads a name and the `=` after it.
    fn name(&mut self) -> Result<&'a [u8]> {
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if name.is_empty() {
            return Err(SaslError::Malformed("expected a directive name"));
        }
        self.take_while(is_blank);
        self.rest = self
            .rest
            .strip_prefix(b"=")
            .ok_or(SaslError::Malformed("expected `=` after the directive name"))?;
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
            return Err(SaslError::Malformed("expected a value after `=`"));
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
                _ => return Err(SaslError::Malformed("unclosed quotes")),
            }
        }
        match self.rest.first() {
            Some(&next) if !is_separator(next) => {
                Err(SaslError::Malformed("expected a comma after quotes"))
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

    /// Returns the parsed directives as `name=value`, separated by spaces.
    fn read(token: &str) -> Result<String> {
        let found = Directives::parse(token.as_bytes())?.found;
        let shown = |(directive, value): &(Directive, Vec<u8>)| {
            format!("{}={}", directive.name(), String::from_utf8_lossy(value))
        };
        Ok(found.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lists_are_parsed_with_any_spacing() {
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
    fn malformed_lists_are_rejected() {
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
    fn a_repeated_directive_is_rejected_even_if_unused() {
        assert_eq!(read("maxbuf=1,MaxBuf=2"), Err(SaslError::Repeated("maxbuf")));
        let two_realms = Directives::parse(b"realm=a,realm=b").expect("a list");
        assert_eq!(two_realms.optional(Directive::Realm), Err(SaslError::Repeated("realm")));
    }

    #[test]
    fn quoted_values_round_trip() {
        let value: Vec<u8> = (0..=255).collect();
        let mut token = Vec::new();
        put(&mut token, Directive::Qop, b"auth");
        put_quoted(&mut token, Directive::Realm, &value);
        let directives = Directives::parse(&token).expect("a list");
        assert_eq!(directives.required(Directive::Realm), Ok(&value[..]));
    }
}
