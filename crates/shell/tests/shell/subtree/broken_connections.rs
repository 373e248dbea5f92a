//! The guarantee of the commands that write: whichever request or reply is lost, nothing else is lost, their
//! messages are true, and the same command again finishes the work.

use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode, Rule};

use super::{Files, run_as_ann};
use crate::world::{Ran, World, shell};

const FAULTS: [Fault; 2] = [Fault::CutBeforeRequest, Fault::CutBeforeReply];

/// Requests that change something; the client itself repeats reads.
const WRITES: [OpCode; 6] = [
    OpCode::Create2,
    OpCode::Delete,
    OpCode::SetData,
    OpCode::SetAcl,
    OpCode::Multi,
    OpCode::CreateContainer,
];

/// Runs `command` once for each of its writes, with that request or its reply lost. Both get the number
/// of the run.
fn sweep(world: &World, command: impl Fn(&str, usize) -> Ran, check: impl Fn(Ran, usize)) {
    let mut run = 0;
    for fault in FAULTS {
        for skip in 0.. {
            let proxy = TestProxy::start(world.server.address());
            let rule = WRITES.iter().fold(Rule::new(fault).skip(skip), |rule, op| rule.on(*op));
            let lost = proxy.add_rule(rule);
            let ran = command(&proxy.connect_string(), run);
            check(ran, run);
            run += 1;
            if lost.fired() == 0 {
                assert!(skip > 1, "it writes nothing");
                break;
            }
        }
    }
}

/// A tree to compare with, and a copy of it for each run.
fn world_with_reference(large: bool) -> (World, impl Fn(&World, &str)) {
    let world = World::start();
    let big = "x".repeat(if large { 100 << 10 } else { 10 });
    let lines = move |root: &str| {
        let mut lines = format!("create {root} root\n");
        for child in ["a", "b", "c"] {
            lines += &format!("create {root}/{child} {child}{big}\n");
        }
        lines
            + &format!(
                "create {root}/a/d 1\ncreate {root}/a/d/e 2\nsetAcl {root}/b world:anyone:rda\n"
            )
    };
    world.pipe_ok(&lines("/ref"));
    (world, move |world, root| _ = world.pipe_ok(&lines(root)))
}

#[track_caller]
fn assert_equal(world: &World, left: &str, right: &str) {
    assert_eq!(world.run(&["diff", left, right]).ok(), "", "{left} {right}");
}

/// Every znode of the reference exists at the source or at the target.
#[track_caller]
fn assert_nothing_lost(world: &World, source: &str, target: &str) {
    for path in ["", "/a", "/a/d", "/a/d/e", "/b", "/c"] {
        let expected = world.run(&["get", &format!("/ref{path}")]).ok();
        let there = [source, target].map(|root| world.run(&["get", &format!("{root}{path}")]));
        assert!(there.iter().any(|ran| ran.code == 0 && ran.out == expected), "{path}: {there:?}");
    }
}

fn check_moves(large: bool) {
    let (world, plant) = world_with_reference(large);
    let places = |run: usize| (format!("/from{run}"), format!("/to{run}"));
    let command = |servers: &str, run: usize| {
        let (source, target) = places(run);
        plant(&world, &source);
        shell(&["-s", servers, "move", &source, &target], "")
    };
    sweep(&world, command, |ran, run| {
        let (source, target) = places(run);
        assert_nothing_lost(&world, &source, &target);
        if ran.code == 0 {
            assert!(ran.out.starts_with("moved 6 znodes"), "{ran:?}");
        } else {
            let line = ran.failed(1);
            if line.contains("nothing was moved") {
                assert_equal(&world, "/ref", &source);
                assert_eq!(world.run(&["stat", &target]).code, 1, "{line}");
            }
            if line.contains("is complete") {
                assert_equal(&world, "/ref", &target);
            }
            let again = world.run(&["move", &source, &target, "--resume"]);
            let is_complete = line.contains("it is not known whether") || line.contains("may be");
            match again.code {
                0 => assert!(again.out.starts_with("moved "), "{line}: {again:?}"),
                _ => assert!(
                    is_complete && again.errors.contains("already complete"),
                    "{line}: {again:?}"
                ),
            }
        }
        assert_eq!(world.run(&["stat", &source]).code, 1);
        assert_equal(&world, "/ref", &target);
    });
}

