//! `herdsman recipe barrier`.

use super::terminal::Terminal;

const PATH: &str = "/barrier";

#[test]
fn waiting_ends_when_the_barrier_opens() {
    let terminal = Terminal::open();
    terminal.run(&["barrier", "wait", PATH]).check(0, &["/barrier is open"]);
    terminal.run(&["barrier", "close", PATH]).check(0, &["closed /barrier"]);
    terminal
        .run(&["barrier", "wait", PATH, "--timeout", "0.01"])
        .check_error(3, &["herdsman: timed out waiting at the barrier"]);
    let waiting = terminal.start(&["barrier", "wait", PATH]);
    terminal.run(&["barrier", "open", PATH]).check(0, &["opened /barrier"]);
    waiting.end().check(0, &["/barrier is open"]);
}

#[test]
fn members_begin_and_end_together() {
    let terminal = Terminal::open();
    let member = |code: &str| {
        let arguments = ["barrier", "together", PATH, "-c", "2", "--", "sh", "-c", code];
        let member = terminal.start(&arguments);
        assert_eq!(member.line(), "waiting for 2 participants at /barrier");
        member
    };
    let members = [member("echo one; exit 7"), member("echo two")];
    let [one, two] = members.map(super::terminal::Running::end);
    one.check(7, &["all have entered", "one", "all have left"]);
    two.check(0, &["all have entered", "two", "all have left"]);
}

#[test]
fn a_member_that_gives_up_does_not_count() {
    let terminal = Terminal::open();
    let together = ["barrier", "together", PATH, "--count", "2"];
    let mut hurried = together.to_vec();
    hurried.extend(["--timeout", "0.01"]);
    terminal.run(&hurried).check(3, &["waiting for 2 participants at /barrier"]);
    let lonely = terminal.start(&together);
    lonely.line();
    terminal.wait_for_children(PATH, 1);
    lonely.interrupted().check(130, &[]);
    assert!(terminal.children(PATH).is_empty());
}

#[test]
fn an_interrupted_member_does_not_wait_for_the_others() {
    let terminal = Terminal::open();
    let busy = "echo busy; while :; do sleep 0.05; done";
    let member = || {
        let arguments = ["barrier", "together", PATH, "-c", "2", "--", "sh", "-c", busy];
        terminal.start_apart(&arguments)
    };
    let (first, second) = (member(), member());
    for member in [&first, &second] {
        assert_eq!([(); 3].map(|()| member.line())[2], "busy");
    }
    // 128 + SIGTERM, which the command got.
    first.interrupted().check(143, &[]);
    second.interrupted().check(143, &[]);
}

#[test]
fn a_barrier_without_members_is_wrong_usage() {
    let terminal = Terminal::open();
    terminal
        .run(&["barrier", "together", PATH, "--count", "0"])
        .check_error(2, &["'0'", "--count", "not in 1.."]);
    terminal.run(&["barrier", "together", PATH]).check_error(2, &["required"]);
}
