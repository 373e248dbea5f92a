//! Commands from a pipe.

use std::io::{self, Cursor, Write};

use herdsman_shell::{Streams, run_with};

use crate::world::{World, arguments, shell};

#[test]
fn commands_run_line_by_line() {
    let world = World::start();
    let lines = "# comments and blank lines are skipped\n\n  \ncreate /a 'b c'\n  get /a  \n\
                 # the end\nquit\nget /none\n";
    assert_eq!(world.pipe_ok(lines), "Created /a\nb c\n");
    assert_eq!(world.pipe_ok("ls /a"), "[]\n", "the last line needs no end");
    assert_eq!(world.pipe_ok(""), "");
}

#[test]
fn the_first_error_ends_it() {
    let world = World::start();
    let ran = world.pipe("create /a\nget /none\ncreate /b\n");
    assert_eq!((ran.code, ran.out.as_str()), (1, "Created /a\n"));
    assert_eq!(ran.errors, "Node does not exist: /none\n");
    assert_eq!(world.run(&["ls", "/"]).ok(), "[a, zookeeper]\n");
    assert_eq!(world.pipe("ls\ncreate /c\n").code, 2);
}

#[test]
fn errors_are_skipped_with_keep_going() {
    let world = World::start();
    let servers = world.server.connect_string();
    let lines = "get /none\ncreate /b\nls\nget \"/b\nls /\n";
    let ran = shell(&["--server", &servers, "--keep-going"], lines);
    assert_eq!(ran.code, 1, "that of the first error");
    assert_eq!(ran.out, "Created /b\n[b, zookeeper]\n");
    assert_eq!(ran.errors.lines().count(), 3, "{}", ran.errors);
}

#[test]
fn history_and_redo() {
    let world = World::start();
    let said = world
        .pipe_ok("create -s /n-\nredo 0\naddauth digest bob:secret\nls /\nhistory\nprintwatches\n");
    assert_eq!(
        said,
        "Created /n-0000000000\nCreated /n-0000000001\n[n-0000000000, n-0000000001, zookeeper]\n\
         0 - create -s /n-\n1 - create -s /n-\n2 - addauth digest …\n3 - ls /\n4 - history\n\
         printwatches is on\n"
    );
    let table = [
        ("redo 0\n", "redo: there is no command 0; see `history`"),
        ("ls /\nredo 7\n", "redo: there is no command 7; see `history`"),
        (
            "redo x\n",
            "redo: invalid value 'x' for '<NUMBER>': invalid digit found in string; \
                     usage: redo number",
        ),
    ];
    for (lines, said) in table {
        assert_eq!(world.pipe(lines).failed(2), said);
    }
}

#[test]
fn the_session_can_be_closed_and_opened_again() {
    let world = World::start();
    let ran = world.pipe("create -e /mine\nclose\nls /\n");
    assert_eq!(ran.failed(1), "Not connected; `connect` opens a new session");
    let servers = world.server.connect_string();
    let ran = world.pipe(&format!("create -e /mine\nconnect {servers}/zookeeper\nls /\n"));
    assert_eq!((ran.code, ran.errors.as_str()), (0, ""));
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(lines[1].starts_with("connected, session 0x"), "{lines:?}");
    assert_eq!(lines[2], "[config, quota]");
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
    // The server confirmed the last close before the shell ended.
    assert_eq!(world.server.session_count(), 0);
}

#[test]
fn a_connection_that_cannot_be_opened_leaves_the_old_one() {
    let world = World::start();
    let servers = world.server.connect_string();
    let words = ["--server", &servers, "--connect-timeout", "0.2", "--keep-going"];
    let ran = shell(&words, "create -e /mine\nconnect 127.0.0.1:1\nls /\n");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "Created /mine\n[mine, zookeeper]\n");
}

/// A reader that accepts one line and then closes.
struct Impatient(usize);

impl Write for Impatient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_output_ends_the_shell_quietly() {
    let world = World::start();
    let errors = crate::world::Captured::default();
    let input = Cursor::new("ls /\nls /\ncreate /never\n");
    let arguments = arguments(&["-server", &world.server.connect_string()]);
    let code = run_with(&arguments, Streams::new(input, Impatient(1), errors.clone()));
    assert_eq!((code, errors.text().as_str()), (141, ""));
    assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n");
    assert_eq!(world.server.session_count(), 0, "it has closed its session");
}

#[test]
fn a_line_that_is_not_text_is_rejected() {
    let world = World::start();
    let (out, errors) = (crate::world::Captured::default(), crate::world::Captured::default());
    let input = Cursor::new(b"create /a\nset /a \xff\n".to_vec());
    let arguments = arguments(&["-server", &world.server.connect_string()]);
    let code = run_with(&arguments, Streams::new(input, out, errors.clone()));
    assert_eq!(code, 1);
    assert!(errors.text().contains("not UTF-8"), "{}", errors.text());
}
