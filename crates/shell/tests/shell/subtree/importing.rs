//! `import`: conflicts, and invalid files.

use std::time::Duration;

use herdsman_shell::subtree::SubtreeError;
use herdsman_shell::subtree::apply;
use herdsman_shell::subtree::file::{Completeness, ExportFile};
use herdsman_shell::subtree::import::{Existing, ImportOptions, plan};
use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode, Rule};

use super::{Files, client, run_as_ann};
use crate::world::{World, shell};

const HEADER: &str =
    r#"{"format":"herdsman-subtree","version":1,"root":"/app","zxid":"0x0","time":"now"}"#;

/// An export of `/app` with these lines.
fn export_of(lines: &[&str]) -> String {
    let end = format!("{{\"end\":true,\"znodes\":{},\"zxid\":\"0x0\"}}", lines.len());
    [&[HEADER], lines, &[end.as_str(), ""]].concat().join("\n")
}

fn three_znodes() -> String {
    export_of(&[
        r#"{"path":".","data":"root"}"#,
        r#"{"path":"a","data":"new"}"#,
        r#"{"path":"b","data":"b"}"#,
    ])
}

fn world_with_other_data() -> World {
    let world = World::start();
    world.pipe_ok("create /app root\ncreate /app/a old\ncreate /app/other\n");
    world
}

