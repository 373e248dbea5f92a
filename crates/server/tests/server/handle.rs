//! The functions of a server's handle.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use herdsman_server::operators::log_level::LogLevel;
use herdsman_testing::TestServer;

#[test]
fn a_connection_from_inside_counts_for_the_address_it_stands_for() {
    let server = TestServer::start_with(|config| {
        config.limits.connections_per_address_max = std::num::NonZeroU32::new(1);
    });
    let handle = server.handle();
    let peer: SocketAddr = "192.0.2.7:4711".parse().unwrap();
    let mut stream = handle.connect_as(peer).unwrap();
    assert_eq!(handle.core().clients.all()[0].peer, peer);
    let refused = handle.connect_as(peer).unwrap_err();
    assert!(refused.to_string().contains("maxClientCnxns"), "{refused}");
    stream.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");
}

#[test]
fn a_handle_of_a_stopped_server_opens_nothing() {
    let server = TestServer::start();
    let handle = server.handle();
    drop(server);
    assert!(handle.is_stopping());
    assert!(handle.connect_as(SocketAddr::from(([127, 0, 0, 1], 1))).is_err());
}

#[test]
fn a_server_hands_on_the_level_of_its_process() {
    let server = TestServer::start();
    let handle = server.handle();
    assert!(handle.log_level().set("debug").is_err());
    let set = Arc::new(parking_lot::Mutex::new("info".to_owned()));
    let shown = Arc::clone(&set);
    let level = LogLevel::new(
        move || shown.lock().clone(),
        move |wanted| {
            *set.lock() = wanted.to_owned();
            Ok(())
        },
    );
    server.use_log_level(level);
    handle.log_level().set("debug").unwrap();
    assert_eq!(handle.log_level().get(), "debug");
}
