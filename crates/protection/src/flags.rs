//! The flags for TLS, the same for every tool.

use std::path::PathBuf;

use clap::Args;
use herdsman_tls::{Password, StoreSettings, TlsSettings};

use crate::password::{PasswordError, secret_from_environment};

/// What opens the key store and the trust store, if no file says it.
const TLS_PASSWORD: &str = "HERDSMAN_TLS_PASSWORD";

/// Over flags that protect a connection, in every help text. Each flag has it by itself: a heading of the whole
/// would also stand over the flags that come behind it.
pub const HEADING: &str = "TLS and authentication";

/// Whom to trust, and who we are.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArguments {
    /// Speak TLS, with servers whose certificates these have signed: a .pem, .p12, .pfx or .jks file.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_trust_store: Option<PathBuf>,
    /// Show the certificate in this file, which also has its private key.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_key_store: Option<PathBuf>,
    /// The password of both stores is in this file; else in the variable HERDSMAN_TLS_PASSWORD.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
}

/// Why the flags cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum TlsFlagsError {
    /// A certificate to show, but nobody to trust.
    #[error("{0} needs --tls-trust-store: the file that says which servers are trusted")]
    NoTrustStore(&'static str),
    /// The password of the stores cannot be had.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

impl TlsArguments {
    /// What the flags say; nothing, if there are none.
    ///
    /// # Errors
    /// Flags that say too little.
    pub fn settings(&self) -> Result<Option<TlsSettings>, TlsFlagsError> {
        let Some(trust_store) = &self.tls_trust_store else {
            return self.any_flag().map_or(Ok(None), |flag| Err(TlsFlagsError::NoTrustStore(flag)));
        };
        let password = self.password()?;
        let store = |file: &PathBuf| StoreSettings::new(file).with_password(password.clone());
        Ok(Some(TlsSettings {
            key_store: self.tls_key_store.as_ref().map(store),
            trust_store: Some(store(trust_store)),
            ..TlsSettings::default()
        }))
    }

    /// The name of a flag that is given.
    #[must_use]
    pub fn any_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--tls-trust-store", &self.tls_trust_store),
            ("--tls-key-store", &self.tls_key_store),
            ("--tls-password-file", &self.tls_password_file),
        ];
        flags.iter().find(|(_, file)| file.is_some()).map(|(flag, _)| *flag)
    }

    fn password(&self) -> Result<Password, PasswordError> {
        if let Some(file) = &self.tls_password_file {
            return Ok(Password::InFile(file.clone()));
        }
        Ok(secret_from_environment(TLS_PASSWORD)?.map_or(Password::None, Password::Given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_without_anybody_to_trust_is_refused() {
        let file = || Some(PathBuf::from("x.pem"));
        let key_only = TlsArguments { tls_key_store: file(), ..Default::default() };
        assert_eq!(
            key_only.settings().unwrap_err().to_string(),
            "--tls-key-store needs --tls-trust-store: the file that says which servers are trusted"
        );
        assert!(TlsArguments::default().settings().unwrap().is_none());
        let trust_only = TlsArguments { tls_trust_store: file(), ..Default::default() };
        assert!(trust_only.settings().unwrap().unwrap().key_store.is_none());
    }
}
