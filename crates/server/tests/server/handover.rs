//! Clients while there is briefly no leader: the leader is removed by a reconfiguration, or all servers restart.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use herdsman_config::Config;
use herdsman_proto::request::ReconfigRequest;
use herdsman_proto::{Request, SessionId, WriteRequest};
use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;

use crate::client::{Client, connect_request, open};

/// New clients wait for a leader for up to a tick. No election takes as long as this one.
fn long_ticks(_: usize, config: &mut Config) {
    config.sessions.tick_ms = 60_000;
}

/// An ensemble of which only a follower is left, and the ids of that follower and its last leader. The leader stops
/// last: the two others would elect one of them, which would not notice before its next tick that it is alone.
fn left_alone() -> (TestEnsemble, usize, usize) {
    let mut ensemble = TestEnsemble::start_with("", long_ticks);
    let leader = ensemble.await_leader();
    let left = ensemble.follower();
    let other = ensemble.ids().find(|id| ![leader, left].contains(id)).expect("there are three");
    ensemble.stop(other);
    ensemble.stop(leader);
    ensemble.await_that("the end of service", || ensemble.serves_as(left).is_none().then_some(()));
    (ensemble, left, leader)
}

#[test]
fn a_new_client_waits_for_a_leader() {
    let (mut ensemble, left, leader) = left_alone();
    let address = ensemble.address(left);
    let waiting = std::thread::spawn(move || {
        let request = connect_request(SessionId::NONE, &[0; 16]);
        Client::connect_over(open(address), &request)
    });
    ensemble.start_again(leader);
    let client = waiting.join().unwrap();
    client.expect("the connection is not closed").create("/a", b"", 0).ok();
}

#[test]
fn a_new_client_that_leaves_while_it_waits_is_forgotten() {
    let (ensemble, left, _) = left_alone();
    let mut stream = open(ensemble.address(left));
    let mut frame = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut frame);
    std::io::Write::write_all(&mut stream, &frame).unwrap();
    let connections = || ensemble.handle(left).core().clients.len();
    ensemble.await_that("the connection", || (connections() == 1).then_some(()));
    drop(stream);
    ensemble.await_that("its end", || (connections() == 0).then_some(()));
}

/// Opens sessions at a server in sequence, until there is one that began after the end was requested.
fn keep_connecting(address: SocketAddr, is_over: &AtomicBool) -> usize {
    for count in 1.. {
        let is_last = is_over.load(Ordering::SeqCst);
        let request = connect_request(SessionId::NONE, &[0; 16]);
        let opened = Client::connect_as(address, &request);
        assert!(opened.is_some(), "handshake {count} at {address} was refused");
        if is_last {
            return count;
        }
    }
    unreachable!("it is over one day")
}

/// Writes in one session, over as many connections as needed.
fn keep_writing(mut client: Client, address: SocketAddr, is_over: &AtomicBool) -> usize {
    for count in 1.. {
        let is_last = is_over.load(Ordering::SeqCst);
        client.send(&crate::client::create(&format!("/w{count}"), b"", 0));
        if client.is_closed() {
            let again = Client::reattach(address, client.session);
            client = again.expect("the session continues");
        } else if is_last {
            return count;
        }
    }
    unreachable!("it is over one day")
}

/// Stops the threads of a test, also of one that fails.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_leader_that_leaves_costs_no_client_more_than_its_connection() {
    let lines = "reconfigEnabled=true\nskipACL=yes\nmaxClientCnxns=0\n";
    let ensemble = TestEnsemble::start_with(lines, long_ticks);
    let leader = ensemble.await_leader();
    let stay: Vec<_> = ensemble.ids().filter(|id| *id != leader).collect();
    let mut operator = Client::connect(ensemble.address(stay[0]));
    let writer = Client::connect(ensemble.address(stay[1]));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = EndOf(&is_over);
        for address in ensemble.ids().map(|id| ensemble.address(id)) {
            let is_over = &is_over;
            scope.spawn(move || keep_connecting(address, is_over));
        }
        scope.spawn(|| keep_writing(writer, ensemble.address(stay[1]), &is_over));
        let leaving = leader.to_string();
        let reconfig = ReconfigRequest {
            joining: None,
            leaving: Some(leaving.as_str().into()),
            new_members: None,
            current_config: -1,
        };
        let reply = operator.call(&Request::Write(WriteRequest::Reconfig(reconfig)));
        assert_eq!(reply.error, 0, "the reply comes before the connection closes");
        ensemble.await_that("the next leader", || {
            let next = stay.iter().find(|id| ensemble.serves_as(**id) == Some(ServesAs::Leader));
            next.is_some().then_some(())
        });
    });
}
