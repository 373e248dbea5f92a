//! A minimal blocking client: it sends frames and receives frames.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use herdsman_proto::reply::{self, ReplyHeader};
use herdsman_proto::request::{CreateRequest, RequestHeader};
use herdsman_proto::{
    Acl, ConnectRequest, ConnectResponse, ErrorCode, EventType, JuteReader, OpCode, Perms,
    ReadRequest, Request, SessionId, Stat, WatchedEvent, WriteRequest, Xid, Zxid,
};

/// Long enough for the slowest machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A frame from the server, without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub xid: Xid,
    pub zxid: Zxid,
    pub error: i32,
    pub body: Vec<u8>,
}

impl Frame {
    /// The body of a reply that must have succeeded.
    pub fn ok(&self) -> JuteReader<'_> {
        assert_eq!(self.error, 0, "request {:?} failed", self.xid);
        JuteReader::new(&self.body)
    }
}

/// A connection with a session, plain or through TLS.
pub struct Client<S = TcpStream> {
    stream: S,
    next_xid: i32,
    pub session: SessionId,
    pub password: [u8; 16],
    pub timeout_ms: i32,
    /// The connect response.
    pub read_only: Option<bool>,
    /// Events that arrived while a reply was awaited.
    pub events: Vec<(EventType, String, Zxid)>,
}

pub fn connect_request(session: SessionId, password: &[u8]) -> ConnectRequest<'_> {
    ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session,
        password,
        read_only: Some(false),
    }
}

