//! Tests of the loop against the echo server, whose values are wrong: with and without checks of the
//! contents.

use std::thread;

use super::*;
use crate::dial::{close_lanes, open_lanes};
use crate::echo::{EchoArgs, EchoServer};
use crate::keys::{Distribution, KeyPicker};
use crate::names::Family;
use crate::report::Round;
use crate::target::Target;
use crate::workload::get::Get;

fn round_on_echo(contents: Contents, stop: &Stop) -> Round {
    let server = EchoServer::bind(&EchoArgs { threads: 1, ..EchoArgs::default() }).unwrap();
    let (target, stop_handle) = (Target::echo(server.address()), server.stop_handle());
    let serving = thread::spawn(|| server.run());
    let mut lanes = open_lanes(&target, 3).unwrap();
    let keys = KeyPicker::new(100, Distribution::Uniform, 1);
    let mut load = Get::new(&Family::for_leaves("/bench", "keys", 100), keys, lanes.len(), 100);
    let window = Window::after(Duration::from_millis(10), Duration::from_millis(100));
    let last_reply = LastReply::at(window.opens);
    let until = Until::Closed(window);
    let options = DriveOptions { depth: 5, until, contents, last_reply: &last_reply, stop };
    let tally = drive(&mut lanes, &mut load, options).unwrap();
    assert_eq!(lanes.len(), 3, "no lane failed");
    assert!(lanes.iter().all(|lane| lane.in_flight.is_empty()));
    close_lanes(lanes);
    stop_handle.stop();
    serving.join().unwrap().unwrap();
    tally.into_round()
}

#[test]
fn replies_of_the_echo_server_count_without_checks() {
    let round = round_on_echo(Contents::Ignored, &Stop::never());
    assert!(round.ops > 0, "{round:?}");
    assert_eq!((round.errors, round.first_error), (0, None));
    assert!((round.seconds - 0.1).abs() < 1e-6, "the window has its length: {}", round.seconds);
}

#[test]
fn wrong_values_are_detected() {
    let round = round_on_echo(Contents::Checked, &Stop::never());
    assert_eq!(round.ops, 0);
    assert!(round.errors > 0);
    let words = round.first_error.unwrap();
    assert!(words.contains("the value is of another znode"), "{words}");
}

#[test]
fn a_run_that_is_stopped_at_once_has_measured_nothing() {
    let stop = Stop::never();
    stop.request();
    let round = round_on_echo(Contents::Ignored, &stop);
    assert_eq!((round.ops, round.errors, round.seconds), (0, 0, 0.0));
}
