//! The audit log of real servers, compared with the lines that Apache writes.

use std::path::Path;
use std::time::{Duration, Instant};

use herdsman_proto::request::{CreateRequest, ReconfigRequest};
use herdsman_proto::{Acl, ErrorCode, Id, OpCode, Perms, Request, SessionId, WriteRequest, Xid};
use herdsman_server::StartError;
use herdsman_testing::{TestEnsemble, TestServer};
use tempfile::TempDir;

use crate::client::{Client, code, create, set};

const EPHEMERAL: i32 = 1;
/// Long enough for the slowest machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with an audit log in a file.
fn audited() -> (TestServer, TempDir) {
    let dir = TempDir::with_prefix("herdsman-test-").unwrap();
    let path = dir.path().join("audit.log");
    let server = TestServer::start_with(|config| {
        config.logging.audit = true;
        config.logging.audit_file = Some(path);
        config.znodes.ttl = true;
    });
    (server, dir)
}

/// The lines of a file without their times, each with its level in front.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (when, rest) = line.split_at("2026-11-16 05:09:43,123 ".len());
        assert!(when.ends_with(' ') && when.chars().all(|c| !c.is_alphabetic()), "{line}");
        let (level, rest) = rest.split_once(" audit: ").expect("a level and the name of the log");
        format!("{level} {rest}")
    };
    text.lines().map(line).collect()
}

/// The lines about clients, after the server has stopped: without its start and its stop.
fn of_clients(mut server: TestServer, dir: &TempDir) -> Vec<String> {
    server.stop();
    let mut lines = lines(&dir.path().join("audit.log"));
    let user = server_user(&lines[0]).to_owned();
    assert_eq!(lines.remove(0), format!("INFO user={user}\toperation=serverStart\tresult=success"));
    let stopped = lines.iter().position(|line| line.contains("serverStop")).expect("it stopped");
    let line = lines.remove(stopped);
    assert_eq!(line, format!("INFO user={user}\toperation=serverStop\tresult=invoked"));
    lines
}

fn server_user(line: &str) -> &str {
    let (_, rest) = line.split_once("user=").expect("every line has a user");
    rest.split('\t').next().unwrap()
}

/// A line about a client on this machine that is authenticated only by its address.
fn by(session: SessionId, rest: &str) -> String {
    let level = if rest.ends_with("result=failure") { "ERROR" } else { "INFO" };
    let rest = rest.replace(' ', "\t");
    format!("{level} session={session}\tuser=127.0.0.1\tip=127.0.0.1\toperation={rest}")
}

fn create_as(op: OpCode, path: &str, flags: i32) -> Request<'_> {
    let ttl_ms = (op == OpCode::CreateTtl).then_some(3_600_000);
    let acl = vec![Acl::world(Perms::ALL)];
    let create = CreateRequest { op, path: path.into(), data: None, acl, flags, ttl_ms };
    Request::Write(WriteRequest::Create(create))
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_kind_of_create_has_its_line() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    let mut expected = Vec::new();
    for (op, path, flags, made) in [
        (OpCode::Create, "/p", 0, "/p znode_type=persistent"),
        (OpCode::Create, "/e", 1, "/e znode_type=ephemeral"),
        (OpCode::Create, "/ps", 2, "/ps0000000002 znode_type=persistent_sequential"),
        (OpCode::Create2, "/es", 3, "/es0000000003 znode_type=ephemeral_sequential"),
        (OpCode::CreateContainer, "/c", 4, "/c znode_type=container"),
        (OpCode::CreateTtl, "/t", 5, "/t znode_type=persistent_with_ttl"),
        (OpCode::CreateTtl, "/ts", 6, "/ts0000000006 znode_type=persistent_sequential_with_ttl"),
    ] {
        client.call(&create_as(op, path, flags)).ok();
        expected.push(by(client.session, &format!("create znode={made} result=success")));
    }
    assert_eq!(client.create("/p", b"", 0).error, code(ErrorCode::NodeExists));
    expected.push(by(client.session, "create znode=/p znode_type=persistent result=failure"));
    assert_eq!(client.create("/no/parent", b"", 2).error, code(ErrorCode::NoNode));
    expected.push(by(
        client.session,
        "create znode=/no/parent znode_type=persistent_sequential result=failure",
    ));
    assert_eq!(of_clients(server, &dir), expected);
}

