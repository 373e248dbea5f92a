//! `edit`, with editors that are small scripts.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Files;
use crate::world::World;

fn world_with(data: &str) -> World {
    let world = World::start();
    world.run(&["create", "/a", data]).ok();
    world
}

#[test]
fn what_the_editor_leaves_is_written() {
    let world = world_with("one");
    let ran = world.run(&["edit", "/a", "--editor", "sed -i s/one/two/"]);
    assert_eq!(
        ran.ok(),
        "--- /a\n+++ /a (edited)\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No \
         newline at end of file\nwritten, version 1\n"
    );
    assert_eq!(world.run(&["get", "/a"]).ok(), "two\n");
    let json = world.run(&["--json", "edit", "/a", "--editor", "sed -i s/two/3/"]).ok();
    assert_eq!(json, "{\"changed\":true,\"path\":\"/a\",\"version\":2}\n");
}

#[test]
fn nothing_is_written_when_nothing_was_changed() {
    let world = world_with("one");
    let ran = world.run(&["edit", "/a", "--editor", "true"]);
    assert_eq!((ran.code, ran.errors.as_str()), (0, "nothing was changed\n"));
    let line = world.run(&["edit", "/a", "--editor", "false"]).failed(1);
    assert!(line.ends_with("nothing was changed"), "{line}");
    assert!(world.run(&["stat", "/a"]).ok().contains("dataVersion = 0\n"));
    assert_eq!(
        world.run(&["edit", "/none", "--editor", "false"]).failed(1),
        "Node does not exist: /none"
    );
}

#[test]
fn json_is_indented_checked_and_put_back_on_one_line() {
    let world = world_with(r#"{"b":1,"a":[]}"#);
    world
        .run(&["edit", "/a", "--format", "json", "--editor", "sed -i 's/^  \"b\": 1/  \"b\": 2/'"])
        .ok();
    assert_eq!(world.run(&["get", "/a"]).ok(), "{\"b\":2,\"a\":[]}\n");
    let line =
        world.run(&["edit", "/a", "--format", "json", "--editor", "sed -i s/2/x/"]).failed(1);
    let (why, kept) = line.split_once("; your text is in ").expect("it is kept");
    assert!(why.starts_with("that is no JSON: expected value"), "{why}");
    assert!(fs::read_to_string(kept).unwrap().contains("\"b\": x"));
    fs::remove_file(kept).unwrap();
    let text = world_with("a=1").run(&["edit", "/a", "--format", "json", "--editor", "false"]);
    assert!(text.failed(1).contains("edit it as text"));
}

#[test]
fn binary_data_is_edited_as_digits_only() {
    let world = world_with("x");
    world.run(&["set", "-b", "/a", "AP8="]).ok();
    assert!(world.run(&["edit", "/a", "--editor", "false"]).failed(1).contains("edit --hex"));
    world.run(&["edit", "/a", "--hex", "--editor", "sed -i s/ff/01/"]).ok();
    assert_eq!(world.run(&["get", "-b", "/a"]).ok(), "AAE=\n");
}

/// The editor says that it runs, and goes on when it is told to.
#[test]
fn somebody_elses_change_is_kept_and_so_is_the_text() {
    let world = world_with("one");
    let files = Files::new();
    for fifo in ["runs", "goes-on"] {
        assert!(Command::new("mkfifo").arg(files.path(fifo)).status().unwrap().success());
    }
    let script = format!(
        "printf mine > \"$1\"\necho > {}\ncat {}\n",
        files.word("runs"),
        files.word("goes-on")
    );
    let editor = format!("sh {}", files.write("editor.sh", &script));
    let ran = std::thread::scope(|scope| {
        let editing = scope.spawn(|| world.run(&["edit", "/a", "--editor", &editor]));
        fs::read(files.path("runs")).unwrap();
        world.run(&["set", "/a", "theirs"]).ok();
        fs::write(files.path("goes-on"), "").unwrap();
        editing.join().unwrap()
    });
    assert_eq!(ran.code, 1);
    let (why, kept) = ran.errors.trim_end().split_once("; your text is in ").expect("it is kept");
    assert_eq!(why, "/a was changed by somebody else meanwhile");
    assert_eq!(fs::read_to_string(Path::new(kept)).unwrap(), "mine");
    fs::remove_file(kept).unwrap();
    assert_eq!(world.run(&["get", "/a"]).ok(), "theirs\n");
}
