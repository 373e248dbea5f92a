//! Passwords from files and variables.

use std::env::VarError;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use herdsman_secret::Secret;

/// The longest password that is read from a file.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Why a password cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file cannot be read, or is too large.
    #[error("{}: {source}", .file.display())]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The environment variable is not UTF-8.
    #[error("the environment variable {0} is not valid UTF-8")]
    NotText(&'static str),
}

/// Reads an environment variable; `None` if it is not set or empty.
///
/// # Errors
/// It is not valid UTF-8.
pub fn secret_from_environment(variable: &'static str) -> Result<Option<Secret>, PasswordError> {
    match std::env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty()).map(Secret::new)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(PasswordError::NotText(variable)),
    }
}

/// Reads a file, without the line end at its end.
///
/// # Errors
/// The file cannot be read, or is too large for a password.
pub fn secret_from_file(file: &Path) -> Result<Secret, PasswordError> {
    let problem = |source| PasswordError::File { file: file.to_owned(), source };
    let opened = File::open(file).map_err(problem)?;
    let mut text = String::new();
    opened.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text).map_err(problem)?;
    if text.len() as u64 > PASSWORD_BYTES_MAX {
        let message = format!("too large for a password: the limit is {PASSWORD_BYTES_MAX} bytes");
        return Err(problem(io::Error::other(message)));
    }
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_is_not_part_of_a_password() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (content, password) in [("tulip\n", "tulip"), ("tu lip \r\n", "tu lip "), ("", "")] {
            std::fs::write(file.path(), content).unwrap();
            assert_eq!(secret_from_file(file.path()).unwrap().expose(), password);
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let problem = |file: &str| secret_from_file(Path::new(file)).unwrap_err().to_string();
        assert!(problem("/nowhere/password").starts_with("/nowhere/password: "));
        assert!(
            problem("/dev/zero").ends_with("too large for a password: the limit is 4096 bytes")
        );
    }
}
