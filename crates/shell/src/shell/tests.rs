//! Tests of a shell at a simulated terminal.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex};

use clap::{Args as _, FromArgMatches as _};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use super::*;
use crate::streams::Terminal;

/// Returns these answers and records the questions.
#[derive(Clone, Default)]
struct Scripted {
    answers: VecDeque<&'static str>,
    questions: Arc<Mutex<Vec<String>>>,
}

impl Ask for Scripted {
    fn ask(&mut self, question: String) -> BoxFuture<'_, Result<String, Failure>> {
        self.questions.lock().expect("no thread panics while asking").push(question);
        let answer = self.answers.pop_front().unwrap_or_default().to_owned();
        async move { Ok(answer) }.boxed()
    }
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("no thread panics while writing").clone();
        String::from_utf8(bytes).expect("it is text")
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no thread panics while writing").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn shell(server: &TestServer, flags: &[&str], asker: Scripted) -> (Shell, Captured) {
    let servers = server.connect_string();
    let out = Captured::default();
    let errors = Box::new(std::io::sink());
    (shell_on(&servers, flags, asker, Box::new(out.clone()), errors).await, out)
}

async fn shell_on(
    servers: &str,
    flags: &[&str],
    asker: Scripted,
    out: Box<dyn Write + Send>,
    errors: Box<dyn Write + Send>,
) -> Shell {
    let words = [&["shell", "--servers", servers], flags].concat();
    let matches = Arguments::augment_args(clap::Command::new("shell")).get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).expect("the arguments are complete");
    let terminal = Terminal { input: true, output: true, errors: false };
    let output = Output::new(out, errors, terminal);
    let mut shell = Shell::new(&arguments, output, Some(Box::new(asker)));
    shell.open_connection().await.expect("the server is there");
    shell
}

/// A shell with its messages captured.
async fn shell_with_messages(servers: &str) -> (Shell, Captured) {
    let errors = Captured::default();
    let (sink, kept) = (Box::new(std::io::sink()), Box::new(errors.clone()));
    (shell_on(servers, &["--yes"], Scripted::default(), sink, kept).await, errors)
}

async fn run(shell: &mut Shell, lines: &[&str]) {
    for line in lines {
        shell.execute_line(line).await.expect(line);
    }
}

/// Answers yes, but only after it has replaced a znode by another one.
struct Replacing(Client, &'static str);

impl Ask for Replacing {
    fn ask(&mut self, _: String) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            self.0.delete(self.1).await?;
            self.0.create(self.1, "new").await?;
            Ok("y".to_owned())
        }
        .boxed()
    }
}

/// Only what the question was about may be deleted.
#[tokio::test]
async fn a_subtree_that_changes_before_the_answer_is_not_deleted() {
    let server = TestServer::start();
    let (mut shell, _) = shell(&server, &[], Scripted::default()).await;
    let zk = Client::connect(&server.connect_string()).await.expect("the server is there");
    run(&mut shell, &["create /a", "create /a/b"]).await;
    shell.ask_with(Box::new(Replacing(zk.clone(), "/a/b")));
    let refused = shell.execute_line("deleteall /a").await.expect_err("it has changed");
    assert_eq!(refused.to_string(), "/a was changed meanwhile; nothing was deleted");
    assert_eq!(zk.get("/a/b").await.expect("it is there").data, "new");
}

#[tokio::test]
async fn a_subtree_is_not_deleted_without_a_yes() {
    let server = TestServer::start();
    let asker = Scripted { answers: ["n", "", "y"].into(), ..Scripted::default() };
    let questions = asker.questions.clone();
    let (mut shell, _) = shell(&server, &[], asker).await;
    run(&mut shell, &["create /a", "create /a/b", "create /a/c"]).await;
    for _ in 0..2 {
        let refused = shell.execute_line("deleteall /a").await.expect_err("the answer was no");
        assert_eq!(refused.to_string(), "nothing was changed");
    }
    let client = shell.client().expect("it is connected").clone();
    assert_eq!(client.count_descendants("/a").await.expect("it is there"), 2);
    run(&mut shell, &["deleteall /a"]).await;
    assert_eq!(client.exists("/a").await.expect("the server answers"), None);
    let asked = questions.lock().expect("no thread panics while asking").clone();
    assert_eq!(asked, ["Delete /a and the 2 znodes below it? [y/N] "; 3]);
}

