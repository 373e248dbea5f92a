//! `export`, and that `import` restores it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use herdsman_client::{EventType, Lifetime, WatchUpdate};
use serde_json::Value;

use super::{Files, client, run_as_ann, run_aside, world_of_all_types};
use crate::world::{World, shell};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_subtree_becomes_lines() {
    let world = World::start();
    world.pipe_ok("create /app root\ncreate /app/b text\ncreate /app/a\nset -b /app/a AP8=\n");
    let ran = world.run(&["export", "/app"]);
    assert_eq!((ran.code, ran.errors.as_str()), (0, "exported 3 znodes, 10 B, of /app\n"));
    let lines = lines(&ran.out);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["format"], "herdsman-subtree");
    assert_eq!((&lines[0]["version"], &lines[0]["root"]), (&1.into(), &"/app".into()));
    assert_eq!((&lines[1]["path"], &lines[1]["data"]), (&".".into(), &"root".into()));
    assert_eq!((&lines[2]["path"], &lines[2]["data_base64"]), (&"a".into(), &"AP8=".into()));
    assert_eq!((&lines[3]["path"], &lines[3]["data"]), (&"b".into(), &"text".into()));
    assert_eq!(lines[3]["stat"]["version"], 0);
    assert_eq!((&lines[4]["end"], &lines[4]["znodes"]), (&true.into(), &3.into()));
    assert_eq!(lines[4]["zxid"], lines[2]["stat"]["mzxid"], "the newest change");
}

