//! `copy` and `move`.

use std::time::Duration;

use herdsman_shell::subtree::copy::{Extent, Moved, TargetPolicy, move_subtree, survey};
use herdsman_shell::subtree::lifetime::TypeHints;
use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode, Rule};

use super::{Files, client, run_as_ann, run_aside};
use crate::world::{World, shell};

fn small_world() -> World {
    let world = World::start();
    world.pipe_ok(
        "create /app root\ncreate /app/a 1\ncreate /app/a/b 2\nsetAcl /app/a/b world:anyone:rda\n",
    );
    world
}

#[test]
fn a_subtree_is_copied_with_its_acls() {
    let world = small_world();
    let dry = world.run(&["copy", "-r", "/app", "/copy", "--dry-run"]);
    assert_eq!(dry.ok(), "would copy 3 znodes, 6 B, from /app to /copy\n");
    assert_eq!(world.run(&["ls", "/"]).ok(), "[app, zookeeper]\n");
    assert_eq!(world.run(&["copy", "-r", "/app", "/copy"]).ok(), "copied 3 znodes to /copy\n");
    assert_eq!(world.run(&["diff", "/app", "/copy"]).ok(), "");
    assert_eq!(world.run(&["copy", "/app/a/b", "/app/c"]).ok(), "copied 1 znode to /app/c\n");
}

#[test]
fn impossible_copies_are_rejected() {
    let world = small_world();
    world.pipe_ok("create /other\n");
    for (words, said) in [
        (&["/app", "/copy"][..], "/app has children: use -r"),
        (&["-r", "/none", "/copy"], "Node does not exist: /none"),
        (&["-r", "/app", "/app/a/x"], "/app/a/x is /app itself or below it"),
        (&["-r", "/app", "/app"], "/app is /app itself or below it"),
        (&["-r", "/", "/x"], "/x is / itself or below it"),
        (
            &["-r", "/app/a", "/app"],
            "/app/a is below /app: source and target must not contain each other",
        ),
        (
            &["-r", "/app/a", "/other"],
            "/other already exists; nothing is overwritten (--resume continues an interrupted copy or move)",
        ),
        (&["-r", "/app", "/no/where"], "the parent /no does not exist: create it first"),
    ] {
        assert_eq!(world.run(&[&["copy"], words].concat()).failed(1), said);
    }
    let ran = world.pipe("create -e /app/mine\ncopy -r /app /copy\n");
    assert!(ran.errors.starts_with("/app/mine is ephemeral and belongs to session 0x"), "{ran:?}");
    run_as_ann(&world, &["create", "/app/x", "y", "auth::cdrwa,world:anyone:r"]).ok();
    let line = world.run(&["copy", "-r", "/app", "/copy"]).failed(1);
    assert!(line.starts_with("the ACL of /app/x is shown only to users"), "{line}");
}