#[tokio::test]
async fn the_yes_flags_skip_the_question() {
    let server = TestServer::start();
    let asker = Scripted::default();
    let questions = asker.questions.clone();
    let (mut careful, _) = shell(&server, &[], asker.clone()).await;
    run(&mut careful, &["create /a", "deleteall -y /a"]).await;
    let (mut quick, _) = shell(&server, &["--yes"], asker).await;
    run(&mut quick, &["create /a", "deleteall /a"]).await;
    assert!(questions.lock().expect("no thread panics while asking").is_empty());
}

#[tokio::test]
async fn binary_data_does_nothing_to_a_terminal() {
    let server = TestServer::start();
    let (mut shell, out) = shell(&server, &[], Scripted::default()).await;
    run(&mut shell, &["create /a", "set -b /a G1sySgD/", "get /a"]).await;
    assert_eq!(out.text(), "Created /a\n\\x1b[2J\\x00\\xff\n");
}

#[tokio::test]
async fn events_are_printed_above_the_prompt() {
    let server = TestServer::start();
    let (mut shell, out) = shell(&server, &[], Scripted::default()).await;
    let above = Captured::default();
    let mut printer = above.clone();
    shell.output.print_events_with(Box::new(move |text| {
        printer.write_all(text.as_bytes()).expect("memory does not fail");
    }));
    run(&mut shell, &["create /a", "get -w /a"]).await;
    let client = shell.client().expect("it is connected").clone();
    let seen = above.clone();
    // Another client writes while the shell waits for a line.
    let typed = async {
        client.set("/a", "x").await.expect("it is there");
        while seen.text().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        failure = shell.show_events() => panic!("{failure}"),
        () = typed => {}
    }
    assert!(above.text().contains("type:NodeDataChanged path:/a"), "{}", above.text());
    assert_eq!(out.text(), "Created /a\n\n", "none of it goes to standard output");
}

/// Ctrl-C drops a command wherever it is.
#[tokio::test]
async fn an_interrupted_import_says_how_far_it_came() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (mut shell, errors) = shell_with_messages(&proxy.connect_string()).await;
    let mut file = tempfile::NamedTempFile::new().expect("there is room");
    let header =
        r#"{"format":"herdsman-subtree","version":1,"root":"/a","zxid":"0x0","time":"now"}"#;
    let znodes: String = (0..300).map(|number| format!("{{\"path\":\"{number}\"}}\n")).collect();
    write!(file, "{header}\n{znodes}").expect("there is room");
    let line = format!("import {} --partial", file.path().display());
    let held = proxy.add_rule(Rule::new(Fault::HoldRequest).on(OpCode::Multi).skip(2));
    tokio::select! {
        done = shell.execute_line(&line) => panic!("{done:?}"),
        () = held.until_fired() => {}
    }
    assert!(shell.report_progress());
    assert_eq!(
        errors.text(),
        "interrupted; at least 256 znodes written; run the same import again to write the rest (with \
         --skip-existing, if you may not read the written ones)\n"
    );
    held.release();
    run(&mut shell, &[&line, "create /done"]).await;
    assert!(!shell.report_progress(), "nothing is reported of a completed command");
}

/// Between the steps of a replacement no client may read the znode.
#[tokio::test]
async fn an_interrupted_import_names_the_znode_that_may_be_unreadable() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (mut shell, errors) = shell_with_messages(&proxy.connect_string()).await;
    run(&mut shell, &["create /a old", "create /a/b"]).await;
    let mut file = tempfile::NamedTempFile::new().expect("there is room");
    let header =
        r#"{"format":"herdsman-subtree","version":1,"root":"/a","zxid":"0x0","time":"now"}"#;
    let acl = r#"[{"scheme":"world","id":"anyone","perms":"ra"}]"#;
    let znodes = format!("{{\"path\":\".\",\"data\":\"new\",\"acl\":{acl}}}\n{{\"path\":\"c\"}}\n");
    write!(file, "{header}\n{znodes}").expect("there is room");
    let line = format!("import {} --partial --overwrite", file.path().display());
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    tokio::select! {
        done = shell.execute_line(&line) => panic!("{done:?}"),
        () = held.until_fired() => {}
    }
    assert!(shell.report_progress());
    assert_eq!(
        errors.text(),
        "interrupted; at least 0 znodes written; run the same import again to write the rest (with \
         --skip-existing, if you may not read the written ones); until then the \
         ACL of /a may allow no client to read it (setAcl makes it readable again)\n"
    );
    held.release();
}

