//! How clients log in. Each login is a state machine that is stepped with tokens.

use std::sync::Arc;

use herdsman_quorum::logins::{BeginError, digest_server, kerberos_server};
use herdsman_sasl::ServerLogin;
use herdsman_sasl::digest_md5::ServerSettings;
use herdsman_sasl::gssapi::{AcceptorKeys, Admission};
use herdsman_sasl::kerberos::ClientNames;

/// Where clients log in.
#[derive(Clone, Debug)]
pub(crate) enum ClientLogins {
    Digest(ServerSettings),
    Kerberos { keys: AcceptorKeys, names: Arc<ClientNames> },
}

impl ClientLogins {
    /// One login.
    pub fn begin(&self) -> Result<ServerLogin, BeginError> {
        match self {
            ClientLogins::Digest(settings) => digest_server(settings),
            ClientLogins::Kerberos { keys, names } => {
                kerberos_server(keys, Admission::Clients(Arc::clone(names)))
            }
        }
    }
}
