//! Tests of the pair against two small test servers, one of which may misbehave.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ConnectResponse, ErrorCode, JuteReader, OpCode, SessionId, Xid, Zxid, reply};

use super::*;
use crate::action::Hello;
use crate::call::Call;

/// The behaviour of a server where two servers may differ.
#[derive(Clone, Copy)]
struct Behaviour {
    /// The first zxid that it assigns: two correct servers may differ here.
    base: i64,
    /// Its answer to exists.
    exists: ErrorCode,
    /// Whether it closes the connection after an unknown op.
    closes: bool,
}

const CORRECT: Behaviour = Behaviour { base: 100, exists: ErrorCode::NoNode, closes: true };

fn serve(behaviour: Behaviour) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut sessions = 0;
        for stream in listener.incoming() {
            sessions += 1;
            let session = SessionId(behaviour.base * 1000 + sessions);
            // The client ends each connection; when it does, the thread ends.
            std::thread::spawn(move || answer_requests(stream.unwrap(), behaviour, session));
        }
    });
    address
}

fn answer_requests(mut stream: TcpStream, behaviour: Behaviour, session: SessionId) -> Option<()> {
    let mut out = Vec::new();
    frame(&mut stream)?;
    ConnectResponse::established(session, 30_000, Some(false)).encode_frame(&mut out);
    stream.write_all(&out).ok()?;
    loop {
        let request = frame(&mut stream)?;
        let header = RequestHeader::decode(&mut JuteReader::new(&request)).ok()?;
        let zxid = Zxid(behaviour.base);
        let (zxid, error) = match OpCode::from_code(header.op) {
            Some(OpCode::Exists) => (zxid, Some(behaviour.exists)),
            Some(_) => (zxid, None),
            None => (Zxid(-1), Some(ErrorCode::Unimplemented)),
        };
        out.clear();
        reply::header_only(&mut out, Xid(header.xid.0), zxid, error);
        stream.write_all(&out).ok()?;
        let over = header.op == OpCode::CloseSession.code();
        let refused = error == Some(ErrorCode::Unimplemented);
        if over || (refused && behaviour.closes) {
            return None;
        }
    }
}

fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

/// Whether the two differ on this call.
fn differ(a: Behaviour, b: Behaviour, call: Call) -> bool {
    let layout = Layout { slots: 1, first_server: 0 };
    let mut pair = Pair::start(&[serve(a)], &[serve(b)], layout, Print::Nothing).unwrap();
    let hello = Action::Hello { slot: 0, hello: Hello::new_session() };
    assert!(matches!(pair.step(&hello).unwrap(), Step::Equal(_)));
    matches!(pair.step(&Action::call(0, call)).unwrap(), Step::Differs(_))
}

fn exists() -> Call {
    Call::read(OpCode::Exists, Some(b"/x"), false)
}

#[test]
fn other_zxids_and_session_ids_are_not_a_difference() {
    assert!(!differ(CORRECT, Behaviour { base: 7000, ..CORRECT }, exists()));
}

#[test]
fn another_error_code_is_a_difference() {
    assert!(differ(CORRECT, Behaviour { exists: ErrorCode::NoAuth, ..CORRECT }, exists()));
}

#[test]
fn a_connection_left_open_is_a_difference() {
    let unknown = || Call::raw(99, Vec::new(), "unknown");
    assert!(!differ(CORRECT, CORRECT, unknown()));
    assert!(differ(CORRECT, Behaviour { closes: false, ..CORRECT }, unknown()));
}

#[test]
fn a_server_of_an_ensemble_that_differs_is_found_by_its_clients() {
    let liar = Behaviour { exists: ErrorCode::NoAuth, ..CORRECT };
    let a = [serve(CORRECT), serve(CORRECT)];
    let b = [serve(Behaviour { base: 7000, ..CORRECT }), serve(Behaviour { base: 7000, ..liar })];
    let layout = Layout { slots: 2, first_server: 0 };
    let mut pair = Pair::start(&a, &b, layout, Print::Nothing).unwrap();
    let mut agree = |action| matches!(pair.step(&action).unwrap(), Step::Equal(_));
    for slot in 0..2 {
        assert!(agree(Action::Hello { slot, hello: Hello::new_session() }));
    }
    assert!(agree(Action::call(0, exists())));
    assert!(!agree(Action::call(1, exists())));
    // The first session is at the second server.
    assert!(agree(Action::call(0, Call::close_session())));
    let there = Hello { server: Some(1), ..Hello::new_session() };
    assert!(agree(Action::Hello { slot: 0, hello: there }));
    assert!(!agree(Action::call(0, exists())));
}