#[test]
fn a_move_in_one_transaction_loses_nothing() {
    check_moves(false);
}

#[test]
fn a_move_in_steps_loses_nothing() {
    check_moves(true);
}

#[test]
fn a_copy_is_complete_or_resumed() {
    let (world, _) = world_with_reference(true);
    let command = |servers: &str, run: usize| {
        shell(&["-s", servers, "copy", "-r", "/ref", &format!("/to{run}")], "")
    };
    sweep(&world, command, |ran, run| {
        let target = format!("/to{run}");
        if ran.code == 0 {
            assert_eq!(ran.out, format!("copied 6 znodes to {target}\n"));
        } else {
            let line = ran.failed(1);
            assert!(line.starts_with("stopped at /to"), "{line}");
            let again = world.run(&["copy", "-r", "/ref", &target, "--resume"]);
            assert_eq!(again.code, 0, "{line}: {again:?}");
        }
        assert_equal(&world, "/ref", &target);
    });
}

#[test]
fn an_import_is_complete_or_repeated() {
    let (world, _) = world_with_reference(true);
    let files = Files::new();
    let file = files.word("ref.jsonl");
    assert_eq!(world.run(&["export", "/ref", "-o", &file]).code, 0);
    let command = |servers: &str, run: usize| {
        shell(&["-s", servers, "import", &file, &format!("/made/to{run}")], "")
    };
    sweep(&world, command, |ran, run| {
        let target = format!("/made/to{run}");
        if ran.code != 0 {
            let line = ran.failed(1);
            assert!(line.starts_with("stopped at /made"), "{line}");
            world.run(&["import", &file, &target]).ok();
        }
        assert_equal(&world, "/ref", &target);
    });
}

/// Neither the new data under the old ACL nor the old data under the new one can be read.
#[test]
fn data_is_never_under_an_acl_that_is_not_its_own() {
    let world = World::start();
    let files = Files::new();
    let ann = "auth::cdrwa";
    run_as_ann(&world, &["create", "/ref", "secret", ann]).ok();
    let file = files.word("secret.jsonl");
    assert_eq!(run_as_ann(&world, &["export", "/ref", "-o", &file]).code, 0);
    let command = |servers: &str, run: usize| {
        let path = format!("/to{run}");
        world.run(&["create", &path, "public"]).ok();
        let login = ["-s", servers, "--auth", "digest:ann:secret"];
        shell(&[&login[..], &["import", &file, &path, "--overwrite"]].concat(), "")
    };
    sweep(&world, command, |ran, run| {
        let path = format!("/to{run}");
        let seen = world.run(&["get", &path]);
        assert_ne!(seen.out, "secret\n", "{ran:?}");
        if ran.code == 0 {
            assert_eq!(ran.out, format!("{path}: created 0, updated 1, 0 equal\n"));
        } else {
            let line = ran.failed(1);
            assert!(seen.code == 0 || line.contains("no client to read it"), "{line}");
            let again = run_as_ann(&world, &["import", &file, &path, "--overwrite"]);
            assert_eq!(again.code, 0, "{line}: {again:?}");
        }
        assert_eq!(run_as_ann(&world, &["get", &path]).ok(), "secret\n");
        assert_eq!(world.run(&["get", &path]).code, 1, "other users cannot read it");
    });
}

#[test]
fn a_deletion_reports_its_progress_and_can_be_repeated() {
    let (world, plant) = world_with_reference(false);
    let command = |servers: &str, run: usize| {
        let path = format!("/old{run}");
        plant(&world, &path);
        shell(&["-s", servers, "deleteall", "-b", "2", &path], "")
    };
    sweep(&world, command, |ran, run| {
        let path = format!("/old{run}");
        if ran.code != 0 {
            let line = ran.failed(1);
            let left = world.run(&["ls", "-R", &path]).out.lines().count();
            let said = line.rsplit_once("; ").and_then(|(_, said)| said.split(' ').next());
            let deleted: usize = said.map_or(0, |count| count.parse().unwrap());
            assert!(line.contains("may have been applied"), "{line}");
            assert!((4..=6).contains(&(left + deleted)), "{line}: {left} left");
            let again = world.run(&["deleteall", &path]);
            assert!(again.code == 0 || again.errors.contains("does not exist"), "{again:?}");
        }
        assert_eq!(world.run(&["stat", &path]).code, 1);
    });
}
