//! `copy` and `move`.

use herdsman_shell::subtree::copy::{Extent, Moved, move_subtree, survey};
use herdsman_shell::subtree::lifetime::TypeHints;

use super::{client, run_as_ann};
use crate::world::World;

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
fn what_cannot_be_copied_is_refused() {
    let world = small_world();
    for (words, said) in [
        (&["/app", "/copy"][..], "/app has children: use -r"),
        (&["-r", "/none", "/copy"], "Node does not exist: /none"),
        (&["-r", "/app", "/app/a/x"], "/app/a/x is /app itself or below it"),
        (&["-r", "/app", "/app"], "/app is /app itself or below it"),
        (&["-r", "/", "/x"], "/x is / itself or below it"),
        (&["-r", "/app/a", "/app"], "/app exists already; nothing is overwritten"),
        (&["-r", "/app", "/no/where"], "there is no znode /no: create it first"),
    ] {
        assert_eq!(world.run(&[&["copy"], words].concat()).failed(1), said);
    }
    let ran = world.pipe("create -e /app/mine\ncopy -r /app /copy\n");
    assert!(ran.errors.starts_with("/app/mine is ephemeral, it belongs to session 0x"), "{ran:?}");
    run_as_ann(&world, &["create", "/app/x", "y", "auth::cdrwa,world:anyone:r"]).ok();
    let line = world.run(&["copy", "-r", "/app", "/copy"]).failed(1);
    assert!(line.starts_with("the ACL of /app/x is shown only to those"), "{line}");
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
    let survey = survey(&zk, "/big", "/moved", Extent::Subtree).await.unwrap();
    assert_eq!((survey.znodes, survey.bytes), (5, 4 * (100 << 10)));
    let moved = move_subtree(&zk, &survey, &TypeHints::default(), |_| {}).await.unwrap();
    assert_eq!(moved, Moved::InSteps);
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
    let survey = survey(&zk, "/big", "/moved", Extent::Subtree).await.unwrap();
    // The walk has read /big when the first progress is told; the child comes too late for it.
    let mut grown = None;
    let hints = TypeHints::default();
    let moving = move_subtree(&zk, &survey, &hints, |_| {
        grown.get_or_insert_with(|| other.create("/big/late", "mine").send());
    });
    let error = moving.await.unwrap_err().to_string();
    assert!(
        error.starts_with("the copy /moved is whole, but /big was changed meanwhile"),
        "{error}"
    );
    assert_eq!(other.get("/big/late").await.unwrap().data, "mine");
    assert!(zk.exists("/moved/3").await.unwrap().is_some());
}
