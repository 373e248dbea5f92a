//! A server with an admin port, and a small HTTP client that sends exactly what a test specifies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use herdsman_admin::settings::Writers;
use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::Client;
use herdsman_config::Config;
use herdsman_config::Secret;
use herdsman_server::ServerHandle;
use herdsman_testing::TestServer;
use herdsman_tree::auth::{DigestAlgorithm, digest_id};
use serde_json::Value;

/// Longer than anything that a test waits for.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

pub const ALICE: &str = "alice:in-wonderland";
pub const ROOT_USER: &str = "super:root";

pub struct Rest {
    pub server: TestServer,
    pub admin: Admin,
}

impl Rest {
    /// Starts a server to which everyone may write, with a super user and with znodes that may have a time
    /// to live.
    pub fn start() -> Self {
        Self::start_with(Writers::Anybody)
    }

    pub fn start_with(writers: Writers) -> Self {
        Self::start_as(writers, |_| {})
    }

    /// Starts a server with a changed configuration.
    pub fn start_and(adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_as(Writers::Anybody, adjust)
    }

    fn start_as(writers: Writers, adjust: impl FnOnce(&mut Config)) -> Self {
        let server = TestServer::start_with(|config| {
            let digest = digest_id(ROOT_USER, DigestAlgorithm::Sha1);
            config.access.super_digest = Some(Secret::new(digest));
            config.znodes.ttl = true;
            adjust(config);
        });
        let admin = admin(server.handle(), writers);
        Rest { server, admin }
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.server.connect_string()).await.unwrap()
    }

    pub fn get(&self, target: &str) -> Answer {
        Ask::get(target).of(self.admin.address())
    }

    pub fn ask(&self, ask: &Ask) -> Answer {
        ask.of(self.admin.address())
    }

    /// Creates a znode through REST.
    pub fn create(&self, path: &str, data: &str) {
        let body = serde_json::json!({ "data": data });
        let answer = self.ask(&Ask::json("POST", &format!("/api/v1/node?path={path}"), &body));
        assert_eq!(answer.status, 201, "{path}: {answer:?}");
    }
}

pub fn admin(server: ServerHandle, writers: Writers) -> Admin {
    let settings = AdminSettings { writers, ..AdminSettings::default() };
    Admin::start(server, settings).unwrap()
}

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.replace(' ', "%20"));
        Ask { method, target, headers: Vec::new(), body: Vec::new() }
    }

    pub fn get(target: &str) -> Self {
        Ask::new("GET", target)
    }

    pub fn json(method: &str, target: &str, body: &Value) -> Self {
        Ask::new(method, target).header("Content-Type", "application/json").body(body.to_string())
    }

    pub fn delete(target: &str) -> Self {
        Ask::new("DELETE", target).header("X-Herdsman", "1")
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn user(self, credentials: &str) -> Self {
        let basic = format!("Basic {}", STANDARD.encode(credentials));
        self.header("Authorization", &basic)
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn of(&self, address: SocketAddr) -> Answer {
        let mut stream = connect(address);
        stream.write_all(&self.bytes(address)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Answer::parse(&answer)
    }

    /// Sends the request and returns the connection, for reading the response.
    pub fn open(&self, address: SocketAddr) -> TcpStream {
        let mut stream = connect(address);
        stream.write_all(&self.bytes(address)).unwrap();
        stream
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| name == "Host") {
            head.push_str(&format!("Host: {address}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = &bytes[end + 4..];
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { join_chunks(body) } else { body.to_vec() };
        Answer { status, head, body }
    }

    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {} {text}", self.head))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the body of a response that must be 200.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Returns the status and the name of the error.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or_default().to_owned())
    }
}

fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk's size");
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