#[test]
fn a_small_subtree_moves_at_once() {
    let world = small_world();
    let ran = world.run(&["move", "/app", "/new"]);
    assert_eq!(ran.ok(), "moved 3 znodes to /new, in one transaction\n");
    assert_eq!(
        world.pipe_ok("ls /\nls -R /new\nget /new/a/b\n"),
        "[new, zookeeper]\n/new\n/new/a\n/new/a/b\n2\n"
    );
    let json = world.run(&["--json", "move", "/new/a", "/a"]).ok();
    assert!(json.contains(r#""atomic":true"#) && json.contains(r#""moved":2"#), "{json}");
}

#[tokio::test]
async fn a_large_subtree_moves_in_steps() {
    let world = World::start();
    let zk = client(&world.server).await;
    zk.create("/big", "").await.unwrap();
    let data = vec![b'x'; 100 << 10];
    for number in 0..4 {
        zk.create(&format!("/big/{number}"), data.clone()).await.unwrap();
    }
    let survey = survey(&zk, "/big", "/moved", Extent::Subtree, TargetPolicy::New).await.unwrap();
    assert_eq!((survey.znodes, survey.bytes), (5, 4 * (100 << 10)));
    let moved = move_subtree(&zk, &survey, &TypeHints::default(), |_| {}).await.unwrap();
    assert_eq!(moved, Moved { znodes: 5, is_atomic: false });
    assert!(zk.exists("/big").await.unwrap().is_none());
    assert_eq!(zk.get("/moved/3").await.unwrap().data, data);
}

#[tokio::test]
async fn a_source_that_grows_meanwhile_is_not_lost() {
    let world = World::start();
    let zk = client(&world.server).await;
    let other = client(&world.server).await;
    zk.create("/big", "").await.unwrap();
    for number in 0..4 {
        zk.create(&format!("/big/{number}"), vec![b'x'; 100 << 10]).await.unwrap();
    }
    let survey = survey(&zk, "/big", "/moved", Extent::Subtree, TargetPolicy::New).await.unwrap();
    // The walk has read /big when the first progress is reported; the child is too late for it.
    let mut grown = None;
    let hints = TypeHints::default();
    let moving = move_subtree(&zk, &survey, &hints, |_| {
        grown.get_or_insert_with(|| other.create("/big/late", "mine").send());
    });
    let error = moving.await.unwrap_err().to_string();
    assert!(
        error.starts_with("the copy /moved is complete, but /big was changed meanwhile"),
        "{error}"
    );
    assert_eq!(other.get("/big/late").await.unwrap().data, "mine");
    assert!(zk.exists("/moved/3").await.unwrap().is_some());
}

/// A znode that was deleted and created again has the version that was copied.
#[tokio::test]
async fn a_source_that_was_created_again_is_not_deleted() {
    let world = World::start();
    let zk = client(&world.server).await;
    zk.create("/big", "").await.unwrap();
    for number in 0..4 {
        zk.create(&format!("/big/{number}"), vec![b'x'; 100 << 10]).await.unwrap();
    }
    let survey = survey(&zk, "/big", "/moved", Extent::Subtree, TargetPolicy::New).await.unwrap();
    let hints = TypeHints::default();
    let moving = move_subtree(&zk, &survey, &hints, |so_far| {
        if so_far.read == 5 && so_far.deleted == 0 {
            run_aside(&world, &["delete", "/big/3"]).ok();
            run_aside(&world, &["create", "/big/3", "new"]).ok();
        }
    });
    let error = moving.await.unwrap_err().to_string();
    assert!(error.starts_with("the copy /moved is complete, but /big was changed"), "{error}");
    assert_eq!(zk.get("/big/3").await.unwrap().data, "new");
}

/// The same for a move in one transaction, at each of its transactions.
#[test]
fn a_small_source_that_was_created_again_is_not_deleted() {
    for (skip, path) in [(0, "/app/a/b"), (0, "/app"), (1, "/app/a/b"), (1, "/app")] {
        let world = small_world();
        let proxy = TestProxy::start(world.server.address());
        let rule = Rule::new(Fault::HoldRequest).on(OpCode::Multi).skip(skip);
        let held = proxy.add_rule(rule);
        let servers = proxy.connect_string();
        let ran = std::thread::scope(|scope| {
            let moving = scope.spawn(|| shell(&["-s", &servers, "move", "/app", "/new"], ""));
            assert!(held.wait_fired(Duration::from_secs(30)), "{skip} {path}");
            match path {
                "/app" => world.pipe_ok(
                    "deleteall -y /app\ncreate /app new\ncreate /app/a 1\ncreate /app/a/b new\n",
                ),
                _ => world.pipe_ok("delete /app/a/b\ncreate /app/a/b new\n"),
            };
            held.release();
            moving.join().unwrap()
        });
        let line = ran.failed(1);
        assert!(line.contains("changed") && line.contains("nothing was moved"), "{line}");
        assert_eq!(world.run(&["get", path]).ok(), "new\n", "{skip} {path}");
        assert_eq!(world.run(&["ls", "-R", "/app"]).ok(), "/app\n/app/a\n/app/a/b\n");
        assert_eq!(world.run(&["ls", "/"]).ok(), "[app, zookeeper]\n");
    }
}

/// Data and ACL are read by two requests; the copied pair must have existed at one moment.
#[test]
fn data_is_not_copied_with_the_acl_of_other_data() {
    let world = World::start();
    world.pipe_ok("create /app one world:anyone:cdrwa\n");
    let proxy = TestProxy::start(world.server.address());
    let data = proxy.once(OpCode::GetData, Fault::HoldReply);
    let acl = proxy.once(OpCode::GetAcl, Fault::HoldRequest);
    let servers = proxy.connect_string();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| shell(&["-s", &servers, "copy", "/app", "/new"], ""));
        assert!(data.wait_fired(Duration::from_secs(30)));
        world.pipe_ok("set /app two\nsetAcl /app world:anyone:cra\n");
        acl.release();
        data.release();
        copying.join().unwrap().ok();
    });
    assert_eq!(world.pipe_ok("get /new\ngetAcl /new\n"), "two\n'world,'anyone\n: cra\n");
}