#[test]
fn a_conflict_stops_it_before_anything_is_changed() {
    let world = world_with_other_data();
    let files = Files::new();
    let file = files.write("app.jsonl", &three_znodes());
    let ran = world.run(&["import", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(
        ran.errors,
        "line 3: /app/a exists and differs in data\n1 conflict with existing znodes, first /app/a; nothing was \
         changed (use --overwrite or --skip-existing)\n"
    );
    assert_eq!(world.run(&["ls", "/app"]).ok(), "[a, other]\n");
}

#[test]
fn a_dry_run_says_what_would_happen() {
    let world = world_with_other_data();
    let files = Files::new();
    let file = files.write("app.jsonl", &three_znodes());
    let check = |flags: &[&str], code: u8, out: &str| {
        let ran = world.run(&[&["import", &file, "--dry-run"], flags].concat());
        assert_eq!((ran.code, ran.out.as_str()), (code, out), "{flags:?}: {}", ran.errors);
    };
    // The import itself would fail, too.
    check(
        &[],
        1,
        "/app: would create 1, would update 0, 1 equal, 1 in conflict: the import would stop and \
         change nothing\n",
    );
    check(&["--overwrite"], 0, "/app: would create 1, would update 1, 1 equal\n");
    check(
        &["--skip-existing"],
        0,
        "/app: would create 1, would update 0, 1 equal, 1 different or unreadable and skipped\n",
    );
    let json = world.run(&["--json", "import", "-n", &file, "/x/y"]).ok();
    assert!(json.contains(r#""create":4"#) && json.contains(r#""dry_run":true"#), "{json}");
    assert_eq!(world.run(&["ls", "-R", "/app"]).ok(), "/app\n/app/a\n/app/other\n");
}

#[test]
fn existing_znodes_are_changed_or_skipped() {
    let files = Files::new();
    let file = files.write("app.jsonl", &three_znodes());
    let world = world_with_other_data();
    let ran = world.run(&["import", &file, "--skip-existing"]);
    assert_eq!(
        ran.ok(),
        "/app: created 1, updated 0, 1 equal, 1 different or unreadable and skipped\n"
    );
    assert_eq!(world.pipe_ok("get /app/a\nget /app/b\n"), "old\nb\n");
    let ran = world.run(&["import", &file, "--overwrite"]);
    assert_eq!(ran.ok(), "/app: created 0, updated 1, 2 equal\n");
    assert_eq!(world.pipe_ok("get /app/a\nls /app\n"), "new\n[a, b, other]\n");
    let both = world.run(&["import", &file, "--overwrite", "--skip-existing"]);
    assert!(both.failed(2).contains("cannot be used with"));
}

#[test]
fn acls_are_compared_and_replaced() {
    let files = Files::new();
    let acl = r#""acl":[{"scheme":"world","id":"anyone","perms":"ra"}]"#;
    let line = format!(r#"{{"path":".","data":"root",{acl}}}"#);
    let file = files.write("app.jsonl", &export_of(&[&line]));
    let world = World::start();
    world.pipe_ok("create /app root\n");
    let ran = world.run(&["import", &file]);
    assert!(ran.errors.starts_with("line 2: /app exists and differs in acl\n"), "{}", ran.errors);
    assert_eq!(
        world.run(&["import", &file, "--acl", "open"]).ok(),
        "/app: created 0, updated 0, 1 equal\n"
    );
    world.run(&["import", &file, "--overwrite"]).ok();
    assert_eq!(world.run(&["getAcl", "/app"]).ok(), "'world,'anyone\n: ra\n");
}

/// Znodes that the importer may not read used to make the same import fail when repeated.
#[test]
fn unreadable_znodes_are_skipped_as_existing() {
    let files = Files::new();
    let acl = r#""acl":[{"scheme":"digest","id":"bob:hash","perms":"cdrwa"}]"#;
    let secret = format!(r#"{{"path":"a","data":"secret",{acl}}}"#);
    let lines = [r#"{"path":"."}"#, &secret, r#"{"path":"b"}"#];
    let file = files.write("app.jsonl", &export_of(&lines));
    let world = World::start();
    world.run(&["import", &file]).ok();
    world.run(&["delete", "/app/b"]).ok();
    assert_eq!(
        world.run(&["import", &file]).failed(1),
        "/app/a exists but may not be read, so it cannot be compared: log in with addauth, or use \
         --skip-existing; nothing was changed"
    );
    assert_eq!(
        world.run(&["import", &file, "--skip-existing"]).ok(),
        "/app: created 1, updated 0, 1 equal, 1 different or unreadable and skipped\n"
    );
}

#[test]
fn ephemerals_are_skipped_or_made_persistent() {
    let files = Files::new();
    let lines = [r#"{"path":"."}"#, r#"{"path":"e","data":"x","type":"ephemeral"}"#];
    let file = files.write("app.jsonl", &export_of(&lines));
    let world = World::start();
    let ran = world.run(&["import", &file]);
    assert_eq!(ran.ok(), "/app: created 1, updated 0, 0 equal, 1 ephemerals skipped\n");
    let ran = world.run(&["import", &file, "--ephemerals", "as-persistent"]);
    assert_eq!(ran.ok(), "/app: created 1, updated 0, 1 equal\n");
    assert_eq!(world.run(&["get", "/app/e"]).ok(), "x\n");
}

#[test]
fn an_existing_ephemeral_is_never_overwritten() {
    let world = World::start();
    let files = Files::new();
    let file = files.write("app.jsonl", &export_of(&[r#"{"path":"."}"#]));
    let ran = world.pipe(&format!("create -e /app\nimport {file} --overwrite\n"));
    assert_eq!(ran.code, 1);
    assert!(ran.errors.starts_with("line 2: /app exists and differs in type\n"), "{}", ran.errors);
}

#[test]
fn garbage_is_reported_in_one_line_and_changes_nothing() {
    let world = World::start();
    let files = Files::new();
    let whole = three_znodes();
    for (name, text, said) in [
        ("empty", String::new(), "line 1: not an export file"),
        ("garbage", "\0\u{1}garbage\n".to_owned(), "line 1: not an export file"),
        ("other", "{\"path\":\"a\"}\n".to_owned(), "line 1: not an export file"),
        ("broken", whole.replace(r#""data":"new""#, r#""data":"#), "line 3: expected value"),
        ("cut", whole[..whole.len() - 60].to_owned(), "line 4: EOF while parsing"),
        (
            "short",
            whole.replace("{\"path\":\"b\",\"data\":\"b\"}\n", ""),
            "line 4: the last line counts 3",
        ),
        ("orphan", whole.replace("\"path\":\"a\"", "\"path\":\"x/a\""), "line 3: x/a comes before"),
        ("version", whole.replace("\"version\":1", "\"version\":9"), "line 1: version 9"),
    ] {
        let file = files.write(name, &text);
        let line = world.run(&["import", &file]).failed(1);
        let expected = format!("{file}, {said}");
        assert!(line.starts_with(&expected), "{line:?} should begin with {expected:?}");
    }
    let missing = files.word("missing");
    assert!(world.run(&["import", &missing]).failed(1).starts_with(&missing));
    assert_eq!(world.run(&["import", "x", "no/path"]).code, 1);
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
    let short = files.word("short");
    world.run(&["import", &short, "--partial"]).ok();
    assert_eq!(world.run(&["ls", "/app"]).ok(), "[a]\n");
}

#[test]
fn standard_input_is_for_files_or_for_commands() {
    let world = World::start();
    let servers = world.server.connect_string();
    let ran = shell(&["-s", &servers, "import"], &three_znodes());
    assert_eq!(ran.ok(), "/app: created 3, updated 0, 0 equal\n");
    let line = world.pipe("import -\n").failed(1);
    assert!(line.starts_with("standard input is used for commands"), "{line}");
}

#[test]
fn a_rejected_write_stops_the_import_and_is_named() {
    let world = World::start();
    let files = Files::new();
    let file = files.write("app.jsonl", &three_znodes());
    run_as_ann(&world, &["create", "/app", "root", "auth::cdrwa,world:anyone:r"]).ok();
    let line = world.run(&["import", &file, "--acl", "open"]).failed(1);
    assert_eq!(
        line,
        "stopped at /app/a: not allowed by the ACL: log in with addauth; 0 znodes were written \
         before that"
    );
}

/// Other clients may write between the plan and its execution.
#[tokio::test]
async fn a_znode_that_appears_after_the_plan_stops_it() {
    let world = World::start();
    let zk = client(&world.server).await;
    let file = ExportFile::spool("file", three_znodes().as_bytes()).unwrap();
    let outline = file.check(Completeness::Required).await.unwrap();
    let options = ImportOptions::default();
    let planned = plan(&zk, &file, &outline, "/app", options).await.unwrap();
    assert_eq!(planned.counts.create, 3);
    zk.create("/app", "theirs").await.unwrap();
    let error = apply::import(&zk, &file, &planned, options, |_| {}).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "stopped at /app: the znode exists already; 0 znodes were written before that"
    );
    assert_eq!(zk.children("/app").await.unwrap().names, [""; 0]);
}

#[tokio::test]
async fn a_change_after_the_plan_is_not_overwritten() {
    let world = World::start();
    let zk = client(&world.server).await;
    let file = ExportFile::spool("file", three_znodes().as_bytes()).unwrap();
    let outline = file.check(Completeness::Required).await.unwrap();
    let options = ImportOptions { existing: Existing::Overwrite, ..ImportOptions::default() };
    zk.create("/app", "root").await.unwrap();
    zk.create("/app/a", "old").await.unwrap();
    let planned = plan(&zk, &file, &outline, "/app", options).await.unwrap();
    assert_eq!((planned.counts.create, planned.counts.update), (1, 1));
    zk.set("/app/a", "theirs").await.unwrap();
    let error = apply::import(&zk, &file, &planned, options, |_| {}).await.unwrap_err();
    assert!(matches!(&error, SubtreeError::Stopped { path, .. } if path == "/app/a"), "{error}");
    assert_eq!(zk.get("/app/a").await.unwrap().data, "theirs");
    assert!(zk.exists("/app/b").await.unwrap().is_none(), "it was in the same transaction");
}

/// The largest znode that servers accept leaves no room for another one in a transaction.
#[tokio::test]
async fn the_largest_znode_is_restored() {
    let world = World::start();
    let zk = client(&world.server).await;
    // What a single request has besides the data: header, path, ACL, flags.
    let data = vec![b'x'; (1 << 20) - 1 - 51];
    zk.create("/app", data.clone()).await.unwrap();
    let line = format!(r#"{{"path":".","data":"{}"}}"#, String::from_utf8(data).unwrap());
    let file = ExportFile::spool("file", export_of(&[&line]).as_bytes()).unwrap();
    let outline = file.check(Completeness::Required).await.unwrap();
    let options = ImportOptions::default();
    let planned = plan(&zk, &file, &outline, "/bpp", options).await.unwrap();
    apply::import(&zk, &file, &planned, options, |_| {}).await.unwrap();
    assert_eq!(zk.get("/bpp").await.unwrap().data, zk.get("/app").await.unwrap().data);
}

/// An export of `/app` with other data and this ACL.
fn secret_with_acl(acl: &str) -> String {
    export_of(&[&format!(r#"{{"path":".","data":"secret","acl":[{acl}]}}"#)])
}

/// The ACL of the file is rejected: the data it protects must not be written without it.
#[test]
fn data_is_never_written_without_its_acl() {
    let world = World::start();
    let files = Files::new();
    world.pipe_ok("create /app public\n");
    let acl = r#"{"scheme":"digest","id":"no-digest","perms":"cdrwa"}"#;
    let file = files.write("app.jsonl", &secret_with_acl(acl));
    let line = world.run(&["import", &file, "--overwrite"]).failed(1);
    assert!(
        line.starts_with("stopped at /app") && line.contains("0 znodes were written"),
        "{line}"
    );
    assert_eq!(world.pipe_ok("get /app\ngetAcl /app\n"), "public\n'world,'anyone\n: cdrwa\n");
}

/// A znode that was deleted and created again has the version in the plan.
#[tokio::test]
async fn a_znode_that_was_created_again_after_the_plan_is_not_overwritten() {
    let world = World::start();
    let zk = client(&world.server).await;
    let file = ExportFile::spool("file", three_znodes().as_bytes()).unwrap();
    let outline = file.check(Completeness::Required).await.unwrap();
    let options = ImportOptions { existing: Existing::Overwrite, ..ImportOptions::default() };
    zk.create("/app", "root").await.unwrap();
    zk.create("/app/a", "old").await.unwrap();
    let planned = plan(&zk, &file, &outline, "/app", options).await.unwrap();
    zk.delete("/app/a").await.unwrap();
    zk.create("/app/a", "theirs").await.unwrap();
    let error = apply::import(&zk, &file, &planned, options, |_| {}).await.unwrap_err();
    assert!(matches!(&error, SubtreeError::Stopped { path, .. } if path == "/app/a"), "{error}");
    assert_eq!(zk.get("/app/a").await.unwrap().data, "theirs");
}

/// Files that no export has written.
#[test]
fn hostile_files_are_refused_before_anything_is_changed() {
    let world = World::start();
    let files = Files::new();
    let deep = format!(r#"{{"path":"{}"}}"#, vec!["d"; 10_000].join("/"));
    let nested = format!(r#"{{"path":"a","acl":{}}}"#, "[".repeat(100_000));
    for (name, line, expected) in [
        ("up", r#"{"path":"../x"}"#, "not a relative path"),
        ("inside", r#"{"path":"a/../../x"}"#, "not a relative path"),
        ("absolute", r#"{"path":"/etc"}"#, "not a relative path"),
        ("control", r#"{"path":"a\u0000b"}"#, "not a relative path"),
        ("empty", r#"{"path":""}"#, "not a relative path"),
        ("twice", r#"{"path":"."}"#, ". is already in line 2"),
        ("below", r#"{"path":"e/x"}"#, "e/x is below e, which is ephemeral"),
        ("deep", &deep, "comes before its parent"),
        ("nested", &nested, ""),
        ("keys", r#"{"path":"a","path":"b"}"#, "duplicate field"),
        ("closed", r#"{"path":"a","acl":[]}"#, "the acl is empty"),
    ] {
        let lines = [r#"{"path":"."}"#, r#"{"path":"e","type":"ephemeral"}"#, line];
        let file = files.write(name, &export_of(&lines));
        let error = world.run(&["import", &file]).failed(1);
        assert!(error.starts_with(&format!("{file}, line 4: ")), "{name}: {error:.200}");
        assert!(error.contains(expected), "{name}: {error:.200}");
    }
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
}

#[test]
fn a_target_below_an_ephemeral_is_refused() {
    let world = World::start();
    let files = Files::new();
    let file = files.write("app.jsonl", &three_znodes());
    let ran = world.pipe(&format!("create -e /mine\nimport {file} /mine/app\n"));
    assert_eq!(ran.code, 1);
    assert!(ran.errors.contains("0 znodes were written before that"), "{ran:?}");
}

/// A thousand levels: nothing is recursive.
#[test]
fn a_deep_tree_is_imported_exported_and_deleted() {
    let world = World::start();
    let files = Files::new();
    let mut lines = vec![r#"{"path":"."}"#.to_owned()];
    let mut path = String::from("d");
    for _ in 0..1_000 {
        lines.push(format!(r#"{{"path":"{path}"}}"#));
        path += "/d";
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let file = files.write("deep.jsonl", &export_of(&lines));
    assert_eq!(world.run(&["import", &file]).ok(), "/app: created 1001, updated 0, 0 equal\n");
    assert_eq!(world.run(&["move", "/app", "/new"]).ok(), "moved 1001 znodes to /new\n");
    assert!(world.run(&["export", "/new"]).errors.starts_with("exported 1001 znodes"));
    world.run(&["deleteall", "/new"]).ok();
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
}

/// The plan is about the n-th record; another record in its place was never checked.
#[tokio::test]
async fn a_file_that_is_written_meanwhile_is_refused() {
    let world = World::start();
    let zk = client(&world.server).await;
    let files = Files::new();
    files.write("app.jsonl", &three_znodes());
    let file = ExportFile::open(&files.path("app.jsonl")).unwrap();
    let outline = file.check(Completeness::Required).await.unwrap();
    let options = ImportOptions::default();
    let planned = plan(&zk, &file, &outline, "/app", options).await.unwrap();
    files.write("app.jsonl", &three_znodes().replace(r#""data":"new""#, r#""data":"evil""#));
    let error = apply::import(&zk, &file, &planned, options, |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the file was changed while it was imported");
    assert!(zk.exists("/app").await.unwrap().is_none());
}

/// No request compares more than the version; a write to another znode is reported.
#[test]
fn a_znode_that_is_created_again_in_the_last_moment_is_reported() {
    let world = World::start();
    let files = Files::new();
    let file = files.write("app.jsonl", &export_of(&[r#"{"path":".","data":"new"}"#]));
    world.pipe_ok("create /app old\n");
    let proxy = TestProxy::start(world.server.address());
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    let servers = proxy.connect_string();
    let ran = std::thread::scope(|scope| {
        let words = ["-s", &servers, "import", &file, "--overwrite"];
        let importing = scope.spawn(move || shell(&words, ""));
        assert!(held.wait_fired(Duration::from_secs(30)));
        world.pipe_ok("delete /app\ncreate /app theirs\n");
        held.release();
        importing.join().unwrap()
    });
    let line = ran.failed(1);
    assert!(line.starts_with("/app was deleted and created again while"), "{line}");
}

/// Replaces data and ACL of `/app`, as ann; when the `op` is sent, `meanwhile` runs.
fn replace_while(op: OpCode, skip: usize, meanwhile: impl FnOnce(&World)) -> (World, String) {
    let world = World::start();
    let files = Files::new();
    let file = files.word("secret.jsonl");
    run_as_ann(&world, &["create", "/ref", "secret", "auth::cdrwa"]).ok();
    assert_eq!(run_as_ann(&world, &["export", "/ref", "-o", &file]).code, 0);
    world.pipe_ok("create /app public\n");
    let proxy = TestProxy::start(world.server.address());
    let held = proxy.add_rule(Rule::new(Fault::HoldRequest).on(op).skip(skip));
    let servers = proxy.connect_string();
    let ran = std::thread::scope(|scope| {
        let login = ["-s", &servers, "--auth", "digest:ann:secret"];
        let words = [&login[..], &["import", &file, "/app", "--overwrite"]].concat();
        let importing = scope.spawn(move || shell(&words, ""));
        assert!(held.wait_fired(Duration::from_secs(30)));
        meanwhile(&world);
        held.release();
        importing.join().unwrap()
    });
    let line = ran.failed(1);
    (world, line)
}

/// It used to say that no client could read it.
#[test]
fn secret_data_in_a_znode_that_was_created_again_is_reported() {
    let (world, line) = replace_while(OpCode::SetData, 0, |world| {
        world.pipe_ok("delete /app\ncreate /app theirs\n");
    });
    assert_eq!(world.run(&["get", "/app"]).ok(), "secret\n");
    assert!(line.contains("has the data of the file under its own ACL"), "{line}");
    assert!(!line.contains("no client to read"), "{line}");
}

#[test]
fn a_znode_that_was_left_between_two_steps_is_described_as_it_is() {
    let (world, line) = replace_while(OpCode::SetAcl, 1, |world| {
        world.pipe_ok("delete /app\ncreate /app theirs\n");
    });
    assert_eq!(world.run(&["get", "/app"]).ok(), "theirs\n");
    assert!(line.contains("deleted and created again meanwhile; it does not have"), "{line}");
    let (_, line) = replace_while(OpCode::SetAcl, 1, |world| _ = world.pipe_ok("delete /app\n"));
    assert!(line.ends_with("; /app was deleted meanwhile"), "{line}");
    let (world, line) = replace_while(OpCode::SetAcl, 1, |world| {
        world.pipe_ok("setAcl /app world:anyone:r\n");
    });
    assert_eq!(world.run(&["get", "/app"]).ok(), "secret\n");
    assert!(line.contains("it has the data of the file under that ACL"), "{line}");
    let (world, line) = replace_while(OpCode::SetData, 0, |world| {
        world.pipe_ok("delete /app\ncreate /app x\nset /app theirs\n");
    });
    assert_eq!(world.run(&["get", "/app"]).ok(), "theirs\n");
    assert!(line.contains("it does not have the data of the file"), "{line}");
}
