//! JAAS login configuration files, as the JDK reads them (`sun.security.provider.ConfigFile`).
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!     user_bob="secret"
//!     user_alice="also secret";
//! };
//! ```
//!
//! In: the text of a file. Out: its sections, with their login modules and options; [`crate::login`]
//! interprets them. The caller reads the file.
//!
//! Everything that the JDK rejects is rejected, with the line and what was expected. Three things that the
//! JDK silently accepts are rejected as well, because they are never intended: a `/` outside quotes that
//! starts no comment (the JDK drops the rest of the line, so an unquoted path or principal loses its end),
//! quotes that are open at the end of a line, and a comment that is never closed. `${property}` is an error
//! because there are no system properties here; `${/}`, `${{…}}` and an unclosed `${` are treated as in the
//! JDK.
//!
//! Invariant: no error repeats an option's value, or any text that might be one.

mod tokens;

use std::collections::BTreeMap;

use self::tokens::{Lexeme, Mark, Token, Tokens};
use crate::Secret;

/// Why a file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JaasError {
    /// A token that the grammar does not allow here.
    #[error("line {line}: expected {expected}, found {found}")]
    Unexpected {
        /// The line.
        line: usize,
        /// What the grammar allows here.
        expected: &'static str,
        /// The kind of token found.
        found: &'static str,
    },
    /// A character that must be quoted, or has no meaning.
    #[error("line {line}: {advice}")]
    Stray {
        /// The line.
        line: usize,
        /// What to do.
        advice: &'static str,
    },
    /// Two sections have the same name.
    #[error("line {line}: section `{name}` occurs twice")]
    RepeatedSection {
        /// The line where the second one ends.
        line: usize,
        /// The name.
        name: String,
    },
    /// A value refers to a system property.
    #[error(
        "line {line}: option `{option}` contains `${{…}}`, but there are no system properties: write the value"
    )]
    Property {
        /// The line.
        line: usize,
        /// The option's name.
        option: String,
    },
    /// The file is too long for a configuration file.
    #[error("file of {bytes} bytes, limit is {}", JaasFile::BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

/// A configuration file.
#[derive(Clone, Debug, Default)]
pub struct JaasFile {
    sections: Vec<Section>,
}

/// The login modules that a program uses; the program knows the section's name.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// In file order; may be empty.
    pub modules: Vec<LoginModule>,
}

/// A way to log in.
#[derive(Clone, Debug)]
pub struct LoginModule {
    /// The Java class that implements it in Apache's programs.
    pub class: String,
    /// Whether it must succeed.
    pub control: ControlFlag,
    /// Its options. As in the JDK, the last value of a name counts.
    pub options: BTreeMap<String, Secret>,
}

/// What the success or failure of a login module means for the others of its section. With one module per
/// section, as in ZooKeeper, all flags mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlag {
    /// It must succeed; the other modules are tried in any case.
    Required,
    /// It must succeed, or the other modules are not tried.
    Requisite,
    /// If it succeeds, the other modules are not tried.
    Sufficient,
    /// It need not succeed.
    Optional,
}

impl JaasFile {
    /// Longer files are rejected.
    pub const BYTES_MAX: usize = 1 << 20;

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, JaasError> {
        if text.len() > Self::BYTES_MAX {
            return Err(JaasError::TooLong { bytes: text.len() });
        }
        let mut parser = Parser::new(text)?;
        let mut file = JaasFile::default();
        while parser.next.is_some() {
            let section = parser.section()?;
            if file.section(&section.name).is_some() {
                let line = parser.line;
                return Err(JaasError::RepeatedSection { line, name: section.name });
            }
            file.sections.push(section);
        }
        Ok(file)
    }

    /// Returns the section with this name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns all sections, in file order.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

/// A parser with one token of lookahead.
struct Parser<'a> {
    tokens: Tokens<'a>,
    next: Option<Lexeme>,
    /// The line of the last token consumed.
    line: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, JaasError> {
        let mut tokens = Tokens::new(text);
        let next = tokens.next()?;
        Ok(Parser { tokens, next, line: 1 })
    }