#[test]
fn a_resumed_copy_overwrites_nothing() {
    let world = small_world();
    world.pipe_ok("create /new root\ncreate /new/a other\n");
    let line = world.run(&["copy", "-r", "/app", "/new", "--resume"]).failed(1);
    assert_eq!(
        line,
        "/new/a already exists with other data or another ACL; nothing is overwritten"
    );
    world.run(&["set", "/new/a", "1"]).ok();
    let ran = world.run(&["copy", "-r", "/app", "/new", "--resume"]);
    assert_eq!(ran.ok(), "copied 1 znode to /new\n");
    assert_eq!(world.run(&["diff", "/app", "/new"]).ok(), "");
    let ran = world.run(&["move", "/app", "/new", "--resume"]);
    assert_eq!(ran.ok(), "moved 3 znodes to /new\n");
    let again = world.run(&["move", "/app", "/new", "--resume"]);
    assert_eq!(
        again.failed(1),
        "/app does not exist; nothing was moved (a move that is already complete looks the same)"
    );
    assert_eq!(world.run(&["ls", "-R", "/new"]).ok(), "/new\n/new/a\n/new/a/b\n");
}

/// Without that, a znode that was created again could not be distinguished from the one that was copied.
#[test]
fn a_move_must_be_allowed_to_create_beside_the_source() {
    let world = World::start();
    world.pipe_ok("create /q\n");
    run_as_ann(&world, &["create", "/r", "", "world:anyone:dr,auth::cdrwa"]).ok();
    run_as_ann(&world, &["create", "/r/x", "1"]).ok();
    assert_eq!(
        world.run(&["move", "/r/x", "/q/x"]).failed(1),
        "the ACL of /r does not allow creating children, which a move needs: log in with addauth; \
         nothing was moved"
    );
    run_as_ann(&world, &["move", "/r/x", "/q/x"]).ok();
    assert_eq!(world.run(&["get", "/q/x"]).ok(), "1\n");
}

#[test]
fn a_source_is_not_deleted_when_its_copy_is_gone() {
    let world = World::start();
    let big = "x".repeat(100 << 10);
    world.pipe_ok("create /big root\n");
    for number in 0..3 {
        world.pipe_ok(&format!("create /big/{number} {big}\n"));
    }
    let proxy = TestProxy::start(world.server.address());
    let rule = Rule::new(Fault::HoldRequest).on(OpCode::Multi).path_containing("herdsman-guard");
    let held = proxy.add_rule(rule);
    let servers = proxy.connect_string();
    let ran = std::thread::scope(|scope| {
        let moving = scope.spawn(|| shell(&["-s", &servers, "move", "/big", "/new"], ""));
        assert!(held.wait_fired(Duration::from_secs(30)));
        world.run(&["deleteall", "-y", "/new"]).ok();
        held.release();
        moving.join().unwrap()
    });
    let line = ran.failed(1);
    assert!(line.starts_with("the copy was changed meanwhile: /new"), "{line}");
    assert_eq!(world.run(&["ls", "-R", "/big"]).ok(), "/big\n/big/0\n/big/1\n/big/2\n");
    assert_eq!(world.run(&["move", "/big", "/new", "--resume"]).ok(), "moved 4 znodes to /new\n");
}