#[test]
fn a_file_appears_when_it_is_complete_and_is_not_replaced() {
    let world = World::start();
    let files = Files::new();
    world.pipe_ok("create /app\n");
    let file = files.word("app.jsonl");
    let ran = world.run(&["export", "/app", "-o", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    let mode = files.path("app.jsonl").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may contain secrets");
    let line = world.run(&["export", "/app", "-o", &file]).failed(1);
    assert_eq!(line, format!("{file} already exists; --force replaces it"));
    assert_eq!(world.run(&["export", "/app", "-o", &file, "--force"]).code, 0);
    let none = files.word("none.jsonl");
    let line = world.run(&["export", "/none", "-o", &none]).failed(1);
    assert!(line.contains("/none"), "{line}");
    let names: Vec<_> = std::fs::read_dir(files.0.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing half-written is left: {names:?}");
    let nowhere = files.word("no/such/file");
    assert!(world.run(&["export", "/app", "-o", &nowhere]).failed(1).starts_with(&nowhere));
}

#[test]
fn unreadable_znodes_are_an_error_or_skipped() {
    let world = World::start();
    world.pipe_ok("create /app\ncreate /app/open\n");
    run_as_ann(&world, &["create", "/app/secret", "x", "auth::cdrwa"]).ok();
    let ran = world.run(&["export", "/app"]);
    assert_eq!(ran.failed(1), "/app/secret may not be read: log in with addauth");
    let ran = world.run(&["export", "/app", "--skip-unreadable"]);
    assert_eq!(lines(&ran.out).len(), 4);
    assert!(ran.errors.contains("1 not readable and skipped"), "{}", ran.errors);
}

#[test]
fn hidden_digests_are_reported_and_never_imported() {
    let world = World::start();
    let files = Files::new();
    world.pipe_ok("create /app\n");
    let acl = "auth::cdrwa,world:anyone:r";
    run_as_ann(&world, &["create", "/app/shown", "x", acl]).ok();
    let file = files.word("app.jsonl");
    let ran = world.run(&["export", "/app", "-o", &file]);
    assert!(
        ran.errors.starts_with("1 ACL with a digest that is shown only to users"),
        "{}",
        ran.errors
    );
    let line = run_as_ann(&world, &["import", &file, "/copy"]).failed(1);
    assert!(
        line.starts_with(&format!("{file}, line 3: the ACL has a digest that was hidden")),
        "{line}"
    );
    run_as_ann(&world, &["import", &file, "/copy", "--acl", "open"]).ok();
    assert_eq!(world.run(&["getAcl", "/copy/shown"]).ok(), "'world,'anyone\n: cdrwa\n");
}

/// Data, ACLs, types and ephemerals, from one server to another.
#[test]
fn everything_is_restored() {
    let (from, to) = (world_of_all_types(), world_of_all_types());
    let files = Files::new();
    from.pipe_ok(
        "create /app 'two words'\ncreate /app/bytes\nset -b /app/bytes AAECAw==\n\
         create /app/zürich grüezi\ncreate -c /app/locks\ncreate /app/locks/a 1\n\
         create -t 3600000 /app/job x\n",
    );
    run_as_ann(&from, &["create", "/app/secret", "x", "auth::cdrwa,world:anyone:r"]).ok();
    run_as_ann(&from, &["create", "/app/secret/below", "y", "auth::cdrwa"]).ok();
    let file = files.word("app.jsonl");
    let servers = from.server.connect_string();
    // An ephemeral ends with its session, so the export is made by the session that has it.
    let commands =
        format!("create -e /app/here\nexport /app -o {file} --container locks --ttl job=1h\n");
    let ran = shell(&["-s", &servers, "--auth", "digest:ann:secret"], &commands);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.errors.contains("exported 9 znodes") && ran.errors.contains("1 ephemeral"));

    let text = std::fs::read_to_string(files.path("app.jsonl")).unwrap();
    assert!(text.contains(r#""type":"container""#) && text.contains(r#""ttl_ms":3600000"#));
    assert_eq!(
        run_as_ann(&to, &["import", &file]).ok(),
        "/app: created 8, updated 0, 0 equal, 1 ephemerals skipped\n"
    );
    let elsewhere = format!("{}//app", to.server.connect_string());
    let diff = run_as_ann(&from, &["diff", "/app", &elsewhere]);
    assert_eq!((diff.code, diff.out.as_str(), diff.errors.as_str()), (0, "", ""));
    let in_file = format!("file:{file}");
    let diff = run_as_ann(&to, &["diff", &in_file, "/app"]);
    assert_eq!(diff.code, 1);
    assert!(diff.out.starts_with("- here (0 B, ephemeral)\n8 equal"), "{}", diff.out);

    let again = files.word("again.jsonl");
    let hints = ["--container", "locks", "--ttl", "job=1h"];
    run_as_ann(&to, &[&["export", "/app", "-o", &again], &hints[..]].concat());
    let diff = run_as_ann(&to, &["diff", &in_file, &format!("file:{again}"), "--brief"]);
    assert!(diff.out.starts_with("- here (0 B, ephemeral)\n8 equal, 0 changed"), "{}", diff.out);
    // The ACL is in force there.
    assert_eq!(to.run(&["set", "/app/secret", "z"]).code, 1);
    run_as_ann(&to, &["set", "/app/secret", "z"]).ok();
}

/// A stat does not distinguish a container from other znodes; only its removal does.
#[tokio::test]
async fn an_imported_container_goes_with_its_last_child() {
    let world = world_of_all_types();
    let files = Files::new();
    let zk = client(&world.server).await;
    zk.create("/app/box/child", "").parents().await.unwrap();
    let file = files.word("app.jsonl");
    assert_eq!(run_aside(&world, &["export", "/app", "-o", &file, "--container", "b*"]).code, 0);
    run_aside(&world, &["import", &file, "/copy"]).ok();
    let mut changes = zk.watch("/copy/box").await.unwrap();
    zk.delete("/copy/box/child").await.unwrap();
    loop {
        match changes.next().await.unwrap() {
            WatchUpdate::Event(event) if event.kind == EventType::NodeDeleted => break,
            _ => {}
        }
    }
    assert!(zk.exists("/app/box").await.unwrap().is_some(), "the original was none");
}

#[tokio::test]
async fn an_imported_time_to_live_passes() {
    let world = world_of_all_types();
    let files = Files::new();
    let zk = client(&world.server).await;
    zk.create("/app/job", "")
        .parents()
        .lifetime(Lifetime::Ttl(Duration::from_secs(3600)))
        .await
        .unwrap();
    let file = files.word("app.jsonl");
    assert_eq!(run_aside(&world, &["export", "/app", "-o", &file, "--ttl", "job=1ms"]).code, 0);
    run_aside(&world, &["import", &file, "/copy"]).ok();
    // It may have gone already, or the next sweep takes it.
    let (stat, gone) = zk.exists("/copy/job").watch().await.unwrap();
    if stat.is_some() {
        assert_eq!(gone.await.unwrap().kind, EventType::NodeDeleted);
    }
    assert!(zk.exists("/app/job").await.unwrap().is_some());
}

#[test]
fn a_server_without_times_to_live_says_so() {
    let (from, to) = (world_of_all_types(), World::start());
    let files = Files::new();
    from.pipe_ok("create /app\ncreate /app/job\n");
    let file = files.word("app.jsonl");
    from.run(&["export", "/app", "-o", &file, "--ttl", "job=1h"]);
    let line = to.run(&["import", &file]).failed(1);
    assert!(line.starts_with("stopped at /app"), "{line}");
    assert!(
        line.contains("extendedTypesEnabled") && line.contains("0 znodes were written"),
        "{line}"
    );
    assert_eq!(to.run(&["ls", "/"]).ok(), "[zookeeper]\n");
}

#[test]
fn ten_thousand_znodes_come_back() {
    let (from, to) = (World::start(), World::start());
    let files = Files::new();
    let mut text = String::from(concat!(
        r#"{"format":"herdsman-subtree","version":1,"root":"/many","zxid":"0x0","time":"now"}"#,
        "\n{\"path\":\".\"}\n"
    ));
    for outer in 0..100 {
        text += &format!("{{\"path\":\"{outer:03}\",\"data\":\"{outer}\"}}\n");
        for inner in 0..99 {
            text += &format!("{{\"path\":\"{outer:03}/{inner:03}\",\"data\":\"{inner}\"}}\n");
        }
    }
    text += "{\"end\":true,\"znodes\":10001,\"zxid\":\"0x0\"}\n";
    let file = files.write("many.jsonl", &text);
    assert_eq!(from.run(&["import", &file]).ok(), "/many: created 10001, updated 0, 0 equal\n");
    let exported = from.run(&["export", "/many"]);
    assert!(exported.errors.starts_with("exported 10001 znodes"), "{}", exported.errors);
    let servers = to.server.connect_string();
    let imported = shell(&["-s", &servers, "import", "-", "/copy/of/many"], &exported.out);
    assert_eq!(imported.ok(), "/copy/of/many: created 10003, updated 0, 0 equal\n");
    let elsewhere = format!("{servers}//copy/of/many");
    assert_eq!(from.run(&["diff", "/many", &elsewhere]).ok(), "");
    let again = to.run(&["import", &file, "/copy/of/many"]);
    assert_eq!(again.ok(), "/copy/of/many: created 0, updated 0, 10001 equal\n");
}

/// A link may have been planted, and a device is not for us to replace.
#[test]
fn only_a_file_is_replaced() {
    let world = World::start();
    let files = Files::new();
    world.pipe_ok("create /app\n");
    let link = files.word("link");
    for target in [files.path("planted"), files.path("there")] {
        _ = std::fs::remove_file(files.path("link"));
        std::os::unix::fs::symlink(&target, files.path("link")).unwrap();
        std::fs::write(files.path("there"), "theirs").unwrap();
        for flags in [&[][..], &["--force"]] {
            let line = world.run(&[&["export", "/app", "-o", &link], flags].concat()).failed(1);
            assert_eq!(line, format!("{link} exists and is not a file; it is not replaced"));
        }
    }
    assert!(!files.path("planted").exists());
    assert_eq!(std::fs::read_to_string(files.path("there")).unwrap(), "theirs");
    // A directory in which no file can be made, not even by root.
    let line = world.run(&["export", "/app", "-o", "/proc/app.jsonl"]).failed(1);
    assert!(line.starts_with("/proc/app.jsonl: "), "{line}");
}

/// A limit on the size of files stands for a full disk. It holds for a whole process, so the export is
/// made by another one: this test again, with the server's address and the file.
#[test]
fn a_full_disk_leaves_the_old_file() {
    const NAME: &str = "subtree::exporting::a_full_disk_leaves_the_old_file";
    if let (Ok(servers), Ok(file)) = (std::env::var("TEST_SERVERS"), std::env::var("TEST_FILE")) {
        let line = shell(&["-s", &servers, "export", "/app", "-o", &file, "--force"], "").failed(1);
        assert!(line.starts_with(&format!("{file}: File too large")), "{line}");
        return;
    }
    let world = World::start();
    let files = Files::new();
    world.pipe_ok(&format!("create /app {}\n", "x".repeat(200 << 10)));
    let file = files.write("app.jsonl", "old");
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\"";
    // Its output goes through pipes: the limit would hold for a file, too.
    let output = std::process::Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env("TEST_SERVERS", world.server.connect_string())
        .env("TEST_FILE", &file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    let names: Vec<_> = std::fs::read_dir(files.0.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing half-written is left: {names:?}");
}
