//! The flags for credentials that ACLs check, as for `addauth`. They are the same for every tool.

use std::path::PathBuf;

use clap::Args;
use herdsman_secret::Secret;

use crate::flags::HEADING;
use crate::password::{PasswordError, secret_from_environment, secret_from_file};

/// The environment variable with credentials, used if no flag is given.
const VARIABLE: &str = "HERDSMAN_AUTH";

/// The flags for credentials.
#[derive(Args, Clone, Debug, Default)]
pub struct AuthArguments {
    /// Credentials, such as digest:user:password; can be given several times. Other users can see command lines:
    /// prefer --auth-file or the environment variable HERDSMAN_AUTH.
    #[arg(long, global = true, help_heading = HEADING, value_name = "SCHEME:SECRET")]
    auth: Vec<Secret>,
    /// Read the credentials from this file, one per line.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", conflicts_with = "auth")]
    auth_file: Option<PathBuf>,
}

/// Credentials that prove an identity to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The scheme, such as `digest`.
    pub scheme: String,
    /// The secret, in the form that the scheme requires, such as `user:password`.
    pub secret: Secret,
}

/// Why credentials could not be read. The messages do not contain the given text, which may be secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The text does not have the form `scheme:secret`.
    #[error("{0}: credentials are a scheme and a secret, such as digest:user:password")]
    Malformed(&'static str),
    /// The file or the environment variable cannot be read.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

impl AuthArguments {
    /// Returns the credentials from the flags, the file, or else the environment.
    ///
    /// # Errors
    /// The file cannot be read, or the text is malformed.
    pub fn credentials(&self) -> Result<Vec<Credentials>, AuthError> {
        if !self.auth.is_empty() {
            return self.auth.iter().map(|auth| parse(auth.expose(), "--auth")).collect();
        }
        match &self.auth_file {
            Some(file) => of_lines(&secret_from_file(file)?, "--auth-file"),
            None => of_lines(&secret_from_environment(VARIABLE)?.unwrap_or_default(), VARIABLE),
        }
    }

    /// Returns the name of a flag that is given, if any.
    #[must_use]
    pub fn any_flag(&self) -> Option<&'static str> {
        match (&self.auth[..], &self.auth_file) {
            ([], None) => None,
            ([], Some(_)) => Some("--auth-file"),
            _ => Some("--auth"),
        }
    }
}

fn of_lines(text: &Secret, from: &'static str) -> Result<Vec<Credentials>, AuthError> {
    let lines = text.expose().lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty()).map(|line| parse(line, from)).collect()
}

fn parse(text: &str, from: &'static str) -> Result<Credentials, AuthError> {
    match text.split_once(':') {
        Some((scheme, secret)) if !scheme.is_empty() => {
            Ok(Credentials { scheme: scheme.to_owned(), secret: Secret::new(secret) })
        }
        _ => Err(AuthError::Malformed(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &AuthArguments) -> Vec<(String, String)> {
        let all = arguments.credentials().unwrap();
        all.into_iter().map(|one| (one.scheme, one.secret.expose().to_owned())).collect()
    }

    #[test]
    fn credentials_come_from_flags_or_a_file() {
        let pair = |scheme: &str, secret: &str| (scheme.to_owned(), secret.to_owned());
        let flags = AuthArguments { auth: vec!["digest:ann:x:y".into()], auth_file: None };
        assert_eq!(read(&flags), [pair("digest", "ann:x:y")]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "digest:ann:tulip\n\nip:10.0.0.1\r\n").unwrap();
        let in_file = AuthArguments { auth_file: Some(file.path().to_owned()), auth: vec![] };
        assert_eq!(read(&in_file), [pair("digest", "ann:tulip"), pair("ip", "10.0.0.1")]);
        assert_eq!((flags.any_flag(), in_file.any_flag()), (Some("--auth"), Some("--auth-file")));
    }

    #[test]
    fn malformed_credentials_are_not_repeated_in_the_error() {
        for text in ["tulip", ":tulip", ""] {
            let arguments = AuthArguments { auth: vec![text.into()], auth_file: None };
            let error = arguments.credentials().unwrap_err().to_string();
            let expected =
                "--auth: credentials are a scheme and a secret, such as digest:user:password";
            assert_eq!(error, expected);
        }
    }
}