#[tokio::test]
async fn an_interrupted_change_of_acls_says_how_many_are_changed() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (mut shell, errors) = shell_with_messages(&proxy.connect_string()).await;
    run(&mut shell, &["create /a", "create /a/b", "create /a/c"]).await;
    let held = proxy.add_rule(Rule::new(Fault::HoldRequest).on(OpCode::SetAcl).skip(2));
    tokio::select! {
        done = shell.execute_line("setAcl -R /a world:anyone:cdra") => panic!("{done:?}"),
        () = held.until_fired() => {}
    }
    assert!(shell.report_progress());
    assert_eq!(
        errors.text(),
        "interrupted; at least 2 ACLs changed; run the same command again to change the rest, as a user \
         who may also read and change the znodes that have the new ACL\n"
    );
    held.release();
}

/// Nothing was typed yet, but the editor may still save: if the file were removed, into a new one.
#[tokio::test]
async fn an_edit_that_ends_while_the_editor_is_open_leaves_the_file_to_it() {
    let server = TestServer::start();
    let (mut shell, errors) = shell_with_messages(&server.connect_string()).await;
    let files = tempfile::tempdir().expect("there is room");
    let [runs, goes_on] = ["runs", "goes-on"].map(|name| files.path().join(name));
    for fifo in [&runs, &goes_on] {
        let made = std::process::Command::new("mkfifo").arg(fifo).status();
        assert!(made.expect("mkfifo is there").success());
    }
    let script = files.path().join("editor.sh");
    let text = format!("echo \"$1\" > {}\ncat {}\n", runs.display(), goes_on.display());
    std::fs::write(&script, text).expect("there is room");
    run(&mut shell, &["create /a one"]).await;
    let line = format!("edit /a --editor 'sh {}'", script.display());
    let running = tokio::task::spawn_blocking(move || std::fs::read_to_string(runs));
    let draft = tokio::select! {
        done = shell.execute_line(&line) => panic!("{done:?}"),
        read = running => read.expect("it does not panic").expect("the editor runs"),
    };
    let draft = std::path::Path::new(draft.trim_end());
    let (was_there, is_said, is_left) = (draft.exists(), shell.report_progress(), draft.exists());
    std::fs::write(goes_on, "").expect("the editor waits");
    assert!(was_there && is_said && is_left, "{} {}", draft.display(), errors.text());
    std::fs::remove_file(draft).expect("it is ours");
}

#[tokio::test]
async fn an_interrupted_edit_keeps_the_text() {
    let server = TestServer::start();
    let (mut shell, errors) = shell_with_messages(&server.connect_string()).await;
    let files = tempfile::tempdir().expect("there is room");
    let [runs, goes_on] = ["runs", "goes-on"].map(|name| files.path().join(name));
    for fifo in [&runs, &goes_on] {
        let made = std::process::Command::new("mkfifo").arg(fifo).status();
        assert!(made.expect("mkfifo is there").success());
    }
    let script = files.path().join("editor.sh");
    let (runs_word, goes_on_word) = (runs.display(), goes_on.display());
    let text = format!("printf mine > \"$1\"\necho > {runs_word}\ncat {goes_on_word}\n");
    std::fs::write(&script, text).expect("there is room");
    run(&mut shell, &["create /a one"]).await;
    let line = format!("edit /a --editor 'sh {}'", script.display());
    let running = tokio::task::spawn_blocking(move || std::fs::read(runs));
    tokio::select! {
        done = shell.execute_line(&line) => panic!("{done:?}"),
        read = running => drop(read.expect("it does not panic").expect("the editor runs")),
    }
    assert!(shell.report_progress());
    let message = errors.text();
    let kept = message
        .trim_end()
        .strip_prefix("interrupted; your text is saved in ")
        .expect("it is reported");
    std::fs::write(goes_on, "").expect("the editor waits");
    assert_eq!(std::fs::read_to_string(kept).expect("it is kept"), "mine");
    std::fs::remove_file(kept).expect("it is ours");
}
