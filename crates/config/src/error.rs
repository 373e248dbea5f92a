//! Configuration errors, which prevent the start, and warnings, which do not.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a setting was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A line of a file, counted from 1.
    Line(PathBuf, usize),
    /// A file as a whole.
    File(PathBuf),
    /// A `-D` flag, by the name of its property.
    Flag(String),
    /// The positional arguments.
    Arguments,
    /// No location: the value is a default.
    Defaults,
}

impl Location {
    pub(super) fn line(path: &Path, line: usize) -> Self {
        Self::Line(path.to_owned(), line)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Flag(name) => write!(f, "-D{name}"),
            Self::Arguments => write!(f, "command line"),
            Self::Defaults => write!(f, "defaults"),
        }
    }
}

/// A warning for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where the setting was given.
    pub place: Location,
    /// One line for the log, without the location.
    pub text: String,
}

impl Warning {
    pub(super) fn new(place: Location, text: impl Into<String>) -> Self {
        Self { place, text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Why the server cannot start with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file of the configuration cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The value of a setting has the wrong form.
    #[error("{place}: {key}={value}: expected {expected}")]
    Value {
        /// Where it was given.
        place: Location,
        /// The setting, as written there.
        key: String,
        /// The invalid value; `…` if it is a secret.
        value: String,
        /// What is expected.
        expected: String,
    },
    /// Each value is well formed, but they break a rule together.
    #[error("{place}: {problem}")]
    Rule {
        /// Where to correct it.
        place: Location,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Like [`ConfigError::Rule`], where Apache's server starts and then ends with an unexpected error.
    #[error("{place}: {problem}")]
    Unexpected {
        /// Where to correct it.
        place: Location,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The data directories cannot be used as they are.
    #[error("{}: {problem}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl ConfigError {
    /// The exit code of Apache's server: 2 for an invalid configuration, 3 for an invalid directory, 1 for unexpected
    /// errors.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Directory { .. } => 3,
            Self::Unexpected { .. } => 1,
            // Apache fails unexpectedly for a directory without a name.
            Self::Value { key, .. } if matches!(key.as_str(), "dataDir" | "dataLogDir") => 1,
            Self::Read { .. } | Self::Value { .. } | Self::Rule { .. } => 2,
        }
    }

    /// The problem, without the location.
    pub(super) fn problem(&self) -> String {
        match self {
            Self::Rule { problem, .. } | Self::Unexpected { problem, .. } => problem.clone(),
            other => other.to_string(),
        }
    }

    pub(super) fn rule(place: Location, problem: impl Into<String>) -> Self {
        Self::Rule { place, problem: problem.into() }
    }
}