#[test]
fn changes_and_refusals_have_their_lines_and_reads_have_none() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    let session = client.session;
    client.create("/a", b"", 0).ok();
    client.set("/a", b"x").ok();
    let stale = WriteRequest::SetData { path: "/a".into(), data: None, version: 7 };
    assert_eq!(client.call(&Request::Write(stale)).error, code(ErrorCode::BadVersion));
    client.get("/a", false).unwrap();
    let acl = vec![Acl { perms: Perms::READ, id: Id::anyone() }];
    let set_acl = WriteRequest::SetAcl { path: "/a".into(), acl, version: -1 };
    client.call(&Request::Write(set_acl.clone())).ok();
    // No client may change it any more.
    assert_eq!(client.call(&Request::Write(set_acl)).error, code(ErrorCode::NoAuth));
    assert_eq!(client.set("/a", b"y").error, code(ErrorCode::NoAuth));
    assert_eq!(client.delete("/b").error, code(ErrorCode::NoNode));
    client.delete("/a").ok();
    client.call(&Request::Sync { path: "/".into() }).ok();
    let expected = [
        "create znode=/a znode_type=persistent result=success",
        "setData znode=/a result=success",
        "setData znode=/a result=failure",
        "setAcl znode=/a acl=world:anyone:r result=success",
        "setAcl znode=/a acl=world:anyone:r result=failure",
        "setData znode=/a result=failure",
        "delete znode=/b result=failure",
        "delete znode=/a result=success",
    ];
    assert_eq!(of_clients(server, &dir), expected.map(|rest| by(session, rest)));
}

#[test]
fn a_multi_is_told_by_its_operations_or_as_a_whole_if_it_fails() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    let write = |request: Request<'static>| match request {
        Request::Write(write) => write,
        other => panic!("{other:?} is not a write"),
    };
    let works = vec![
        write(create("/b", b"", 0)),
        write(create("/b/s", b"", 2)),
        write(set("/b", b"x")),
        WriteRequest::Check { path: "/b".into(), version: -1 },
        WriteRequest::Delete { path: "/b/s0000000000".into(), version: -1 },
    ];
    client.call(&Request::Write(WriteRequest::Multi(works))).ok();
    let fails = vec![write(create("/c", b"", 0)), write(create("/c", b"", 0))];
    client.call(&Request::Write(WriteRequest::Multi(fails)));
    let expected = [
        "create znode=/b znode_type=persistent result=success",
        "create znode=/b/s0000000000 znode_type=persistent_sequential result=success",
        "setData znode=/b result=success",
        "delete znode=/b/s0000000000 result=success",
        "multiOperation result=failure",
    ];
    let session = client.session;
    assert_eq!(of_clients(server, &dir), expected.map(|rest| by(session, rest)));
}

#[test]
fn everybody_that_a_client_is_has_a_name_but_no_password() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    let mut frame = Vec::new();
    herdsman_proto::reply::frame(&mut frame, |out| {
        let auth = Request::Auth { scheme: "digest".into(), credentials: Some(b"bob\tx:secret") };
        let header =
            herdsman_proto::request::RequestHeader { xid: Xid::AUTH, op: OpCode::Auth.code() };
        header.encode(out);
        auth.encode(out);
    });
    client.send_raw(&frame);
    assert_eq!(client.receive_reply().unwrap().error, 0);
    client.create("/a", b"", 0).ok();
    let session = client.session;
    let expected = format!(
        "INFO session={session}\tuser=127.0.0.1,bob\\tx\tip=127.0.0.1\toperation=create\tznode=/a\t\
         znode_type=persistent\tresult=success"
    );
    assert_eq!(of_clients(server, &dir), [expected]);
}

#[test]
fn the_end_of_a_session_is_told_by_its_ephemerals() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    client.create("/e2", b"", EPHEMERAL).ok();
    client.create("/e1", b"", EPHEMERAL).ok();
    client.call(&Request::CloseSession).ok();
    let session = client.session;
    let lines = of_clients(server, &dir);
    let user = server_user(&lines[2]).to_owned();
    let deleted = |path| {
        format!(
            "INFO session={session}\tuser={user}\t\
             operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode={path}\tresult=success"
        )
    };
    assert_eq!(lines[2..], [deleted("/e1"), deleted("/e2")]);
}

