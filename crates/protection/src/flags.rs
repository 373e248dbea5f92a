//! The flags for TLS, the same for every tool.

use std::path::PathBuf;

use clap::Args;
use herdsman_tls::{Password, StoreSettings, TlsSettings};

use crate::password::{PasswordError, secret_from_environment};

/// The environment variable with the password of the key store and the trust store, used if no file is given.
const TLS_PASSWORD: &str = "HERDSMAN_TLS_PASSWORD";

/// The heading of these flags in every help text. Set on each flag, because a heading set on the struct would also
/// apply to the flags after it.
pub const HEADING: &str = "TLS and authentication";

/// The flags for TLS: trusted certificates, and the own certificate.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArguments {
    /// Use TLS, and trust servers with certificates signed by the ones in this .pem, .p12, .pfx or .jks file.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_trust_store: Option<PathBuf>,
    /// Present the certificate in this file, which must also contain its private key.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_key_store: Option<PathBuf>,
    /// Read the password of both stores from this file; by default from the variable HERDSMAN_TLS_PASSWORD.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
}

/// Why the TLS flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFlagsError {
    /// Another TLS flag is given without a trust store.
    #[error("{0} needs --tls-trust-store: the file with the trusted certificates")]
    NoTrustStore(&'static str),
    /// The password of the stores cannot be read.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

impl TlsArguments {
    /// Returns the settings for TLS; `None` without flags.
    ///
    /// # Errors
    /// The trust store is missing, or the password cannot be read.
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

    /// Returns the name of a flag that is given, if any.
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
    fn a_key_store_without_a_trust_store_is_refused() {
        let file = || Some(PathBuf::from("x.pem"));
        let key_only = TlsArguments { tls_key_store: file(), ..Default::default() };
        assert_eq!(
            key_only.settings().unwrap_err().to_string(),
            "--tls-key-store needs --tls-trust-store: the file with the trusted certificates"
        );
        assert!(TlsArguments::default().settings().unwrap().is_none());
        let trust_only = TlsArguments { tls_trust_store: file(), ..Default::default() };
        assert!(trust_only.settings().unwrap().unwrap().key_store.is_none());
    }
}