/// The assumed copy would be deleted with the source.
#[test]
fn a_source_below_the_target_is_not_resumed() {
    let world = World::start();
    world.pipe_ok("create /a\ncreate /a/b\ncreate /a/b/b\n");
    for words in [
        &["move", "/a/b", "/a", "--resume"][..],
        &["copy", "-r", "/a/b", "/a", "--resume"],
        &["move", "/a/b", "/", "--resume"],
    ] {
        let line = world.run(words).failed(1);
        assert!(line.starts_with("/a/b is below /"), "{line}");
    }
    assert_eq!(world.run(&["ls", "-R", "/a"]).ok(), "/a\n/a/b\n/a/b/b\n");
}

/// The ephemeral ends with its session, and the source would be deleted by then.
#[tokio::test]
async fn an_ephemeral_is_not_taken_for_a_copy() {
    let world = World::start();
    let other = client(&world.server).await;
    other.create("/app", "x").await.unwrap();
    other.create("/new", "x").ephemeral().await.unwrap();
    let line = run_aside(&world, &["move", "/app", "/new", "--resume"]).failed(1);
    assert!(line.starts_with("/new is ephemeral and belongs to session 0x"), "{line}");
    let line = run_aside(&world, &["copy", "/app", "/new", "--resume"]).failed(1);
    assert!(line.starts_with("/new is ephemeral and belongs to session 0x"), "{line}");
    assert_eq!(other.get("/app").await.unwrap().data, "x");
}

/// The copy was compared, or written, and is another znode when the source is to be deleted.
#[tokio::test]
async fn a_copy_that_was_created_again_is_not_taken_for_the_copy() {
    for flags in [&["--resume"][..], &[]] {
        let world = World::start();
        let other = client(&world.server).await;
        // Too large for one transaction.
        let data = vec![b'x'; 300 << 10];
        other.create("/app", data.clone()).await.unwrap();
        if !flags.is_empty() {
            other.create("/new", data.clone()).await.unwrap();
        }
        let proxy = TestProxy::start(world.server.address());
        let rule =
            Rule::new(Fault::HoldRequest).on(OpCode::Multi).path_containing("herdsman-guard");
        let held = proxy.add_rule(rule);
        let servers = proxy.connect_string();
        let moving = tokio::task::spawn_blocking(move || {
            shell(&[&["-s", &servers, "move", "/app", "/new"], flags].concat(), "")
        });
        held.until_fired().await;
        other.delete("/new").await.unwrap();
        other.create("/new", data).ephemeral().await.unwrap();
        held.release();
        let line = moving.await.unwrap().failed(1);
        assert!(line.starts_with("the copy was changed meanwhile: /new"), "{line}");
        assert!(other.exists("/app").await.unwrap().is_some(), "{flags:?}");
    }
}

/// The copy is changed after the last check.
#[tokio::test]
async fn a_source_is_not_deleted_when_its_copy_has_other_data() {
    let world = World::start();
    let other = client(&world.server).await;
    for path in ["/app", "/new"] {
        other.create(path, "x").await.unwrap();
    }
    let proxy = TestProxy::start(world.server.address());
    let rule = Rule::new(Fault::HoldRequest).on(OpCode::Multi).path_containing("herdsman-guard");
    let held = proxy.add_rule(rule.skip(1));
    let servers = proxy.connect_string();
    let moving = tokio::task::spawn_blocking(move || {
        shell(&["-s", &servers, "move", "/app", "/new", "--resume"], "")
    });
    held.until_fired().await;
    other.set("/new", "theirs").await.unwrap();
    held.release();
    let line = moving.await.unwrap().failed(1);
    assert!(line.starts_with("the copy was changed meanwhile: /new;"), "{line}");
    assert_eq!(other.get("/app").await.unwrap().data, "x");
}

