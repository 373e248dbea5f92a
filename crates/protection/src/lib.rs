//! How the tools prove who they are and speak TLS: the flags that say so ([`AuthArguments`],
//! [`TlsArguments`]), passwords that do not stand among the arguments ([`secret_from_file`],
//! [`secret_from_environment`]), and HTTPS to admin ports ([`https::agent`]).
//!
//! Passwords come from files or from the environment: arguments are what everybody on the machine can see
//! in the list of processes. Only `--auth` may be one, because people are used to it; its help says better
//! ways.

mod credentials;
mod flags;
pub mod https;
mod password;

pub use credentials::{AuthArguments, AuthError, Credentials};
pub use flags::{HEADING, TlsArguments, TlsFlagsError};
pub use password::{PasswordError, secret_from_environment, secret_from_file};
