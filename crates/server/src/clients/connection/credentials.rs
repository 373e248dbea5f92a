//! Authentication requests: answered immediately, ahead of waiting requests, as in Apache.

use std::sync::Arc;

use herdsman_node::Input;
use herdsman_proto::limits::{CONNECTION_IDS_BYTES_MAX, CONNECTION_IDS_MAX, ids_fit};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, Id, JuteReader, OpCode, Request, Xid, Zxid, reply};

use super::{Connection, EndReason};

/// The scheme that authenticates nothing: it asks whether this is the right ensemble.
const ENSEMBLE: &str = "ensemble";
/// Characters of a client's name that are logged.
const SHOWN_NAME_CHARS_MAX: usize = 64;

/// The connection would have more ids than a learner may send to its leader with each write.
#[derive(Debug, thiserror::Error)]
#[error(
    "a connection may have at most {CONNECTION_IDS_MAX} ids and {CONNECTION_IDS_BYTES_MAX} bytes of ids"
)]
pub(super) struct TooManyIds;

/// The part of a client's name that is logged.
pub(super) fn shown(name: &str) -> &str {
    let end = name.char_indices().nth(SHOWN_NAME_CHARS_MAX).map_or(name.len(), |(end, _)| end);
    &name[..end]
}

impl Connection {
    pub(super) fn authenticate(
        &mut self,
        header: RequestHeader,
        payload: &[u8],
    ) -> Result<(), EndReason> {
        self.shared.core.stats.packets_sent.add(1);
        let op = OpCode::from_code(header.op).ok_or(EndReason::Undecodable("op"))?;
        match Request::decode(op, &mut JuteReader::new(&payload[8..])) {
            Ok(Request::Auth { scheme, credentials }) => {
                let scheme = scheme.into_owned();
                self.present_credentials(header.xid, &scheme, credentials)
            }
            Ok(Request::Sasl { token }) => self.take_sasl_token(header.xid, token),
            _ => Err(EndReason::Undecodable("auth packet")),
        }
    }

    fn present_credentials(
        &mut self,
        xid: Xid,
        scheme: &str,
        credentials: Option<&[u8]>,
    ) -> Result<(), EndReason> {
        let peer = self.client.peer;
        if scheme == ENSEMBLE && self.shared.settings.ensemble_names.is_some() {
            return self.check_ensemble(xid, credentials.unwrap_or_default());
        }
        let schemes = &self.shared.settings.schemes;
        let added = match schemes.authenticate(scheme, credentials, peer.ip()) {
            Ok(proven) => self.add_ids(proven).map_err(|error| error.to_string()),
            Err(_) => Err("not accepted".to_owned()),
        };
        let session = self.session;
        match added {
            Ok(()) => {
                self.shared.logins_done.info(format_args!(
                    "{peer} in session {session} authenticated by scheme {}",
                    shown(scheme)
                ));
                reply::header_only(&mut self.output, xid, Zxid::ZERO, None);
                Ok(())
            }
            Err(why) => {
                self.shared.failed_logins.warn(format_args!(
                    "authentication by scheme {:?} from {peer} in session {session} failed: {why}",
                    shown(scheme)
                ));
                self.shared.core.stats.auth_failed.add(1);
                let code = ErrorCode::AuthFailed;
                reply::header_only(&mut self.output, xid, Zxid::ZERO, Some(code));
                Err(EndReason::Refused("authentication failed"))
            }
        }
    }

    /// Checks the name of the ensemble that the client expects. At the wrong ensemble the connection ends without an
    /// answer: an error would be final to the client, whereas now it tries another of its servers. Apache:
    /// `EnsembleAuthenticationProvider`.
    fn check_ensemble(&mut self, xid: Xid, wanted: &[u8]) -> Result<(), EndReason> {
        let names = self.shared.settings.ensemble_names.as_deref().unwrap_or_default();
        let stats = &self.shared.core.stats;
        if wanted.is_empty() || names.is_empty() {
            stats.ensemble_auth_skipped.add(1);
        } else if names.iter().any(|name| name.as_bytes() == wanted) {
            stats.ensemble_auth_fitted.add(1);
        } else {
            stats.ensemble_auth_failed.add(1);
            let (peer, wanted) = (self.client.peer, String::from_utf8_lossy(wanted));
            let wanted = shown(&wanted);
            self.shared.failed_logins.warn(format_args!(
                "{peer} expects the ensemble {wanted:?}, which is not this one (ensembleAuthName)"
            ));
            return Err(EndReason::Refused("the client expects another ensemble"));
        }
        reply::header_only(&mut self.output, xid, Zxid::ZERO, None);
        Ok(())
    }

    /// Adds ids that the client has proven; none of them if all of them would be too many.
    pub(super) fn add_ids(&mut self, proven: Vec<Id>) -> Result<(), TooManyIds> {
        let mut ids = self.ids.to_vec();
        ids.extend(proven.into_iter().filter(|id| !self.ids.contains(id)));
        if !ids_fit(&ids) {
            return Err(TooManyIds);
        }
        self.ids = ids.into();
        self.must_log_in = self.shared.settings.asks_for_login(&self.ids);
        let ids = Arc::clone(&self.ids);
        self.shared.core.step(Input::Identified { conn: self.client.id, ids });
        Ok(())
    }

    /// Rejects a request of a client that has to log in first. Apache: `AuthenticationHelper`.
    pub(super) fn refuse_unauthenticated(&mut self, header: RequestHeader) -> EndReason {
        self.note_received();
        let (peer, session) = (self.client.peer, self.session);
        self.shared.failed_logins.warn(format_args!(
            "{peer} in session {session} has not logged in with one of the required schemes"
        ));
        self.shared.core.stats.auth_failed.add(1);
        self.shared.core.stats.packets_sent.add(1);
        let code = ErrorCode::SessionClosedRequireAuth;
        reply::header_only(&mut self.output, header.xid, Zxid::ZERO, Some(code));
        EndReason::Refused("not logged in")
    }
}
