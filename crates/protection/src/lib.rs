//! Authentication and TLS of the command-line tools: the flags ([`AuthArguments`], [`TlsArguments`]), passwords from
//! other places than arguments ([`secret_from_file`], [`secret_from_environment`]), and HTTPS to admin ports
//! ([`https::agent`]).
//!
//! Passwords come from files or from the environment, because every user of the machine can see arguments in the list
//! of processes. Only `--auth` takes a secret as an argument, because users expect it; its help recommends the
//! alternatives.

mod credentials;
mod flags;
pub mod https;
mod password;

pub use credentials::{AuthArguments, AuthError, Credentials};
pub use flags::{HEADING, TlsArguments, TlsFlagsError};
pub use password::{PasswordError, secret_from_environment, secret_from_file};
