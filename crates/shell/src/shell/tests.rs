//! What a shell does at a terminal, without one: somebody answers, somebody types.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex};

use clap::{Args as _, FromArgMatches as _};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use herdsman_server::TestServer;

use super::*;
use crate::streams::Terminal;

/// Gives these answers, and keeps the questions.
#[derive(Clone, Default)]
struct Scripted {
    answers: VecDeque<&'static str>,
    questions: Arc<Mutex<Vec<String>>>,
}

impl Ask for Scripted {
    fn ask(&mut self, question: String) -> BoxFuture<'_, Result<String, Failure>> {
        self.questions.lock().expect("nobody panics while asking").push(question);
        let answer = self.answers.pop_front().unwrap_or_default().to_owned();
        async move { Ok(answer) }.boxed()
    }
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        let bytes = self.0.lock().expect("nobody panics while writing").clone();
        String::from_utf8(bytes).expect("it is text")
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics while writing").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn shell(server: &TestServer, flags: &[&str], asker: Scripted) -> (Shell, Captured) {
    let servers = server.connect_string();
    let words = [&["shell", "--servers", servers.as_str()], flags].concat();
    let matches = Arguments::augment_args(clap::Command::new("shell")).get_matches_from(words);
    let arguments = Arguments::from_arg_matches(&matches).expect("the arguments are complete");
    let out = Captured::default();
    let terminal = Terminal { input: true, output: true, errors: false };
    let output = Output::new(Box::new(out.clone()), Box::new(std::io::sink()), terminal);
    let mut shell = Shell::new(&arguments, output, Some(Box::new(asker)));
    let connection = Connection::open(&arguments.connection).await.expect("the server is there");
    shell.attach(connection);
    (shell, out)
}

async fn run(shell: &mut Shell, lines: &[&str]) {
    for line in lines {
        shell.execute_line(line).await.expect(line);
    }
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
    let asked = questions.lock().expect("nobody panics while asking").clone();
    assert_eq!(asked, ["Delete /a and the 2 znodes below it? [y/N] "; 3]);
}

#[tokio::test]
async fn nobody_is_asked_who_has_said_yes_before() {
    let server = TestServer::start();
    let asker = Scripted::default();
    let questions = asker.questions.clone();
    let (mut careful, _) = shell(&server, &[], asker.clone()).await;
    run(&mut careful, &["create /a", "deleteall -y /a"]).await;
    let (mut quick, _) = shell(&server, &["--yes"], asker).await;
    run(&mut quick, &["create /a", "deleteall /a"]).await;
    assert!(questions.lock().expect("nobody panics while asking").is_empty());
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
    // Somebody else writes while the shell waits for a line.
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
    assert_eq!(out.text(), "Created /a\n\n", "nothing of it goes to standard output");
}
