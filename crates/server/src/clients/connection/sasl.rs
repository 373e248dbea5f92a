//! SASL logins of clients: tokens are exchanged until the server knows the client's identity. Apache:
//! `ZooKeeperServer.processSasl`.
//!
//! All of this runs on the connection's I/O thread. That is right for Kerberos as well: a ticket is verified
//! without the network, with the key table and the replay cache, two small files
//! that are read and written but never synced. It takes about 0.2 ms, less than passing it to another thread.

use herdsman_proto::{ErrorCode, Xid, reply};
use herdsman_sasl::{Accepted, ServerLogin, ServerStep};
use herdsman_tree::auth::SASL;

use super::credentials::shown;
use super::{Connection, EndReason};

/// The state of the SASL login of a connection. There is only one login, as in Apache: a token after its end is
/// rejected, whether it succeeded or failed.
#[derive(Debug)]
pub(super) enum SaslLogin {
    NotStarted,
    InProgress(Box<ServerLogin>),
    Ended,
}

impl Connection {
    pub(super) fn take_sasl_token(&mut self, xid: Xid, token: &[u8]) -> Result<(), EndReason> {
        let Some(logins) = &self.shared.logins.clients else {
            // No login is possible here: the exchange ends with an empty token, as in Apache.
            self.answer_sasl(xid, None);
            return Ok(());
        };
        let mut login = match std::mem::replace(&mut self.sasl_login, SaslLogin::Ended) {
            SaslLogin::NotStarted => match logins.begin() {
                Ok(login) => Box::new(login),
                Err(error) => return self.refuse_sasl(xid, &error.to_string()),
            },
            SaslLogin::InProgress(login) => login,
            SaslLogin::Ended => {
                return self.refuse_sasl(xid, "a login was already attempted on this connection");
            }
        };
        match login.step(token) {
            Ok(ServerStep::Challenge(token)) => {
                self.sasl_login = SaslLogin::InProgress(login);
                self.answer_sasl(xid, Some(&token));
                Ok(())
            }
            Ok(ServerStep::Accepted(Accepted { id, token })) => {
                let proven = self.shared.settings.schemes.of_sasl_user(id.as_str());
                if let Err(error) = self.add_ids(proven) {
                    return self.refuse_sasl(xid, &error.to_string());
                }
                let (peer, session) = (self.client.peer, self.session);
                self.shared.logins_done.info(format_args!(
                    "{peer} in session {session} logged in with SASL as {}",
                    shown(id.as_str())
                ));
                // With Kerberos the last token is empty, and Apache sends none at all.
                self.answer_sasl(xid, Some(&token[..]).filter(|token| !token.is_empty()));
                Ok(())
            }
            Err(error) => self.refuse_sasl(xid, &error.to_string()),
        }
    }

    fn answer_sasl(&mut self, xid: Xid, token: Option<&[u8]>) {
        reply::sasl(&mut self.output, xid, None, token);
    }

    fn refuse_sasl(&mut self, xid: Xid, why: &str) -> Result<(), EndReason> {
        let (peer, session) = (self.client.peer, self.session);
        self.shared
            .failed_logins
            .warn(format_args!("SASL login from {peer} in session {session} failed: {why}"));
        self.shared.core.stats.auth_failed.add(1);
        let settings = &self.shared.settings;
        let is_required = settings.requires(SASL);
        if settings.tolerate_failed_sasl && !is_required {
            self.answer_sasl(xid, None);
            return Ok(());
        }
        let code = match is_required {
            true => ErrorCode::SessionClosedRequireAuth,
            false => ErrorCode::AuthFailed,
        };
        reply::sasl(&mut self.output, xid, Some(code), None);
        Err(EndReason::Refused("SASL login failed"))
    }
}
