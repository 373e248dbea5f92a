//! Removes what a script has left on a server, so that it can be run again.

use std::net::SocketAddr;

use anyhow::Result;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{JuteReader, OpCode};

use crate::call::Call;
use crate::client::Client;

/// Deletes the subtree `root`, its quotas, and sequential znodes and those of cuts named after it.
pub fn clear(server: SocketAddr, root: &str) -> Result<()> {
    let mut client = Client::open(server)?;
    // All ids that scripts use.
    for credentials in ["super:secret", "u0:p0", "u1:p1", "u2:p2", "u3:p3"] {
        client.ask(&Call::auth(Some(b"digest"), Some(credentials.as_bytes())))?;
    }
    for name in client.children("/")? {
        let path = format!("/{name}");
        if name.starts_with(&format!("cut{}-", &root[1..])) {
            client.delete_tree(&path)?;
        }
        let Some(rest) = path.strip_prefix(root) else {
            continue;
        };
        if rest.is_empty() || (rest.len() == 10 && rest.bytes().all(|b| b.is_ascii_digit())) {
            client.delete_tree(&path)?;
        }
    }
    client.delete_tree(&format!("/zookeeper/quota{root}"))?;
    client.ask(&Call::close_session())?;
    Ok(())
}

impl Client {
    fn children(&mut self, path: &str) -> Result<Vec<String>> {
        let call = Call::read(OpCode::GetChildren, Some(path.as_bytes()), false);
        let payload = self.ask(&call)?;
        let mut reader = JuteReader::new(&payload);
        let (_, _, error) = ReplyHeader::decode(&mut reader)?;
        if error != 0 {
            return Ok(Vec::new());
        }
        let names = reader.vector(JuteReader::required_string)?;
        Ok(names.into_iter().map(std::borrow::Cow::into_owned).collect())
    }

    /// Deletes what it can; the next script shows the rest.
    fn delete_tree(&mut self, path: &str) -> Result<()> {
        for name in self.children(path)? {
            self.delete_tree(&format!("{path}/{name}"))?;
        }
        self.ask(&Call::numbered(OpCode::Delete, Some(path.as_bytes()), -1))?;
        Ok(())
    }
}
