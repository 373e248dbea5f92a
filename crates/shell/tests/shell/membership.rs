//! `config` and `reconfig`, against an ensemble.

use herdsman_testing::TestEnsemble;

use crate::world::{World, shell};

#[test]
fn members_are_shown_and_changed() {
    let ensemble = TestEnsemble::start_with("reconfigEnabled=true\nskipACL=yes", |_, _| {});
    let leader = ensemble.await_leader();
    let servers = ensemble.address(leader).to_string();
    let run = |words: &[&str]| shell(&[&["--server", servers.as_str()], words].concat(), "");
    let config = run(&["config"]).ok();
    assert_eq!(config.lines().filter(|line| line.starts_with("server.")).count(), 3, "{config}");
    let version = config.lines().find_map(|line| line.strip_prefix("version=")).expect("a version");
    let clients = run(&["config", "-c"]).ok();
    assert!(clients.starts_with(&format!("{version} ")), "{clients}");

    let gone = ensemble.ids().find(|id| *id != leader).expect("there are three").to_string();
    let refused = run(&["reconfig", "-v", "77", "-remove", &gone]).failed(1);
    assert!(refused.starts_with("version No is not valid : "), "{refused}");
    let changed = run(&["reconfig", "-remove", &gone]).ok();
    let head = "Committed new configuration:\nserver.";
    assert!(changed.starts_with(head) && changed.contains("\nversion="), "{changed}");
    let after = run(&["config"]).ok();
    assert_eq!(after.lines().filter(|line| line.starts_with("server.")).count(), 2, "{after}");
}

#[test]
fn a_reconfiguration_must_make_sense() {
    let world = World::start();
    for words in [
        &["reconfig"][..],
        &["reconfig", "-add", "server.4=a:1:2;3", "-members", "server.1=a:1:2;3"],
        &["reconfig", "-file", "/none", "-remove", "3"],
        &["reconfig", "-s", "-v", "1"],
        &["reconfig", "-remove", "x"],
        &["reconfig", "-v", "x", "-remove", "3"],
    ] {
        assert_eq!(world.run(words).code, 2, "{words:?}");
    }
    let missing = world.run(&["reconfig", "-file", "/none/members.cfg"]).failed(1);
    assert!(missing.starts_with("reading /none/members.cfg: "), "{missing}");
    assert_eq!(world.run(&["reconfig", "-remove", "3"]).code, 1, "it is off by default");
}