    fn section(&mut self) -> Result<Section, JaasError> {
        let name = self.text("a section name")?;
        self.mark(Mark::OpenBrace, "`{` after the section name")?;
        let mut modules = Vec::new();
        while !self.next_is(Mark::CloseBrace) {
            modules.push(self.module()?);
        }
        self.advance()?;
        self.mark(Mark::Semicolon, "`;` after the `}` of a section")?;
        Ok(Section { name: name.expose().to_string(), modules })
    }

    fn module(&mut self) -> Result<LoginModule, JaasError> {
        let class = self.text("a login module class, or `}`")?;
        let control = self.control_flag()?;
        let mut options = BTreeMap::new();
        while !self.next_is(Mark::Semicolon) {
            let (name, value) = self.option()?;
            options.insert(name, value);
        }
        self.advance()?;
        Ok(LoginModule { class: class.expose().to_string(), control, options })
    }

    fn control_flag(&mut self) -> Result<ControlFlag, JaasError> {
        const EXPECTED: &str =
            "required, requisite, sufficient or optional after the login module class";
        let flag = self.text(EXPECTED)?;
        match flag.expose().to_ascii_lowercase().as_str() {
            "required" => Ok(ControlFlag::Required),
            "requisite" => Ok(ControlFlag::Requisite),
            "sufficient" => Ok(ControlFlag::Sufficient),
            "optional" => Ok(ControlFlag::Optional),
            _ => {
                let (line, found) = (self.line, "something else");
                Err(JaasError::Unexpected { line, expected: EXPECTED, found })
            }
        }
    }

    fn option(&mut self) -> Result<(String, Secret), JaasError> {
        let name = self.text("an option name, or `;` after the last option")?;
        let name = name.expose().to_string();
        self.mark(Mark::Equals, "`=` after the option name")?;
        let value = self.text("an option value")?;
        match expand(&value) {
            Some(value) => Ok((name, value)),
            None => Err(JaasError::Property { line: self.line, option: name }),
        }
    }

    fn text(&mut self, expected: &'static str) -> Result<Secret, JaasError> {
        match self.advance()? {
            Some(Token::Text(text)) => Ok(text),
            other => Err(self.unexpected(expected, other.as_ref())),
        }
    }

    fn mark(&mut self, mark: Mark, expected: &'static str) -> Result<(), JaasError> {
        match self.advance()? {
            Some(Token::Mark(found)) if found == mark => Ok(()),
            other => Err(self.unexpected(expected, other.as_ref())),
        }
    }

    fn next_is(&self, mark: Mark) -> bool {
        self.next
            .as_ref()
            .is_some_and(|next| matches!(next.token, Token::Mark(found) if found == mark))
    }

    fn advance(&mut self) -> Result<Option<Token>, JaasError> {
        let Some(taken) = self.next.take() else {
            self.line = self.tokens.line();
            return Ok(None);
        };
        self.line = taken.line;
        self.next = self.tokens.next()?;
        Ok(Some(taken.token))
    }

    fn unexpected(&self, expected: &'static str, found: Option<&Token>) -> JaasError {
        let found = found.map_or("the end of the file", Token::kind);
        JaasError::Unexpected { line: self.line, expected, found }
    }
}

/// Expands `${/}` in a value; `None` if it refers to a system property.
fn expand(value: &Secret) -> Option<Secret> {
    let mut expanded = String::new();
    let mut rest = value.expose();
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        let (name, end) = match reference[2..].strip_prefix('{') {
            // Doubled braces are not expanded here.
            Some(doubled) => (None, doubled.find("}}").map(|at| at + 5)),
            None => {
                let at = reference.find('}');
                (at.map(|at| &reference[2..at]), at.map(|at| at + 1))
            }
        };
        // An unclosed reference is literal text, and so is everything after it.
        let Some(end) = end else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(match name {
            None => &reference[..end],
            Some("/") => "/",
            Some(_) => return None,
        });
        rest = &reference[end..];
    }
    expanded.push_str(rest);
    Some(Secret::new(expanded))
}
