//! A session outside of the comparison, with one request at a time.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ConnectRequest, ConnectResponse, JuteReader, OpCode, SessionId, Xid, Zxid};

use crate::call::Call;
use crate::link::{Incoming, Link};

/// A session and its connection.
#[derive(Debug)]
pub struct Client {
    link: Link,
    /// Its id.
    pub session: SessionId,
}

impl Client {
    /// Opens a session.
    pub fn open(server: SocketAddr) -> Result<Self> {
        let mut client = Client { link: Link::open(server)?, session: SessionId::NONE };
        let hello = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 30_000,
            session: SessionId::NONE,
            password: &[],
            read_only: Some(false),
        };
        let mut bytes = Vec::new();
        hello.encode_frame(&mut bytes);
        client.link.send(&bytes);
        let answer = client.receive().with_context(|| format!("connecting to {server}"))?;
        client.session = ConnectResponse::decode(&answer)?.session;
        ensure!(client.session != SessionId::NONE, "{server} did not open a session");
        Ok(client)
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        match self.link.receive() {
            Incoming::Frame(payload) => Ok(payload),
            other => bail!("{other:?} instead of an answer"),
        }
    }

    /// Sends a request and returns its reply.
    pub fn ask(&mut self, call: &Call) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        call.encode_frame(call.xid.unwrap_or(Xid(1)), None, &mut bytes);
        self.link.send(&bytes);
        self.receive()
    }

    /// Waits until its server has applied everything that was committed before; returns the server's zxid.
    pub fn sync(&mut self) -> Result<Zxid> {
        let reply = self.ask(&Call::path_only(OpCode::Sync, Some(b"/")))?;
        let (_, zxid, error) = ReplyHeader::decode(&mut JuteReader::new(&reply))?;
        ensure!(error == 0, "sync failed: {error}");
        Ok(zxid)
    }
}
