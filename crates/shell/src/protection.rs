//! The flags for TLS and SASL, the same for every tool that opens a session.
//!
//! In: names of files and of a user. Out: [`Options`] that use TLS and log in. Passwords come from files
//! or from the environment and never from arguments, which every user of the machine can see in the list
//! of processes.

use std::path::PathBuf;

use clap::Args;
use herdsman_client::sasl::{
    Credentials as SaslCredentials, JaasLogin, JaasLoginError, KerberosSettings, SaslLogin, Secret,
};
use herdsman_client::{ClientConfiguration, ConfigurationError, Options};
use herdsman_protection::{
    AuthArguments, AuthError, Credentials, HEADING, PasswordError, TlsArguments, TlsFlagsError,
    secret_from_environment, secret_from_file,
};

/// The variable with the password of `--sasl-user`, used if no file is given.
const SASL_PASSWORD: &str = "HERDSMAN_SASL_PASSWORD";

/// The flags for TLS and logins of a connection.
#[derive(Args, Clone, Debug, Default)]
pub struct ProtectionArguments {
    /// A configuration file as for zkCli: client.secure=true, ssl.keyStore.location=…, ssl.trustStore.location=…,
    /// and for logins java.security.auth.login.config=…, server.principal=… and the like.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    client_configuration: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    auth: AuthArguments,
    /// Log in with SASL (DIGEST-MD5) as this user.
    #[arg(long, global = true, help_heading = HEADING, value_name = "NAME")]
    sasl_user: Option<String>,
    /// Read the user's password from this file; otherwise from the variable HERDSMAN_SASL_PASSWORD.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    sasl_password_file: Option<PathBuf>,
    /// Log in with SASL by the section `Client` of this JAAS file, with a password or Kerberos.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    sasl_jaas_file: Option<PathBuf>,
    /// Log in with SASL and the Kerberos ticket from `kinit`.
    #[arg(long, global = true, help_heading = HEADING)]
    sasl_kerberos: bool,
}

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// TLS is configured twice.
    #[error("--client-configuration and --tls-… flags both configure TLS: use only one of them")]
    Twice,
    /// The flags for TLS are incomplete.
    #[error(transparent)]
    Tls(#[from] TlsFlagsError),
    /// Credentials that cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// Two logins are configured.
    #[error("{0} and {1} both configure the login: use only one of them")]
    TwoLogins(&'static str, &'static str),
    /// The JAAS file cannot be used.
    #[error(transparent)]
    Jaas(#[from] JaasLoginError),
    /// A password without a user.
    #[error("--sasl-password-file needs --sasl-user")]
    NoUser,
    /// A user without a password.
    #[error("--sasl-user needs a password: --sasl-password-file, or the variable {SASL_PASSWORD}")]
    NoPassword,
    /// The user's password cannot be read.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The file of `--client-configuration` cannot be used.
    #[error("{}: {source}", .file.display())]
    Configuration {
        /// Its path.
        file: PathBuf,
        /// What is wrong with it.
        source: ConfigurationError,
    },
}

impl ProtectionArguments {
    /// Applies the flags to connection options.
    ///
    /// # Errors
    /// Fails if flags contradict each other, or if a file cannot be used.
    pub fn apply(&self, mut options: Options) -> Result<Options, ProtectionError> {
        let configuration = self.configuration()?;
        if let Some(tls) = configuration.tls.clone() {
            options = options.tls(tls);
        }
        for Credentials { scheme, secret } in self.auth.credentials()? {
            options = options.credentials(scheme, secret.expose().to_owned());
        }
        Ok(match self.login(configuration)? {
            Some(login) => options.log_in(login),
            None => options,
        })
    }

    /// The configuration from the file, otherwise from the flags.
    fn configuration(&self) -> Result<ClientConfiguration, ProtectionError> {
        let Some(file) = &self.client_configuration else {
            let tls = self.tls.settings()?;
            return Ok(ClientConfiguration { tls, ..ClientConfiguration::default() });
        };
        if self.tls.any_flag().is_some() {
            return Err(ProtectionError::Twice);
        }
        ClientConfiguration::read(file)
            .map_err(|source| ProtectionError::Configuration { file: file.clone(), source })
    }

    /// The login from a flag, otherwise from the file.
    fn login(&self, file: ClientConfiguration) -> Result<Option<SaslLogin>, ProtectionError> {
        let flags = [
            ("--sasl-user", self.sasl_user.is_some()),
            ("--sasl-jaas-file", self.sasl_jaas_file.is_some()),
            ("--sasl-kerberos", self.sasl_kerberos),
        ];
        let given: Vec<_> = flags.iter().filter(|(_, is_given)| *is_given).collect();
        if let [(first, _), (second, _), ..] = given[..] {
            return Err(ProtectionError::TwoLogins(first, second));
        }
        if self.sasl_password_file.is_some() && self.sasl_user.is_none() {
            return Err(ProtectionError::NoUser);
        }
        if let Some(user) = &self.sasl_user {
            let (username, password) = (user.clone(), self.password()?);
            return Ok(Some(SaslLogin::Password(SaslCredentials { username, password })));
        }
        if self.sasl_kerberos {
            let kerberos = KerberosSettings { servers: file.servers, ..Default::default() };
            return Ok(Some(SaslLogin::Kerberos(kerberos)));
        }
        let named = self.sasl_jaas_file.clone();
        let section = JaasLogin::SECTION.to_owned();
        let login = named.map(|file| JaasLogin { file, section }).or(file.login);
        Ok(login.map(|login| login.read(file.servers)).transpose()?)
    }

    fn password(&self) -> Result<Secret, ProtectionError> {
        match &self.sasl_password_file {
            Some(file) => Ok(secret_from_file(file)?),
            None => secret_from_environment(SASL_PASSWORD)?.ok_or(ProtectionError::NoPassword),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use herdsman_client::Client;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        protection: ProtectionArguments,
    }

    fn problem(arguments: &ProtectionArguments) -> String {
        arguments.apply(Client::options()).expect_err("it is refused").to_string()
    }

    #[test]
    fn contradictory_flags_are_rejected() {
        let file = || Some(PathBuf::from("x.pem"));
        let no_user = ProtectionArguments { sasl_password_file: file(), ..Default::default() };
        assert_eq!(problem(&no_user), "--sasl-password-file needs --sasl-user");
        let two = ProtectionArguments {
            sasl_kerberos: true,
            sasl_jaas_file: file(),
            ..Default::default()
        };
        let expected =
            "--sasl-jaas-file and --sasl-kerberos both configure the login: use only one of them";
        assert_eq!(problem(&two), expected);
        let words = ["shell", "--client-configuration", "x.cfg", "--tls-trust-store", "x.pem"];
        let twice = Words::try_parse_from(words).unwrap().protection;
        assert!(problem(&twice).contains("use only one"), "{}", problem(&twice));
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let missing = ProtectionArguments {
            sasl_user: Some("ann".to_owned()),
            sasl_password_file: Some("/nowhere/password".into()),
            ..Default::default()
        };
        assert!(problem(&missing).starts_with("/nowhere/password: "), "{}", problem(&missing));
        let jaas = ProtectionArguments {
            sasl_jaas_file: Some("/nowhere/jaas.conf".into()),
            ..Default::default()
        };
        assert!(
            problem(&jaas).starts_with("cannot read /nowhere/jaas.conf: "),
            "{}",
            problem(&jaas)
        );
    }
}
