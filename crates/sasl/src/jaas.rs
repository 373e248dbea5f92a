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
//! In: the text of a file. Out: its sections, with their login modules and options; what those mean is
//! said in [`crate::login`]. Reading the file is the caller's business.
//!
//! Whatever the JDK refuses is refused, with the line and what was expected. Three things that the JDK
//! takes in silence are refused as well, because they never are what was meant: a `/` outside quotes that
//! starts no comment (the JDK drops the rest of the line, so an unquoted path or principal loses its end),
//! quotes that are open at the end of a line, and a comment that is never closed. `${property}` is an error
//! because there are no system properties here; `${/}`, `${{…}}` and an open `${` are taken as the JDK takes
//! them.
//!
//! Invariant: no error repeats an option's value, or any text that might be one.

mod tokens;

use std::collections::BTreeMap;

use self::tokens::{Lexeme, Mark, Token, Tokens};
use crate::Secret;

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JaasError {
    /// Another token than the grammar has there.
    #[error("line {line}: expected {expected}, found {found}")]
    Unexpected {
        /// Where.
        line: usize,
        /// What should stand there.
        expected: &'static str,
        /// What kind of thing stands there.
        found: &'static str,
    },
    /// Characters that mean something else, or nothing, outside quotes.
    #[error("line {line}: {advice}")]
    Stray {
        /// Where.
        line: usize,
        /// What to do.
        advice: &'static str,
    },
    /// Two sections of one name.
    #[error("line {line}: section `{name}` occurs twice")]
    RepeatedSection {
        /// Where the second one ends.
        line: usize,
        /// Its name.
        name: String,
    },
    /// A value that needs a system property.
    #[error(
        "line {line}: option `{option}` contains `${{…}}`, but there are no system properties: write the value"
    )]
    Property {
        /// Where.
        line: usize,
        /// The option's name.
        option: String,
    },
    /// Not a configuration file, in all likelihood.
    #[error("file of {bytes} bytes; at most {} are read", JaasFile::BYTES_MAX)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

/// A configuration file.
#[derive(Clone, Debug, Default)]
pub struct JaasFile {
    sections: Vec<Section>,
}

/// The login modules that a program goes by; the program knows the section's name.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// In the order of the file; may be empty.
    pub modules: Vec<LoginModule>,
}

/// One way to log in.
#[derive(Clone, Debug)]
pub struct LoginModule {
    /// The name of the Java class that does it in Apache's programs.
    pub class: String,
    /// How much depends on it.
    pub control: ControlFlag,
    /// Its options. As in the JDK the last value of a name counts.
    pub options: BTreeMap<String, Secret>,
}

/// What a login module's success or failure means for the others of its section. With one module to a
/// section, as ZooKeeper has it, they all mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlag {
    /// It must succeed; the others are tried in any case.
    Required,
    /// It must succeed, or the others are not tried.
    Requisite,
    /// If it succeeds, the others are not tried.
    Sufficient,
    /// It need not succeed.
    Optional,
}

impl JaasFile {
    /// Longer files are refused.
    pub const BYTES_MAX: usize = 1 << 20;

    /// Reads the text of a file.
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

    /// The section of that name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// All sections, in the order of the file.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

/// One token ahead of what is read.
struct Parser<'a> {
    tokens: Tokens<'a>,
    next: Option<Lexeme>,
    /// Of the last token that was taken.
    line: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, JaasError> {
        let mut tokens = Tokens::new(text);
        let next = tokens.next()?;
        Ok(Parser { tokens, next, line: 1 })
    }

    fn section(&mut self) -> Result<Section, JaasError> {
        let name = self.text("the name of a section")?;
        self.mark(Mark::OpenBrace, "`{` behind the name of a section")?;
        let mut modules = Vec::new();
        while !self.next_is(Mark::CloseBrace) {
            modules.push(self.module()?);
        }
        self.advance()?;
        self.mark(Mark::Semicolon, "`;` behind the `}` of a section")?;
        Ok(Section { name: name.expose().to_string(), modules })
    }

    fn module(&mut self) -> Result<LoginModule, JaasError> {
        let class = self.text("the class of a login module, or `}`")?;
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
            "required, requisite, sufficient or optional behind the class of a login module";
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
        let name = self.text("the name of an option, or `;` behind the last one")?;
        let name = name.expose().to_string();
        self.mark(Mark::Equals, "`=` behind the name of an option")?;
        let value = self.text("the value of an option")?;
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

/// A value with `${/}` replaced; `None` if it needs a system property.
fn expand(value: &Secret) -> Option<Secret> {
    let mut expanded = String::new();
    let mut rest = value.expose();
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        let (name, end) = match reference[2..].strip_prefix('{') {
            // Doubled braces are left for others to expand.
            Some(doubled) => (None, doubled.find("}}").map(|at| at + 5)),
            None => {
                let at = reference.find('}');
                (at.map(|at| &reference[2..at]), at.map(|at| at + 1))
            }
        };
        // A reference that is never closed is no reference, nor is anything behind it.
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
