//! The flags for TLS and SASL, the same for every tool that opens a session.
//!
//! In: names of files and of a user. Out: [`Options`] that speak TLS and log in. Passwords come from files
//! or from the environment and never from arguments, which everybody on the machine can see in the list
//! of processes.

use std::env::VarError;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use herdsman_client::tls::{Password, Secret, StoreSettings, TlsSettings};
use herdsman_client::{ClientConfiguration, ConfigurationError, Options};

/// What opens the key store and the trust store, if no file says it.
const TLS_PASSWORD: &str = "HERDSMAN_TLS_PASSWORD";
/// The password of `--sasl-user`, if no file says it.
const SASL_PASSWORD: &str = "HERDSMAN_SASL_PASSWORD";
/// No password is longer.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// How a connection is protected, and who logs in on it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Protection")]
pub struct ProtectionArguments {
    /// A file as zkCli takes it: client.secure=true, ssl.keyStore.location=…, ssl.trustStore.location=…
    #[arg(long, global = true, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    /// Log in with SASL (DIGEST-MD5) as this user.
    #[arg(long, global = true, value_name = "NAME")]
    sasl_user: Option<String>,
    /// The user's password is in this file; else in the variable HERDSMAN_SASL_PASSWORD.
    #[arg(long, global = true, value_name = "FILE")]
    sasl_password_file: Option<PathBuf>,
}

/// The flags for TLS alone.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Protection")]
pub struct TlsArguments {
    /// Speak TLS, with servers whose certificates these have signed: a .pem, .p12, .pfx or .jks file.
    #[arg(long, global = true, value_name = "FILE")]
    tls_trust_store: Option<PathBuf>,
    /// Show the certificate in this file, which also has its private key.
    #[arg(long, global = true, value_name = "FILE")]
    tls_key_store: Option<PathBuf>,
    /// The password of both stores is in this file; else in the variable HERDSMAN_TLS_PASSWORD.
    #[arg(long, global = true, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
}

/// Why the flags cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// Two ways to say the same.
    #[error("--client-configuration and --tls-… flags both say how TLS is spoken: leave one")]
    Twice,
    /// A certificate to show, but nobody to trust.
    #[error("{0} needs --tls-trust-store: the file that says which servers are trusted")]
    NoTrustStore(&'static str),
    /// A password without a user.
    #[error("--sasl-password-file needs --sasl-user")]
    NoUser,
    /// A user without a password.
    #[error("--sasl-user needs a password: --sasl-password-file, or the variable {SASL_PASSWORD}")]
    NoPassword,
    /// The file cannot be used.
    #[error("{}: {source}", .file.display())]
    PasswordFile {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The variable is not text.
    #[error("the variable {0} is not UTF-8 text")]
    NotText(&'static str),
    /// The file of `--client-configuration` cannot be used.
    #[error("{}: {source}", .file.display())]
    Configuration {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        source: ConfigurationError,
    },
}

impl ProtectionArguments {
    /// The same options, protected as the flags say.
    ///
    /// # Errors
    /// Flags that do not go together, or a file that cannot be used.
    pub fn apply(&self, mut options: Options) -> Result<Options, ProtectionError> {
        if let Some(tls) = self.tls_settings()? {
            options = options.tls(tls);
        }
        match (&self.sasl_user, &self.sasl_password_file) {
            (None, None) => Ok(options),
            (None, Some(_)) => Err(ProtectionError::NoUser),
            (Some(user), file) => {
                let password = match file {
                    Some(file) => read_password(file)?,
                    None => from_environment(SASL_PASSWORD)?.ok_or(ProtectionError::NoPassword)?,
                };
                Ok(options.sasl(user, password))
            }
        }
    }

    fn tls_settings(&self) -> Result<Option<TlsSettings>, ProtectionError> {
        let Some(file) = &self.client_configuration else { return self.tls.settings() };
        if self.tls.any_flag().is_some() {
            return Err(ProtectionError::Twice);
        }
        match ClientConfiguration::read(file) {
            Ok(configuration) => Ok(configuration.tls),
            Err(source) => Err(ProtectionError::Configuration { file: file.clone(), source }),
        }
    }
}

impl TlsArguments {
    /// What the flags say; nothing, if there are none.
    ///
    /// # Errors
    /// Flags that say too little.
    pub fn settings(&self) -> Result<Option<TlsSettings>, ProtectionError> {
        let Some(trust_store) = &self.tls_trust_store else {
            return self
                .any_flag()
                .map_or(Ok(None), |flag| Err(ProtectionError::NoTrustStore(flag)));
        };
        let password = self.tls_password()?;
        let store = |file: &PathBuf| StoreSettings::new(file).with_password(password.clone());
        Ok(Some(TlsSettings {
            key_store: self.tls_key_store.as_ref().map(store),
            trust_store: Some(store(trust_store)),
            ..TlsSettings::default()
        }))
    }

    /// The name of a flag that is given.
    fn any_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--tls-trust-store", &self.tls_trust_store),
            ("--tls-key-store", &self.tls_key_store),
            ("--tls-password-file", &self.tls_password_file),
        ];
        flags.iter().find(|(_, file)| file.is_some()).map(|(flag, _)| *flag)
    }

    fn tls_password(&self) -> Result<Password, ProtectionError> {
        if let Some(file) = &self.tls_password_file {
            return Ok(Password::InFile(file.clone()));
        }
        let given = from_environment(TLS_PASSWORD)?;
        Ok(given.map_or(Password::None, |password| Password::Given(Secret::new(password))))
    }
}