/// They are deleted in several txns.
#[test]
fn the_end_of_a_session_with_very_many_ephemerals_is_told_in_full() {
    let (server, dir) = audited();
    let mut client = Client::connect(server.address());
    let paths: Vec<_> = (0..1500).map(|i| format!("/e{i:04}")).collect();
    for some in paths.chunks(500) {
        let creates = some.iter().map(|path| match create(path, b"", EPHEMERAL) {
            Request::Write(write) => write,
            other => panic!("{other:?} is not a write"),
        });
        client.call(&Request::Write(WriteRequest::Multi(creates.collect()))).ok();
    }
    client.call(&Request::CloseSession).ok();
    let session = client.session;
    let lines = of_clients(server, &dir);
    let user = server_user(&lines[paths.len()]).to_owned();
    let deleted = |path| {
        format!(
            "INFO session={session}\tuser={user}\t\
             operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode={path}\tresult=success"
        )
    };
    let expected: Vec<_> = paths.iter().map(deleted).collect();
    assert_eq!(lines[paths.len()..], expected);
}

#[test]
fn a_client_that_goes_at_once_leaves_its_line() {
    let (server, dir) = audited();
    let mut gone = Client::connect(server.address());
    let session = gone.session;
    gone.send(&create("/last", b"", 0));
    drop(gone);
    let mut other = Client::connect(server.address());
    wait_for("the last word of a client", || other.get("/last", false).is_ok());
    let expected = by(session, "create znode=/last znode_type=persistent result=success");
    assert_eq!(of_clients(server, &dir), [expected]);
}

#[test]
fn without_a_word_in_the_configuration_there_is_no_audit_log() {
    let server = TestServer::start();
    assert!(server.handle().core().audit().is_none());
}

#[test]
fn a_file_that_cannot_be_opened_keeps_the_server_from_starting() {
    let mut server = TestServer::start();
    server.stop();
    server.configure(|config| {
        config.logging.audit = true;
        config.logging.audit_file = Some("/proc/nowhere/audit.log".into());
    });
    let error = server.try_start().unwrap_err();
    assert!(matches!(error, StartError::AuditFile { .. }));
    assert!(error.to_string().contains("herdsman.auditFile"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn in_an_ensemble_only_the_clients_server_tells_but_all_tell_of_ephemerals() {
    let dir = TempDir::with_prefix("herdsman-test-").unwrap();
    let path = |id: usize| dir.path().join(format!("audit-{id}.log"));
    let settings = "reconfigEnabled=true\nskipACL=yes\naudit.enable=true\n";
    let mut ensemble = TestEnsemble::start_with(settings, |id, config| {
        config.logging.audit_file = Some(path(id));
    });
    ensemble.await_leader();
    let follower = ensemble.follower();
    let mut client = Client::connect(ensemble.address(follower));
    let session = client.session;
    client.create("/e", b"", EPHEMERAL).ok();
    let nonsense = ReconfigRequest {
        joining: Some("server.x=nonsense".into()),
        leaving: None,
        new_members: None,
        current_config: -1,
    };
    assert_ne!(client.call(&Request::Write(WriteRequest::Reconfig(nonsense))).error, 0);
    let leaver = ensemble.ids().find(|&id| id != follower && id != ensemble.await_leader());
    let leaver = leaver.expect("there are three");
    let leaving = ReconfigRequest {
        joining: None,
        leaving: Some(leaver.to_string().into()),
        new_members: None,
        current_config: -1,
    };
    client.call(&Request::Write(WriteRequest::Reconfig(leaving))).ok();
    client.call(&Request::CloseSession).ok();
    let deletion = format!("session={session}\tuser=");
    let is_deletion =
        |line: &String| line.contains("ephemeralZNodeDeletion") && line.contains(&deletion);
    for id in ensemble.ids().filter(|&id| id != leaver) {
        wait_for("every server's line", || lines(&path(id)).iter().any(is_deletion));
    }
    for id in ensemble.ids() {
        ensemble.stop(id);
    }
    let of_requests = |id| {
        let lines = lines(&path(id)).into_iter();
        lines.filter(|line| line.contains("\tip=")).collect::<Vec<_>>()
    };
    let expected = [
        "create znode=/e znode_type=ephemeral result=success",
        "reconfig result=failure",
        "reconfig znode=/zookeeper/config result=success",
    ];
    assert_eq!(of_requests(follower), expected.map(|rest| by(session, rest)));
    for id in ensemble.ids().filter(|&id| id != follower) {
        assert_eq!(of_requests(id), Vec::<String>::new(), "server {id}");
    }
}
