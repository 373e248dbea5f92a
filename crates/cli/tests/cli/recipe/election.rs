//! `herdsman recipe election`.

use super::terminal::Terminal;

const PATH: &str = "/leader";

#[test]
fn the_second_candidate_leads_when_the_first_resigns() {
    let terminal = Terminal::open();
    let observer = terminal.start(&["election", PATH, "--observe"]);
    assert_eq!(observer.line(), "no leader");
    let first = terminal.start(&["election", PATH, "--id", "a"]);
    assert_eq!(first.line(), "a is a candidate");
    assert!(first.line().starts_with("a leads with token "));
    let line = observer.line();
    assert!(line.starts_with("a leads with token ") && line.contains("(session 0x"), "{line}");

    let second = terminal.start(&["election", PATH, "--id", "b"]);
    assert_eq!(second.line(), "b is a candidate");
    terminal.wait_for_children(PATH, 2);
    first.interrupted().check(0, &["a has resigned"]);
    assert!(second.line().starts_with("b leads with token "));
    let line = observer.line();
    assert!(line.starts_with("b leads"), "{line}");

    second.interrupted().check(0, &["b has resigned"]);
    assert_eq!(observer.line(), "no leader");
    observer.interrupted().check(0, &[]);
}

#[test]
fn an_interrupted_candidate_leaves_the_election() {
    let terminal = Terminal::open();
    let leader = terminal.start(&["election", PATH, "--id", "a"]);
    leader.line();
    leader.line();
    let candidate = terminal.start(&["election", PATH, "--id", "b"]);
    terminal.wait_for_children(PATH, 2);
    candidate.interrupted().check(130, &["b is a candidate"]);
    assert_eq!(terminal.children(PATH).len(), 1);
}

#[test]
fn a_leader_runs_a_command_and_resigns_after_it() {
    let terminal = Terminal::open();
    let script = "test -n \"$HERDSMAN_FENCING_TOKEN\" && exit 7";
    let ended = terminal.run(&["election", PATH, "--id", "a", "--", "sh", "-c", script]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert_eq!(ended.out[2], "a has resigned");
}

#[test]
fn a_leader_whose_session_ends_has_lost() {
    let terminal = Terminal::open();
    let leader = terminal.start(&["election", PATH]);
    leader.line();
    leader.line();
    let node = format!("{PATH}/{}", terminal.children(PATH)[0]);
    terminal.server.expire_session(terminal.owner(&node));
    leader.end().check_error(4, &["herdsman: leadership lost"]);
}

#[test]
fn an_observer_neither_stands_nor_runs_anything() {
    let terminal = Terminal::open();
    for more in [["--id", "a"], ["--", "true"]] {
        let mut arguments = vec!["election", PATH, "--observe"];
        arguments.extend(more);
        terminal.run(&arguments).check_error(2, &["cannot be used with"]);
    }
}
