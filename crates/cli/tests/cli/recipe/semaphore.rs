//! `herdsman recipe semaphore`.

use super::terminal::Terminal;

const PATH: &str = "/limits/downloads";
const LEASES: &str = "/limits/downloads/leases";

#[test]
fn a_client_waits_when_all_permits_are_in_use() {
    let terminal = Terminal::open();
    let semaphore = ["semaphore", PATH, "--permits", "2"];
    let holders = [(); 2].map(|()| terminal.start(&semaphore));
    for holder in &holders {
        let line = holder.line();
        assert!(line.starts_with("holding /limits/downloads/leases/_c_"), "{line}");
    }
    for patience in ["--no-wait", "-n", "--timeout=0.01"] {
        let mut hurried = semaphore.to_vec();
        hurried.extend([patience, "--", "echo", "never"]);
        let refused = terminal.run(&hurried);
        refused.check_error(3, &["herdsman: all 2 permits of /limits/downloads are in use"]);
        assert!(refused.out.is_empty(), "{refused:?}");
        assert_eq!(terminal.children(LEASES).len(), 2, "{patience} left a node behind");
    }
    let script = "test -n \"$HERDSMAN_FENCING_TOKEN\" && echo $HERDSMAN_PERMIT_NODE; exit 7";
    let mut waiting = semaphore.to_vec();
    waiting.extend(["--", "sh", "-c", script]);
    let waiter = terminal.start(&waiting);
    terminal.wait_for_children("/limits/downloads/leases", 3);
    let [first, second] = holders;
    first.interrupted().check(0, &["releasing it"]);
    let node = waiter.line();
    assert!(node.starts_with("/limits/downloads/leases/_c_"), "{node}");
    waiter.end().check(7, &[]);
    second.interrupted().check(0, &["releasing it"]);
    assert!(terminal.children(LEASES).is_empty());
}

#[test]
fn a_permit_whose_session_ends_is_lost() {
    let terminal = Terminal::open();
    let holder = terminal.start(&["semaphore", PATH, "-p", "1"]);
    holder.line();
    let node = format!("{LEASES}/{}", terminal.children(LEASES)[0]);
    terminal.server.expire_session(terminal.owner(&node));
    holder.end().check_error(4, &["herdsman: lost", &node]);
}

#[test]
fn a_semaphore_without_permits_is_wrong_usage() {
    let terminal = Terminal::open();
    terminal.run(&["semaphore", PATH, "--permits", "0"]).check_error(2, &["--permits", "zero"]);
    terminal.run(&["semaphore", PATH]).check_error(2, &["required"]);
}
