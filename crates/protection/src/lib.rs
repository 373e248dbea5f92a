//! How the tools speak TLS: the flags that say so ([`TlsArguments`]), passwords that do not stand among
//! the arguments ([`secret_from_file`], [`secret_from_environment`]), and HTTPS to admin ports
//! ([`https::agent`]).
//!
//! Passwords come from files or from the environment and never from arguments, which everybody on the
//! machine can see in the list of processes.

mod flags;
pub mod https;
mod password;

pub use flags::{TlsArguments, TlsFlagsError};
pub use password::{PasswordError, secret_from_environment, secret_from_file};