/// A variable that is set and not empty.
fn from_environment(variable: &'static str) -> Result<Option<String>, ProtectionError> {
    match std::env::var(variable) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(ProtectionError::NotText(variable)),
    }
}

/// The content of a file without the line end at its end.
fn read_password(file: &Path) -> Result<String, ProtectionError> {
    let problem = |source| ProtectionError::PasswordFile { file: file.to_owned(), source };
    let opened = std::fs::File::open(file).map_err(problem)?;
    let mut text = String::new();
    opened.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text).map_err(problem)?;
    if text.len() as u64 > PASSWORD_BYTES_MAX {
        let words = format!("larger than {PASSWORD_BYTES_MAX} bytes, which no password is");
        return Err(problem(io::Error::other(words)));
    }
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_client::Client;

    fn problem(arguments: &ProtectionArguments) -> String {
        arguments.apply(Client::options()).expect_err("it is refused").to_string()
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        let some = || Some(PathBuf::from("x.pem"));
        let tls = TlsArguments { tls_key_store: some(), ..Default::default() };
        let key_only = ProtectionArguments { tls, ..Default::default() };
        assert_eq!(
            problem(&key_only),
            "--tls-key-store needs --tls-trust-store: the file that says which servers are trusted"
        );
        let tls = TlsArguments { tls_trust_store: some(), ..Default::default() };
        let twice = ProtectionArguments { client_configuration: some(), tls, ..Default::default() };
        assert!(problem(&twice).contains("leave one"), "{}", problem(&twice));
        let nobody = ProtectionArguments { sasl_password_file: some(), ..Default::default() };
        assert_eq!(problem(&nobody), "--sasl-password-file needs --sasl-user");
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let missing = ProtectionArguments {
            sasl_user: Some("ann".to_owned()),
            sasl_password_file: Some("/nowhere/password".into()),
            ..Default::default()
        };
        assert!(problem(&missing).starts_with("/nowhere/password: "), "{}", problem(&missing));
        let endless =
            ProtectionArguments { sasl_password_file: Some("/dev/zero".into()), ..missing };
        assert!(problem(&endless).ends_with("which no password is"), "{}", problem(&endless));
    }

    #[test]
    fn a_line_end_is_not_part_of_a_password() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (content, password) in [("tulip\n", "tulip"), ("tu lip \r\n", "tu lip "), ("", "")] {
            std::fs::write(file.path(), content).unwrap();
            assert_eq!(read_password(file.path()).unwrap(), password);
        }
    }
}
