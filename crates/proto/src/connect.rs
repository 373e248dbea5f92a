//! The handshake that opens or re-attaches a session: the first frame each way, without headers.

use crate::ids::{SessionId, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::reply;

/// A session's password.
pub type Password = [u8; 16];

/// The first frame of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Newest zxid the client has seen; a server that is behind it must reject the client.
    pub last_zxid_seen: Zxid,
    /// Requested session timeout.
    pub timeout_ms: i32,
    /// The session to re-attach, or [`SessionId::NONE`].
    pub session: SessionId,
    /// The session's password.
    pub password: &'a [u8],
    /// Whether the client accepts a read-only server. `None`: a client of the 3.3 era, which neither
    /// sends this byte nor understands it in the response.
    pub read_only: Option<bool>,
}

impl<'a> ConnectRequest<'a> {
    /// Reads the first frame's payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self> {
        let mut reader = JuteReader::new(payload);
        reader.int()?;
        let last_zxid_seen = Zxid(reader.long()?);
        let timeout_ms = reader.int()?;
        let session = SessionId(reader.long()?);
        let password = reader.buffer()?.unwrap_or_default();
        let read_only = if reader.is_empty() { None } else { Some(reader.bool()?) };
        Ok(ConnectRequest { last_zxid_seen, timeout_ms, session, password, read_only })
    }

    /// Appends the whole frame.
    pub fn encode_frame(&self, out: &mut Vec<u8>) {
        reply::frame(out, |out| {
            out.put_int(0);
            out.put_long(self.last_zxid_seen.0);
            out.put_int(self.timeout_ms);
            out.put_long(self.session.0);
            out.put_buffer(Some(self.password));
            if let Some(read_only) = self.read_only {
                out.put_bool(read_only);
            }
        });
    }
}

/// The response of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The session timeout; 0 if the session has expired.
    pub timeout_ms: i32,
    /// The session; 0 if it has expired.
    pub session: SessionId,
    /// Its password.
    pub password: Password,
    /// Whether the server is read-only. `None` leaves the byte out, for clients that did not send it.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// An established session with Apache's password.
    #[must_use]
    pub fn established(session: SessionId, timeout_ms: i32, read_only: Option<bool>) -> Self {
        ConnectResponse { timeout_ms, session, password: session.apache_password(), read_only }
    }

    /// The session has expired: the connection is closed after this response.
    #[must_use]
    pub fn expired(read_only: Option<bool>) -> Self {
        ConnectResponse { timeout_ms: 0, session: SessionId::NONE, password: [0; 16], read_only }
    }

    /// Appends the whole frame.
    pub fn encode_frame(&self, out: &mut Vec<u8>) {
        reply::frame(out, |out| {
            out.put_int(0);
            out.put_int(self.timeout_ms);
            out.put_long(self.session.0);
            out.put_buffer(Some(&self.password));
            if let Some(read_only) = self.read_only {
                out.put_bool(read_only);
            }
        });
    }

    /// Reads the response's payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = JuteReader::new(payload);
        reader.int()?;
        let timeout_ms = reader.int()?;
        let session = SessionId(reader.long()?);
        let password = reader.buffer()?.unwrap_or_default();
        let password =
            password.try_into().map_err(|_| DecodeError::Length(password.len() as i32))?;
        let read_only = if reader.is_empty() { None } else { Some(reader.bool()?) };
        Ok(ConnectResponse { timeout_ms, session, password, read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clients_leave_the_read_only_byte_out_and_get_none_back() {
        for (read_only, bytes) in [(None, 36), (Some(false), 37)] {
            let mut out = Vec::new();
            ConnectResponse::established(SessionId(7), 4000, read_only).encode_frame(&mut out);
            assert_eq!(out.len(), 4 + bytes);
            assert_eq!(ConnectResponse::decode(&out[4..]).unwrap().read_only, read_only);
        }
    }

    #[test]
    fn requests_come_back() {
        let request = ConnectRequest {
            last_zxid_seen: Zxid(3),
            timeout_ms: 10_000,
            session: SessionId(5),
            password: &[1; 16],
            read_only: Some(true),
        };
        let mut out = Vec::new();
        request.encode_frame(&mut out);
        assert_eq!(ConnectRequest::decode(&out[4..]), Ok(request));
    }
}
