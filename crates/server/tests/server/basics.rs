//! Basic operations: create, read, change, delete; order of answers; restarts.

use herdsman_proto::{ErrorCode, Request, WriteRequest};
use herdsman_testing::TestServer;

use crate::client::{Client, code, create};

#[test]
fn a_znode_lives_and_dies() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/a", b"one", 0).ok();
    assert_eq!(client.create("/a", b"", 0).error, code(ErrorCode::NodeExists));
    client.set("/a", b"two").ok();
    let (data, stat) = client.get("/a", false).unwrap();
    assert_eq!((data.as_slice(), stat.version, stat.data_length), (&b"two"[..], 1, 3));
    client.create("/a/b", b"", 0).ok();
    assert_eq!(client.children("/a"), ["b"]);
    assert_eq!(client.delete("/a").error, code(ErrorCode::NotEmpty));
    client.delete("/a/b").ok();
    client.delete("/a").ok();
    assert_eq!(client.get("/a", false), Err(code(ErrorCode::NoNode)));
}

#[test]
fn pipelined_requests_are_answered_in_order_and_see_each_other() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.check_pipelined_order("/n");
}

#[test]
fn a_failed_multi_changes_nothing() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    let Request::Write(first) = create("/m", b"", 0) else { unreachable!() };
    let bad = WriteRequest::Check { path: "/missing".into(), version: 0 };
    let reply = client.call(&Request::Write(WriteRequest::Multi(vec![first, bad])));
    assert_eq!(reply.error, 0, "a failed multi says so in its results");
    assert_eq!(client.get("/m", false), Err(code(ErrorCode::NoNode)));
}

#[test]
fn everything_is_there_after_a_restart() {
    let mut server = TestServer::start();
    let mut client = Client::connect(server.address());
    client.create("/kept", b"data", 0).ok();
    let before = client.get("/kept", false).unwrap();
    server.restart();
    let mut client = Client::connect(server.address());
    assert_eq!(client.get("/kept", false).unwrap(), before);
    client.create("/kept/more", b"", 0).ok();
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let server = TestServer::start();
    let directory = server.data_dir().to_owned();
    let mut config =
        herdsman_config::Config::standalone_default(&Default::default()).unwrap().config;
    config.storage.data_dir.clone_from(&directory);
    config.storage.log_dir = directory;
    config.listen.client = None;
    let refused = herdsman_server::Server::start(config).err().expect("the directory is taken");
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
}
