//! What can be wrong with a configuration: errors that stop the start, and warnings that do not.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a setting was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, counted from 1.
    Line(PathBuf, usize),
    /// A file as a whole.
    File(PathBuf),
    /// A `-D` flag, by the name of its property.
    Flag(String),
    /// The command line's positional arguments.
    Arguments,
    /// Nowhere: the values come from the defaults.
    Defaults,
}

impl Place {
    pub(super) fn line(path: &Path, line: usize) -> Self {
        Self::Line(path.to_owned(), line)
    }
}

impl fmt::Display for Place {
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

/// Something the operator should know, which does not keep the server from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it was found.
    pub place: Place,
    /// One line for the log, without the place.
    pub text: String,
}

impl Warning {
    pub(super) fn new(place: Place, text: impl Into<String>) -> Self {
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
        /// What the system said.
        source: std::io::Error,
    },
    /// The value of a setting has the wrong form.
    #[error("{place}: {key}={value}: expected {expected}")]
    Value {
        /// Where it was given.
        place: Place,
        /// The setting, as written there.
        key: String,
        /// The bad value; `…` if it is a secret.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// Each value is well formed, but a rule over them is broken.
    #[error("{place}: {problem}")]
    Rule {
        /// Where to mend it.
        place: Place,
        /// What is wrong and what to do.
        problem: String,
    },
    /// As [`ConfigError::Rule`], where Apache's server starts and then ends by an error that it did not expect.
    #[error("{place}: {problem}")]
    Unexpected {
        /// Where to mend it.
        place: Place,
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
    /// The exit code Apache's server ends with: 2 for a bad configuration, 3 for a bad directory, 1 where it
    /// stumbles.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Directory { .. } => 3,
            Self::Unexpected { .. } => 1,
            // Apache stumbles over a directory without a name.
            Self::Value { key, .. } if matches!(key.as_str(), "dataDir" | "dataLogDir") => 1,
            Self::Read { .. } | Self::Value { .. } | Self::Rule { .. } => 2,
        }
    }

    /// What is wrong, without the place.
    pub(super) fn problem(&self) -> String {
        match self {
            Self::Rule { problem, .. } | Self::Unexpected { problem, .. } => problem.clone(),
            other => other.to_string(),
        }
    }

    pub(super) fn rule(place: Place, problem: impl Into<String>) -> Self {
        Self::Rule { place, problem: problem.into() }
    }
}