/// The counter of a new parent begins at 0, and `create -s` fails when it reaches a number that was copied.
#[test]
fn numbers_that_a_counter_has_not_reached_are_a_warning() {
    let world = World::start();
    world.pipe_ok("create /q\ncreate -s /q/job-\ncreate -s /q/job-\ncreate -s /q/job-\n");
    world.run(&["copy", "-r", "/q", "/all"]).ok();
    world.run(&["delete", "/q/job-0000000000"]).ok();
    let warning = |parent: &str| {
        format!(
            "{parent} has a child with the number 2, but its next sequential child will get 2: \
             create -s may fail with \"Node already exists\"\n"
        )
    };
    let copied = world.run(&["copy", "-r", "/q", "/some"]);
    assert_eq!((copied.code, copied.errors), (0, warning("/some")));
    assert!(world.run(&["create", "-s", "/some/job-"]).failed(1).contains("already exists"));
    let files = Files::new();
    let file = files.word("q.jsonl");
    assert_eq!(world.run(&["export", "/q", "-o", &file]).code, 0);
    let imported = world.run(&["import", &file, "/imported"]);
    assert_eq!((imported.code, imported.errors), (0, warning("/imported")));
    let moved = world.run(&["move", "/q", "/moved"]);
    assert_eq!((moved.code, moved.errors), (0, warning("/moved")));
}

/// The names of the markers below a znode.
fn markers(world: &World, path: &str) -> Vec<String> {
    let all = world.run(&["ls", "-R", path]).ok();
    all.lines().filter(|line| line.contains("herdsman-guard")).map(str::to_owned).collect()
}

/// Other clients used to be blamed, and ten markers were left.
#[test]
fn a_move_must_be_allowed_to_delete_beside_the_source() {
    let world = World::start();
    world.pipe_ok("create /q\n");
    run_as_ann(&world, &["create", "/r", "", "world:anyone:cr,auth::cdrwa"]).ok();
    run_as_ann(&world, &["create", "/r/x", "1"]).ok();
    let ran = world.pipe("move /r/x /q/x\n");
    assert_eq!(
        ran.failed(1),
        "the ACL of /r does not allow deleting children, which a move needs: log in with addauth; \
         nothing was moved"
    );
    assert_eq!(markers(&world, "/r"), Vec::<String>::new());
}

/// Runs a move until a request of this kind is held, drops it as Ctrl-C does at the prompt, and lets the request go.
async fn dropped_move(world: &World, op: OpCode) -> herdsman_client::Client {
    let zk = client(&world.server).await;
    zk.create("/app", "").await.unwrap();
    zk.create("/app/a", "").await.unwrap();
    let proxy = TestProxy::start(world.server.address());
    let mover = herdsman_client::Client::connect(&proxy.connect_string()).await.unwrap();
    let found = survey(&mover, "/app", "/new", Extent::Subtree, TargetPolicy::New).await.unwrap();
    let held = proxy.once(op, Fault::HoldRequest);
    let hints = TypeHints::default();
    tokio::select! {
        moved = move_subtree(&mover, &found, &hints, |_| {}) => panic!("{moved:?}"),
        () = held.until_fired() => {}
    }
    held.release();
    mover.sync("/").await.unwrap();
    // The proxy must stay as long as the client.
    std::mem::forget(proxy);
    mover
}

async fn resume(mover: &herdsman_client::Client) -> Moved {
    let resume = TargetPolicy::Resume;
    let found = survey(mover, "/app", "/new", Extent::Subtree, resume).await.unwrap();
    assert_eq!(found.znodes, 2);
    move_subtree(mover, &found, &TypeHints::default(), |_| {}).await.unwrap()
}

/// They used to stay until the session ended, and the next move took them for ephemerals of other sessions.
#[tokio::test]
async fn a_move_that_is_dropped_removes_its_markers() {
    let world = World::start();
    let mover = dropped_move(&world, OpCode::Exists).await;
    assert_eq!(mover.children("/app").await.unwrap().names, ["a"]);
    assert_eq!(resume(&mover).await.znodes, 2);
}

/// The reply with their names had not arrived when the move was dropped.
#[tokio::test]
async fn markers_of_a_dropped_move_are_known_to_the_same_session_and_to_others() {
    let world = World::start();
    let mover = dropped_move(&world, OpCode::Multi).await;
    assert_eq!(mover.children("/app").await.unwrap().names.len(), 2);
    let line = run_aside(&world, &["move", "/app", "/new"]).failed(1);
    assert!(line.contains("belongs to a move by session 0x"), "{line}");
    assert!(line.contains("wait until that session has ended"), "{line}");
    assert_eq!(resume(&mover).await.znodes, 2);
    assert!(mover.exists("/app").await.unwrap().is_none());
}
