//! The replies to all ops, decoded by the decoders of the protocol.

use std::io::{BufRead, BufReader, pipe};
use std::net::TcpStream;
use std::thread::JoinHandle;

use herdsman_proto::acl::{Acl, Perms};
use herdsman_proto::connect::{ConnectRequest, ConnectResponse};
use herdsman_proto::jute::JuteReader;
use herdsman_proto::multi::MultiHeader;
use herdsman_proto::reply::{self, ReplyHeader};
use herdsman_proto::request::{CreateRequest, RequestHeader};
use herdsman_proto::{OpCode, ReadRequest, Request, SessionId, Stat, WriteRequest, Xid, Zxid};

use super::*;

struct Running {
    address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Running {
    fn start(args: &EchoArgs) -> Self {
        let server = EchoServer::bind(args).unwrap();
        let (address, stop) = (server.address(), server.stop_handle());
        Running { address, stop, thread: Some(thread::spawn(|| server.run())) }
    }

    fn with_values_of(value_bytes: usize) -> Self {
        Self::start(&EchoArgs { value_bytes, children: 3, threads: 2, ..EchoArgs::default() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

struct Client(TcpStream);

impl Client {
    fn connect(server: &Running) -> Self {
        let mut client = Client(TcpStream::connect(server.address).unwrap());
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 4000,
            session: SessionId::NONE,
            password: &[0; 16],
            read_only: Some(false),
        };
        let mut out = Vec::new();
        request.encode_frame(&mut out);
        client.0.write_all(&out).unwrap();
        let answer = ConnectResponse::decode(&client.frame()).unwrap();
        assert_eq!(answer.timeout_ms, 4000);
        assert_ne!(answer.session, SessionId::NONE);
        client
    }

    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    /// Returns the body of the reply to a request.
    fn ask(&mut self, request: &Request<'_>) -> Vec<u8> {
        self.0.write_all(&encoded(77, request)).unwrap();
        let frame = self.frame();
        let mut reader = JuteReader::new(&frame);
        assert_eq!(ReplyHeader::decode(&mut reader), Ok((Xid(77), Zxid(1), 0)), "{request:?}");
        reader.rest().to_vec()
    }
}

fn encoded(xid: i32, request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply::frame(&mut out, |out| {
        RequestHeader { xid: Xid(xid), op: request.op().code() }.encode(out);
        request.encode(out);
    });
    out
}

fn get_data() -> Request<'static> {
    Request::Read(ReadRequest::GetData { path: "/a".into(), watch: false })
}

fn create(op: OpCode, flags: i32) -> WriteRequest<'static> {
    WriteRequest::Create(CreateRequest {
        op,
        path: "/bench/a".into(),
        data: Some(b"data"),
        acl: vec![Acl::world(Perms::ALL)],
        flags,
        ttl_ms: (op == OpCode::CreateTtl).then_some(1000),
    })
}

/// Decodes a body with `decode` and checks that nothing is left.
fn all_of<T>(body: &[u8], decode: impl FnOnce(&mut JuteReader<'_>) -> T) -> T {
    let mut reader = JuteReader::new(body);
    let value = decode(&mut reader);
    assert!(reader.is_empty(), "{} bytes left", reader.rest().len());
    value
}

fn names(reader: &mut JuteReader<'_>) -> Vec<String> {
    reader.vector(|reader| Ok(reader.required_string()?.into_owned())).unwrap()
}

#[test]
fn reads_get_values_names_and_stats_of_the_configured_size() {
    let server = Running::with_values_of(100);
    let mut client = Client::connect(&server);
    let body = client.ask(&get_data());
    all_of(&body, |reader| {
        assert_eq!(reader.buffer(), Ok(Some(&[VALUE_BYTE; 100][..])));
        assert_eq!(Stat::decode(reader).unwrap().data_length, 100);
    });
    let exists = Request::Read(ReadRequest::Exists { path: "/a".into(), watch: false });
    assert_eq!(all_of(&client.ask(&exists), Stat::decode).unwrap().num_children, 3);
    for with_stat in [false, true] {
        let path = "/a".into();
        let children = ReadRequest::GetChildren { path, watch: false, with_stat };
        all_of(&client.ask(&Request::Read(children)), |reader| {
            assert_eq!(names(reader), [child_name(0), child_name(1), child_name(2)]);
            assert!(!with_stat || Stat::decode(reader).is_ok());
        });
    }
    let acl = client.ask(&Request::Read(ReadRequest::GetAcl { path: "/a".into() }));
    all_of(&acl, |reader| {
        assert_eq!(reader.vector(Acl::decode), Ok(vec![Acl::world(Perms::ALL)]));
        Stat::decode(reader).unwrap();
    });
    let count = ReadRequest::GetAllChildrenNumber { path: "/a".into() };
    assert_eq!(all_of(&client.ask(&Request::Read(count)), |reader| reader.int()), Ok(3));
    let who = client.ask(&Request::Read(ReadRequest::WhoAmI));
    all_of(&who, |reader| reader.vector(herdsman_proto::Id::decode).unwrap());
}

#[test]
fn writes_get_replies_as_if_they_were_applied() {
    let server = Running::with_values_of(10);
    let mut client = Client::connect(&server);
    for (op, flags, expected) in [
        (OpCode::Create, 0, "/bench/a"),
        (OpCode::Create, 3, "/bench/a0000000001"),
        (OpCode::Create2, 0, "/bench/a"),
        (OpCode::CreateContainer, 4, "/bench/a"),
        (OpCode::CreateTtl, 6, "/bench/a0000000001"),
    ] {
        let body = client.ask(&Request::Write(create(op, flags)));
        all_of(&body, |reader| {
            assert_eq!(reader.required_string().unwrap(), expected);
            assert!(op == OpCode::Create || Stat::decode(reader).is_ok());
        });
    }
    let set = WriteRequest::SetData { path: "/a".into(), data: Some(b"new"), version: -1 };
    all_of(&client.ask(&Request::Write(set)), Stat::decode).unwrap();
    let delete = WriteRequest::Delete { path: "/a".into(), version: -1 };
    assert!(client.ask(&Request::Write(delete)).is_empty());
    let sync = client.ask(&Request::Sync { path: "/a".into() });
    assert_eq!(all_of(&sync, |reader| reader.required_string().unwrap().into_owned()), "/a");
    assert!(client.ask(&Request::Ping).is_empty());
}

#[test]
fn a_multi_has_one_result_for_each_operation() {
    let server = Running::with_values_of(10);
    let mut client = Client::connect(&server);
    let path = || "/a".into();
    let body = client.ask(&Request::Write(WriteRequest::Multi(vec![
        WriteRequest::Check { path: path(), version: -1 },
        create(OpCode::Create, 0),
        create(OpCode::Create2, 0),
        WriteRequest::SetData { path: path(), data: None, version: -1 },
        WriteRequest::Delete { path: path(), version: -1 },
    ])));
    all_of(&body, |reader| {
        let mut next = |op| {
            assert_eq!(MultiHeader::decode(reader), Ok(MultiHeader::result(op)));
            if matches!(op, OpCode::Create | OpCode::Create2) {
                assert_eq!(reader.required_string().unwrap(), "/bench/a");
            }
            if matches!(op, OpCode::Create2 | OpCode::SetData) {
                Stat::decode(reader).unwrap();
            }
        };
        next(OpCode::Check);
        next(OpCode::Create);
        next(OpCode::Create2);
        next(OpCode::SetData);
        next(OpCode::Delete);
        assert_eq!(MultiHeader::decode(reader), Ok(MultiHeader::END));
    });
    let read = ReadRequest::GetData { path: path(), watch: false };
    let body = client.ask(&Request::Read(ReadRequest::MultiRead(vec![read])));
    all_of(&body, |reader| {
        assert_eq!(MultiHeader::decode(reader), Ok(MultiHeader::result(OpCode::GetData)));
        assert_eq!(reader.buffer(), Ok(Some(&[VALUE_BYTE; 10][..])));
        Stat::decode(reader).unwrap();
        assert_eq!(MultiHeader::decode(reader), Ok(MultiHeader::END));
    });
}

#[test]
fn a_client_that_reads_late_gets_every_reply_in_order() {
    // 64 MiB of replies, far more than the sockets hold: the server has to wait for the client.
    let server = Running::with_values_of(64 << 10);
    let mut client = Client::connect(&server);
    let mut writer = client.0.try_clone().unwrap();
    let (done, all_written) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for xid in 0..1024 {
            writer.write_all(&encoded(xid, &get_data())).unwrap();
        }
        done.send(()).unwrap();
    });
    // Requests are small: all of them are sent before the first reply is read.
    all_written.recv().unwrap();
    for xid in 0..1024 {
        let frame = client.frame();
        let mut reader = JuteReader::new(&frame);
        assert_eq!(ReplyHeader::decode(&mut reader), Ok((Xid(xid), Zxid(1), 0)));
        assert_eq!(reader.buffer().unwrap().unwrap().len(), 64 << 10);
    }
}

#[test]
fn frames_in_several_pieces_are_reassembled() {
    let server = Running::with_values_of(10);
    let mut client = Client::connect(&server);
    client.0.set_nodelay(true).unwrap();
    let data = vec![1; 300 << 10];
    let set = WriteRequest::SetData { path: "/a".into(), data: Some(&data), version: -1 };
    let two = [encoded(1, &Request::Write(set)), encoded(2, &Request::Ping)].concat();
    let (head, tail) = two.split_at(7);
    for piece in std::iter::once(head).chain(tail.chunks(50_001)) {
        client.0.write_all(piece).unwrap();
    }
    for xid in [1, 2] {
        let frame = client.frame();
        let header = ReplyHeader::decode(&mut JuteReader::new(&frame));
        assert_eq!(header, Ok((Xid(xid), Zxid(1), 0)));
    }
}

#[test]
fn close_requests_and_invalid_frames_end_only_their_connection() {
    let server = Running::with_values_of(10);
    let mut other = Client::connect(&server);
    let mut leaving = Client::connect(&server);
    assert!(leaving.ask(&Request::CloseSession).is_empty());
    assert_eq!(leaving.0.read(&mut [0; 1]).unwrap(), 0);
    for nonsense in [&(-1i32).to_be_bytes()[..], &i32::MAX.to_be_bytes(), &[0, 0, 0, 1, 9]] {
        let mut client = Client::connect(&server);
        client.0.write_all(nonsense).unwrap();
        assert_eq!(client.0.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    assert_eq!(other.ask(&get_data()).len(), 4 + 10 + Stat::BYTES);
}

#[test]
fn many_connections_open_and_close() {
    let server = Running::with_values_of(10);
    for _ in 0..10 {
        let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(&server)).collect();
        for client in &mut clients {
            assert_eq!(client.ask(&get_data()).len(), 4 + 10 + Stat::BYTES);
        }
    }
}

#[test]
fn the_server_prints_its_port_and_ends_with_its_input() {
    let (input, keep_open) = pipe().unwrap();
    let (output, mut says) = pipe().unwrap();
    let args = EchoArgs { threads: 1, ..EchoArgs::default() };
    let server = thread::spawn(move || serve_until_eof(&args, input, &mut says));
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect(address).unwrap();
    drop(keep_open);
    server.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn invalid_sizes_are_rejected() {
    for (args, expected) in [
        (EchoArgs { threads: 0, ..EchoArgs::default() }, "--threads must be from 1"),
        (EchoArgs { value_bytes: 1 << 30, ..EchoArgs::default() }, "--value-bytes"),
        (EchoArgs { children: 1 << 30, ..EchoArgs::default() }, "--children"),
    ] {
        let error = EchoServer::bind(&args).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
