//! Rules that map principals to short names (`zookeeper.security.auth_to_local`), and the name used in
//! ACLs. Apache: `KerberosName`, `SaslServerCallbackHandler`.
//!
//! A rule is `DEFAULT`, which takes the first part of a name in the default realm, or
//! `RULE:[parts:format](pattern)s/from/to/g`, which applies to names with `parts` parts. The format joins
//! the parts: `$0` is the realm, `$1` the first part. If the pattern matches the whole result, every `from`
//! (only the first, without `g`) is replaced by `to`. Pattern and replacement are optional. The first rule
//! that applies to a name decides.
//!
//! Patterns are those of the crate `regex`: as in Java, but without lookaround and back references. An
//! invalid rule is rejected when it is parsed and not, as in Apache, at the first login that uses it.

use regex::{Captures, Regex};

use super::PrincipalName;
use super::replacement::Replacement;
use crate::exchange::shown;

/// The text is not a list of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at `{at}`; a rule is `DEFAULT` or `RULE:[parts:format](pattern)s/from/to/g`")]
pub struct BadRules {
    /// What is wrong.
    pub problem: String,
    /// The rest of the text from the error on, truncated if it is long.
    pub at: String,
}

/// No rule gives a usable name for a principal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRule {
    /// No rule applies.
    #[error("no rule of security.auth_to_local applies to {principal}")]
    NoneApplies {
        /// The principal.
        principal: String,
    },
    /// A rule applies, but its result looks like a principal's name again.
    #[error("security.auth_to_local maps {principal} to {made:?}, which contains a `/` or `@`")]
    NotSimple {
        /// The principal.
        principal: String,
        /// The result.
        made: String,
    },
}

/// A list of rules.
#[derive(Clone, Debug)]
pub struct NameRules(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    Default,
    Formatted(FormattedRule),
}

#[derive(Clone, Debug)]
struct FormattedRule {
    parts: usize,
    format: Vec<FormatPiece>,
    pattern: Option<Regex>,
    change: Option<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPiece {
    Text(String),
    Part(usize),
}

#[derive(Clone, Debug)]
struct Change {
    from: Regex,
    to: Replacement,
    everywhere: bool,
}

impl NameRules {
    /// Parses rules, with or without blanks between them.
    pub fn parse(text: &str) -> Result<Self, BadRules> {
        let mut reader = Reader { rest: text.trim_start() };
        let mut rules = Vec::new();
        while !reader.rest.is_empty() {
            rules.push(reader.rule()?);
            reader.rest = reader.rest.trim_start();
        }
        Ok(NameRules(rules))
    }

    /// Returns the short name of a principal.
    pub fn short_name(
        &self,
        principal: &PrincipalName,
        default_realm: &str,
    ) -> Result<String, NoRule> {
        let (Some(realm), name) = (principal.realm(), principal.name()) else {
            // A name without a realm is already short.
            return Ok(principal.name().to_owned());
        };
        let made = self.0.iter().find_map(|rule| match rule {
            Rule::Default => (realm == default_realm).then(|| name.to_owned()),
            Rule::Formatted(rule) => rule.apply(realm, name, principal.host()),
        });
        match made {
            None => Err(NoRule::NoneApplies { principal: principal.to_string() }),
            Some(made) if made.contains(['/', '@']) => {
                Err(NoRule::NotSimple { principal: principal.to_string(), made })
            }
            Some(made) => Ok(made),
        }
    }
}

impl FormattedRule {
    fn apply(&self, realm: &str, name: &str, host: Option<&str>) -> Option<String> {
        let parts: Vec<&str> = [Some(realm), Some(name), host].into_iter().flatten().collect();
        if parts.len() - 1 != self.parts {
            return None;
        }
        let text: String = self.format.iter().map(|piece| piece.text(&parts)).collect();
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(&text)) {
            return None;
        }
        match &self.change {
            Some(change) => Some(change.apply(&text)),
            None => Some(text),
        }
    }
}

