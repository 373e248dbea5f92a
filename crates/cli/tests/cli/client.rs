//! The part of ZooKeeper's client protocol that these tests need, encoded by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

const CREATE: i32 = 1;
const GET_DATA: i32 = 4;
const SYNC: i32 = 9;

/// A session.
pub struct Client {
    stream: TcpStream,
    xid: i32,
}

impl Client {
    /// Opens a session; fails if the server does not serve clients.
    pub fn connect(address: &str) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        let mut request = vec![0; 4 + 8];
        request.extend(10_000_i32.to_be_bytes());
        request.extend([0; 8]);
        put(&mut request, &[0; 16]);
        send(&mut stream, &request)?;
        receive(&mut stream)?;
        Ok(Client { stream, xid: 0 })
    }

    pub fn create(&mut self, path: &str, data: &str) {
        self.try_create(path, data).expect("it is created");
    }

    /// Fails if the server refuses it, or closes the connection.
    pub fn try_create(&mut self, path: &str, data: &str) -> std::io::Result<()> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put(&mut body, data.as_bytes());
        body.extend(1_i32.to_be_bytes());
        body.extend(31_i32.to_be_bytes());
        put(&mut body, b"world");
        put(&mut body, b"anyone");
        body.extend([0; 4]);
        self.try_call(CREATE, &body).map(|_| ())
    }

    pub fn sync(&mut self) {
        let mut body = Vec::new();
        put(&mut body, b"/");
        self.call(SYNC, &body);
    }

    pub fn get(&mut self, path: &str) -> String {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.push(0);
        let reply = self.call(GET_DATA, &body);
        let (length, rest) = reply.split_first_chunk::<4>().expect("a length");
        let length = usize::try_from(i32::from_be_bytes(*length)).expect("there is data");
        String::from_utf8(rest[..length].to_vec()).expect("it was text")
    }

    /// The body of the reply to a request that succeeds.
    fn call(&mut self, op: i32, body: &[u8]) -> Vec<u8> {
        self.try_call(op, body).unwrap_or_else(|error| panic!("op {op} failed: {error}"))
    }

    fn try_call(&mut self, op: i32, body: &[u8]) -> std::io::Result<Vec<u8>> {
        self.xid += 1;
        let mut request = self.xid.to_be_bytes().to_vec();
        request.extend(op.to_be_bytes());
        request.extend(body);
        send(&mut self.stream, &request)?;
        let reply = receive(&mut self.stream)?;
        assert_eq!(reply[..4], self.xid.to_be_bytes());
        match &reply[12..16] {
            [0, 0, 0, 0] => Ok(reply[16..].to_vec()),
            code => Err(std::io::Error::other(format!("refused with {code:?}"))),
        }
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(i32::try_from(bytes.len()).expect("short").to_be_bytes());
    out.extend(bytes);
}

fn send(stream: &mut TcpStream, payload: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::new();
    put(&mut frame, payload);
    stream.write_all(&frame)
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut payload = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("not negative")];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}
