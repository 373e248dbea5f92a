//! `edit`, with editors that are small scripts.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use herdsman_testing::TestProxy;
use herdsman_testing::proxy::{Fault, OpCode};

use super::Files;
use crate::world::{World, shell};

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
    assert!(line.ends_with("nothing was written"), "{line}");
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
    let (why, kept) = line.split_once("; your text is saved in ").expect("it is kept");
    assert!(why.starts_with("the edited text is not JSON: expected value"), "{why}");
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

/// The editor signals that it runs, and then waits for a signal to continue.
#[test]
fn another_clients_change_is_kept_and_so_is_the_text() {
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
    let (why, kept) =
        ran.errors.trim_end().split_once("; your text is saved in ").expect("it is kept");
    assert_eq!(why, "/a was changed by another client meanwhile");
    assert_eq!(fs::read_to_string(Path::new(kept)).unwrap(), "mine");
    fs::remove_file(kept).unwrap();
    assert_eq!(world.run(&["get", "/a"]).ok(), "theirs\n");
}

/// Runs this script as the editor. Returns the error and the text that was kept.
fn kept_by(world: &World, script: &str) -> (String, Vec<u8>) {
    let files = Files::new();
    let editor = format!("sh {}", files.write("editor.sh", script));
    let line = world.run(&["edit", "/a", "--editor", &editor]).failed(1);
    let (why, kept) = line.split_once("; your text is saved in ").expect("it is kept");
    let text = fs::read(kept).unwrap();
    fs::remove_file(kept).unwrap();
    (why.to_owned(), text)
}

#[test]
fn the_text_is_kept_when_the_editor_fails() {
    let world = world_with("one");
    let (why, text) = kept_by(&world, "printf mine > \"$1\"\nexit 3\n");
    assert!(why.contains("failed (exit status: 3)"), "{why}");
    assert_eq!(text, b"mine");
    assert_eq!(world.run(&["get", "/a"]).ok(), "one\n");
}

#[test]
fn text_that_is_not_utf_8_is_kept() {
    let world = world_with("one");
    let (why, text) = kept_by(&world, "printf 'm\\377ne' > \"$1\"\n");
    assert_eq!(why, "the edited text is not UTF-8");
    assert_eq!(text, b"m\xffne");
}

#[test]
fn text_with_control_characters_is_kept() {
    let world = world_with("one");
    let (why, text) = kept_by(&world, "printf 'm\\033ne' > \"$1\"\n");
    assert_eq!(why, "the edited text has control characters: use `edit --hex`");
    assert_eq!(text, b"m\x1bne");
    assert_eq!(world.run(&["get", "/a"]).ok(), "one\n");
}

/// A znode that was deleted and created again has the version that the editor has seen.
#[test]
fn a_znode_that_was_created_again_is_not_overwritten() {
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
        world.pipe_ok("delete /a\ncreate /a theirs\n");
        fs::write(files.path("goes-on"), "").unwrap();
        editing.join().unwrap()
    });
    assert_eq!(ran.code, 1, "{ran:?}");
    let (why, kept) =
        ran.errors.trim_end().split_once("; your text is saved in ").expect("it is kept");
    assert_eq!(why, "/a was deleted and created again by another client meanwhile");
    assert_eq!(fs::read_to_string(Path::new(kept)).unwrap(), "mine");
    fs::remove_file(kept).unwrap();
    assert_eq!(world.run(&["get", "/a"]).ok(), "theirs\n");
}

/// No request compares more than the version; a write to another znode is reported.
#[test]
fn a_znode_that_is_created_again_in_the_last_moment_is_reported() {
    let world = world_with("one");
    let proxy = TestProxy::start(world.server.address());
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    let servers = proxy.connect_string();
    let ran = std::thread::scope(|scope| {
        let words = ["-s", &servers, "edit", "/a", "--editor", "sed -i s/one/two/"];
        let editing = scope.spawn(move || shell(&words, ""));
        assert!(held.wait_fired(Duration::from_secs(30)));
        world.pipe_ok("delete /a\ncreate /a theirs\n");
        held.release();
        editing.join().unwrap()
    });
    assert_eq!(ran.code, 1, "{ran:?}");
    let (why, kept) =
        ran.errors.trim_end().split_once("; your text is saved in ").expect("it is kept");
    assert!(why.starts_with("written, but /a was deleted and created again"), "{why}");
    fs::remove_file(kept).unwrap();
}

/// Signals go to a whole process, so each test of them is a separate process: this file's tests again, with the
/// command line in the environment.
const WORDS: &str = "HERDSMAN_TEST_SHELL_WORDS";

#[test]
fn a_shell_of_its_own() {
    if let Ok(words) = std::env::var(WORDS) {
        let words: Vec<&str> = words.split('\n').collect();
        let ran = shell(&words, "");
        eprint!("{}", ran.errors);
        std::process::exit(ran.code.into());
    }
}

/// Starts `edit /a` in a separate process, sends it a signal while the editor is open, lets the editor continue after
/// `until`, and returns the exit code, the errors and the path of the draft.
fn edit_with_signal(world: &World, signal: &str, is_waited_for: bool) -> (i32, String, String) {
    let files = Files::new();
    for fifo in ["runs", "goes-on", "done"] {
        assert!(Command::new("mkfifo").arg(files.path(fifo)).status().unwrap().success());
    }
    let [runs, goes_on, done] = ["runs", "goes-on", "done"].map(|name| files.word(name));
    let script = format!(
        "trap '' INT TERM\necho \"$1\" > {runs}\ncat {goes_on}\nprintf mine > \"$1\"\n\
         (echo > {done}) &\n"
    );
    let editor = format!("sh {}", files.write("editor.sh", &script));
    let words =
        ["-s", &world.server.connect_string(), "edit", "/a", "--editor", &editor].join("\n");
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "subtree::editing::a_shell_of_its_own", "--nocapture"])
        .env(WORDS, words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let draft = fs::read_to_string(files.path("runs")).unwrap().trim().to_owned();
    let id = process.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    if !is_waited_for {
        process.wait().unwrap();
        assert!(Path::new(&draft).exists(), "the editor still has it open");
    }
    fs::write(files.path("goes-on"), "").unwrap();
    fs::read(files.path("done")).unwrap();
    let output = process.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned(), draft)
}

/// The draft used to be removed, and the editor saved into a new file that every user could read.
#[test]
fn ctrl_c_is_for_the_editor_while_it_is_open() {
    let world = world_with("one");
    let (code, errors, draft) = edit_with_signal(&world, "-INT", true);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(world.run(&["get", "/a"]).ok(), "mine\n");
    assert!(!Path::new(&draft).exists());
}

#[test]
fn sigterm_leaves_the_file_to_the_open_editor_and_names_it() {
    let world = world_with("one");
    let (code, errors, draft) = edit_with_signal(&world, "-TERM", false);
    assert_eq!(code, 143, "{errors}");
    assert!(errors.contains(&format!("your text is saved in {draft}")), "{errors}");
    assert_eq!(fs::read_to_string(&draft).unwrap(), "mine");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&draft).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_file(draft).unwrap();
    assert_eq!(world.run(&["get", "/a"]).ok(), "one\n");
}