impl FormatPiece {
    fn text<'a>(&'a self, parts: &[&'a str]) -> &'a str {
        match self {
            FormatPiece::Text(text) => text,
            FormatPiece::Part(part) => parts.get(*part).copied().unwrap_or_default(),
        }
    }
}

impl Change {
    fn apply(&self, text: &str) -> String {
        // Zero replacements means all.
        let times = if self.everywhere { 0 } else { 1 };
        let expand = |found: &Captures<'_>| self.to.expand(found);
        self.from.replacen(text, times, expand).into_owned()
    }
}

/// Reads from the front of a text.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn rule(&mut self) -> Result<Rule, BadRules> {
        if self.take("DEFAULT") {
            return Ok(Rule::Default);
        }
        self.expect("RULE:[", "expected `DEFAULT` or `RULE:[`")?;
        let parts = self.until(':', "expected `:` after the number of parts")?;
        let parts: usize =
            parts.parse().map_err(|_| self.bad(format!("`{parts}` is not a number of parts")))?;
        let format = self.until(']', "expected `]` after the format")?;
        let format = self.format(format, parts)?;
        let pattern = match self.take("(") {
            true => Some(self.until(')', "expected `)` after the pattern")?),
            false => None,
        };
        // The pattern has to match the whole text.
        let pattern = pattern.map(|pattern| self.regex(&format!("^(?:{pattern})$"))).transpose()?;
        let change = self.take("s/").then(|| self.change()).transpose()?;
        Ok(Rule::Formatted(FormattedRule { parts, format, pattern, change }))
    }

    fn format(&self, format: &str, parts: usize) -> Result<Vec<FormatPiece>, BadRules> {
        let mut pieces = Vec::new();
        let mut texts = format.split('$');
        pieces.extend(texts.next().map(|text| FormatPiece::Text(text.to_owned())));
        for text in texts {
            let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
            let (number, text) = text.split_at(digits);
            let part = number.parse().ok().filter(|part| *part <= parts).ok_or_else(|| {
                self.bad(format!("`${number}` in the format is not one of $0 to ${parts}"))
            })?;
            pieces.extend([FormatPiece::Part(part), FormatPiece::Text(text.to_owned())]);
        }
        Ok(pieces)
    }

    fn change(&mut self) -> Result<Change, BadRules> {
        let from = self.until('/', "expected `/` after the text to replace")?;
        let from = self.regex(from)?;
        let to = self.until('/', "expected `/` after the replacement")?;
        let to = Replacement::parse(to, &from).map_err(|problem| self.bad(problem))?;
        Ok(Change { from, to, everywhere: self.take("g") })
    }

    fn regex(&self, pattern: &str) -> Result<Regex, BadRules> {
        Regex::new(pattern).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            self.bad(format!("invalid pattern: {reason}"))
        })
    }

    fn take(&mut self, token: &str) -> bool {
        let behind = self.rest.strip_prefix(token);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn expect(&mut self, token: &str, problem: &str) -> Result<(), BadRules> {
        if self.take(token) { Ok(()) } else { Err(self.bad(problem)) }
    }

    fn until(&mut self, end: char, problem: &str) -> Result<&'a str, BadRules> {
        let (before, behind) = self.rest.split_once(end).ok_or_else(|| self.bad(problem))?;
        self.rest = behind;
        Ok(before)
    }

    fn bad(&self, problem: impl Into<String>) -> BadRules {
        let at = if self.rest.is_empty() { "the end" } else { self.rest };
        BadRules { problem: problem.into(), at: shown(at) }
    }
}

/// The names of clients in ACLs.
#[derive(Clone, Debug)]
pub struct ClientNames {
    /// Maps principals to short names.
    pub rules: NameRules,
    /// The realm to which `DEFAULT` applies.
    pub default_realm: String,
    /// After the short name: `/` and the host, if there is one (`kerberos.removeHostFromPrincipal`).
    pub host: Appended,
    /// After that: `@` and the realm (`kerberos.removeRealmFromPrincipal`).
    pub realm: Appended,
}

/// Whether a part of the principal is appended to the short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is appended.
    Kept,
    /// It is not.
    Removed,
}

impl ClientNames {
    /// Returns a principal's name in ACLs.
    pub fn name_of(&self, principal: &PrincipalName) -> Result<String, NoRule> {
        let mut name = self.rules.short_name(principal, &self.default_realm)?;
        for (mark, part, appended) in
            [('/', principal.host(), self.host), ('@', principal.realm(), self.realm)]
        {
            if let (Some(part), Appended::Kept) = (part, appended) {
                name.push(mark);
                name.push_str(part);
            }
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests;