/// Opens a socket with a read timeout.
pub fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The next frame; `None` when the server has closed the connection.
pub fn receive_payload(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    if let Err(error) = stream.read_exact(&mut length) {
        let closed = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
        assert!(closed, "no answer: {error}");
        return None;
    }
    let mut payload = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut payload).expect("a frame arrives whole");
    Some(payload)
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, &connect_request(SessionId::NONE, &[0; 16]))
            .expect("a session is opened")
    }

    /// Resumes an existing session.
    pub fn reattach(address: SocketAddr, session: SessionId) -> Option<Self> {
        Self::connect_as(address, &connect_request(session, &session.apache_password()))
    }

    /// `None` when the server closes the connection or reports that the session has expired.
    pub fn connect_as(address: SocketAddr, request: &ConnectRequest<'_>) -> Option<Self> {
        Self::connect_over(open(address), request)
    }

    /// Its address, as the server sees it.
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Whether all received bytes were taken.
    pub fn has_nothing_yet(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl<S: Read + Write> Client<S> {
    /// `None` when the server closes the connection or reports that the session has expired.
    pub fn connect_over(mut stream: S, request: &ConnectRequest<'_>) -> Option<Self> {
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        stream.write_all(&frame).ok()?;
        let response = ConnectResponse::decode(&receive_payload(&mut stream)?).unwrap();
        if response.session == SessionId::NONE {
            return None;
        }
        let ConnectResponse { session, password, timeout_ms, read_only } = response;
        let events = Vec::new();
        Some(Client { stream, next_xid: 1, session, password, timeout_ms, read_only, events })
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a request without waiting.
    pub fn send(&mut self, request: &Request<'_>) -> Xid {
        self.send_all(std::slice::from_ref(request))[0]
    }

    /// Sends requests in one write, without waiting.
    pub fn send_all(&mut self, requests: &[Request<'_>]) -> Vec<Xid> {
        let mut frames = Vec::new();
        let mut encode = |request: &Request<'_>| {
            let xid = Xid(self.next_xid);
            self.next_xid += 1;
            reply::frame(&mut frames, |out| {
                RequestHeader { xid, op: request.op().code() }.encode(out);
                request.encode(out);
            });
            xid
        };
        let xids = requests.iter().map(&mut encode).collect();
        // A server that rejects a frame by its length may close before it has received all of it; a caller that
        // expects an answer will notice.
        _ = self.stream.write_all(&frames);
        xids
    }

    /// Sends bursts of writes, each followed by reads: every read sees the write before it and not
    /// the one after it. Some values are long enough for their reads to be served in another way.
    pub fn check_pipelined_order(&mut self, path: &str) {
        self.create(path, b"", 0).ok();
        let value = |i: usize| format!("{i:>width$}", width = if i % 10 == 9 { 9000 } else { 1 });
        let values: Vec<String> = (0..300).map(value).collect();
        for burst in values.chunks(50) {
            let mut requests = Vec::new();
            for value in burst {
                requests.extend([set(path, value.as_bytes()), exists(path), get(path, false)]);
            }
            let xids = self.send_all(&requests);
            for (value, xids) in burst.iter().zip(xids.chunks(3)) {
                let replies = [(); 3].map(|()| self.receive_reply().unwrap());
                assert_eq!(replies.each_ref().map(|reply| reply.xid), xids, "in order");
                let read = replies[2].ok().buffer().unwrap().map(<[u8]>::to_vec);
                assert_eq!(read.as_deref(), Some(value.as_bytes()), "a session sees its writes");
            }
        }
    }

    /// The next frame, event or reply; `None` when the connection is closed.
    pub fn receive(&mut self) -> Option<Frame> {
        let payload = receive_payload(&mut self.stream)?;
        let mut reader = JuteReader::new(&payload);
        let (xid, zxid, error) = ReplyHeader::decode(&mut reader).unwrap();
        Some(Frame { xid, zxid, error, body: reader.rest().to_vec() })
    }

    /// The next reply; events before it are stored. `None` when the connection is closed.
    pub fn receive_reply(&mut self) -> Option<Frame> {
        loop {
            let frame = self.receive()?;
            if frame.xid != Xid::NOTIFICATION {
                return Some(frame);
            }
            let (kind, path) = WatchedEvent::decode(&mut JuteReader::new(&frame.body)).unwrap();
            self.events.push((kind, path, frame.zxid));
        }
    }

    pub fn try_call(&mut self, request: &Request<'_>) -> Option<Frame> {
        let xid = self.send(request);
        let reply = self.receive_reply()?;
        assert_eq!(reply.xid, xid, "replies come in the order of the requests");
        Some(reply)
    }

    pub fn call(&mut self, request: &Request<'_>) -> Frame {
        self.try_call(request).expect("the connection stays open")
    }

    pub fn create(&mut self, path: &str, data: &[u8], flags: i32) -> Frame {
        self.call(&create(path, data, flags))
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> Frame {
        self.call(&set(path, data))
    }

    pub fn delete(&mut self, path: &str) -> Frame {
        self.call(&Request::Write(WriteRequest::Delete { path: path.into(), version: -1 }))
    }

    /// Data and stat, or the error code.
    pub fn get(&mut self, path: &str, watch: bool) -> Result<(Vec<u8>, Stat), i32> {
        let reply = self.call(&get(path, watch));
        if reply.error != 0 {
            return Err(reply.error);
        }
        let mut body = reply.ok();
        let data = body.buffer().unwrap().unwrap_or_default().to_vec();
        Ok((data, Stat::decode(&mut body).unwrap()))
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        let request =
            ReadRequest::GetChildren { path: path.into(), watch: false, with_stat: false };
        let reply = self.call(&Request::Read(request));
        let names = reply.ok().vector(JuteReader::required_string).unwrap();
        let mut names: Vec<_> = names.into_iter().map(|name| name.into_owned()).collect();
        names.sort();
        names
    }

    pub fn ping(&mut self) -> Option<Frame> {
        let mut frame = Vec::new();
        reply::frame(&mut frame, |out| {
            RequestHeader { xid: Xid::PING, op: OpCode::Ping.code() }.encode(out);
        });
        self.stream.write_all(&frame).ok()?;
        self.receive_reply()
    }

    /// Whether the server closes the connection instead of sending more replies.
    pub fn is_closed(&mut self) -> bool {
        self.receive_reply().is_none()
    }
}

pub fn create<'a>(path: &'a str, data: &'a [u8], flags: i32) -> Request<'a> {
    Request::Write(WriteRequest::Create(CreateRequest {
        op: OpCode::Create,
        path: path.into(),
        data: Some(data),
        acl: vec![Acl::world(Perms::ALL)],
        flags,
        ttl_ms: None,
    }))
}

pub fn set<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::Write(WriteRequest::SetData { path: path.into(), data: Some(data), version: -1 })
}

pub fn exists(path: &str) -> Request<'_> {
    Request::Read(ReadRequest::Exists { path: path.into(), watch: false })
}

pub fn get(path: &str, watch: bool) -> Request<'_> {
    Request::Read(ReadRequest::GetData { path: path.into(), watch })
}

/// The number of an error code, to compare it with a frame's.
pub fn code(error: ErrorCode) -> i32 {
    error.code()
}
