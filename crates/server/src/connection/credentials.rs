//! Credentials: answered at once, before anything that waits, as in Apache.

use std::sync::Arc;

use herdsman_node::Input;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{JuteWrite, OpCode, Reader, Request, Xid, Zxid, reply};
use tracing::{info, warn};

use super::{Connection, Ended};

impl Connection {
    pub(super) fn authenticate(
        &mut self,
        header: RequestHeader,
        payload: &[u8],
    ) -> Result<(), Ended> {
        self.shared.core.stats.packets_sent.add(1);
        let op = OpCode::from_code(header.op).ok_or(Ended::Undecodable("op"))?;
        match Request::decode(op, &mut Reader::new(&payload[8..])) {
            Ok(Request::Auth { scheme, credentials }) => {
                let scheme = scheme.into_owned();
                self.present_credentials(header.xid, &scheme, credentials)
            }
            Ok(Request::Sasl { .. }) => {
                // No mechanism is configured: the exchange ends with an empty token, as in Apache.
                _ = reply::reply(&mut self.output, header.xid, Zxid::ZERO, |out| {
                    out.put_buffer(None);
                    Ok(())
                });
                Ok(())
            }
            _ => Err(Ended::Undecodable("auth packet")),
        }
    }

    fn present_credentials(
        &mut self,
        xid: Xid,
        scheme: &str,
        credentials: Option<&[u8]>,
    ) -> Result<(), Ended> {
        let peer = self.client.peer;
        match self.shared.settings.schemes.authenticate(scheme, credentials, peer.ip()) {
            Ok(proven) => {
                info!(%peer, session = %self.session, "authenticated by scheme {scheme}");
                let mut ids = self.ids.to_vec();
                ids.extend(proven.into_iter().filter(|id| !self.ids.contains(id)));
                self.ids = ids.into();
                let ids = Arc::clone(&self.ids);
                self.shared.core.step(Input::Identified { conn: self.client.id, ids });
                reply::header_only(&mut self.output, xid, Zxid::ZERO, None);
                Ok(())
            }
            Err(code) => {
                warn!(%peer, session = %self.session, "authentication by scheme {scheme:?} failed");
                self.shared.core.stats.auth_failed.add(1);
                reply::header_only(&mut self.output, xid, Zxid::ZERO, Some(code));
                Err(Ended::Refused("authentication failed"))
            }
        }
    }
}
