//! The flags for TLS. The password comes from a file or from the environment and never from an argument,
//! which everybody on the machine can see in the list of processes.

use std::env::VarError;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use herdsman_tls::{Password, Secret, Side, StoreSettings, TlsContext, TlsSettings};

const PASSWORD_VARIABLE: &str = "HERDSMAN_TLS_PASSWORD";

/// How targets with `tls://` are spoken to.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Protection {
    /// Whom targets with tls:// must be signed by: a .pem, .p12, .pfx or .jks file.
    #[arg(long, value_name = "FILE")]
    tls_trust_store: Option<PathBuf>,
    /// The certificate to show them: a file that also has its private key.
    #[arg(long, value_name = "FILE")]
    tls_key_store: Option<PathBuf>,
    /// The password of both stores is in this file; else in the variable HERDSMAN_TLS_PASSWORD.
    #[arg(long, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
}

impl Protection {
    /// Reads the files, if the flags name some.
    pub(crate) fn load(&self) -> Result<Option<Arc<TlsContext>>> {
        let Some(trust_store) = &self.tls_trust_store else {
            if self.tls_key_store.is_some() || self.tls_password_file.is_some() {
                bail!("--tls-key-store and --tls-password-file need --tls-trust-store");
            }
            return Ok(None);
        };
        let password = self.password()?;
        let store = |file: &PathBuf| StoreSettings::new(file).with_password(password.clone());
        let settings = TlsSettings {
            key_store: self.tls_key_store.as_ref().map(store),
            trust_store: Some(store(trust_store)),
            ..TlsSettings::default()
        };
        let context = TlsContext::load(settings, Side::Client).context("TLS")?;
        Ok(Some(Arc::new(context)))
    }

    fn password(&self) -> Result<Password> {
        if let Some(file) = &self.tls_password_file {
            return Ok(Password::InFile(file.clone()));
        }
        match std::env::var(PASSWORD_VARIABLE) {
            Ok(password) if !password.is_empty() => Ok(Password::Given(Secret::new(password))),
            Ok(_) | Err(VarError::NotPresent) => Ok(Password::None),
            Err(VarError::NotUnicode(_)) => {
                bail!("the variable {PASSWORD_VARIABLE} is not UTF-8 text")
            }
        }
    }
}
