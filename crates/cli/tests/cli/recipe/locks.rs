//! `herdsman recipe locks`.

use herdsman_client::{Client, SessionId};
use herdsman_recipes::Lock;
use tokio::task::{spawn, spawn_blocking};

use super::terminal::{Running, Terminal, wait_for_children};

#[test]
fn without_locks_it_says_so() {
    Terminal::open().run(&["locks"]).check(0, &["no locks at or below /"]);
}

#[test]
fn it_shows_who_holds_and_who_waits() {
    let terminal = Terminal::open();
    let lock = |path: &str, owner: &str| terminal.start(&["lock", path, "--owner", owner]);
    let holders = ["a", "b"].map(|owner| {
        let holder = lock(&format!("/locks/{owner}"), owner);
        holder.line();
        holder
    });
    let waiter = lock("/locks/a", "c");
    terminal.wait_for_children("/locks/a", 2);

    let shown = terminal.lines(&["locks", "/locks"]);
    assert_eq!(without_sessions(&shown), SHOWN, "{shown:?}");
    let shown = terminal.lines(&["locks", "/locks/a"]);
    assert_eq!(without_sessions(&shown), SHOWN[..3], "{shown:?}");
    waiter.interrupted().check(130, &[]);
    for holder in holders {
        holder.interrupted();
    }
}

const SHOWN: [&str; 5] = ["/locks/a", "  holds a", "  waits c", "/locks/b", "  holds b"];

/// The lines without session ids, which differ in each run.
fn without_sessions(lines: &[String]) -> Vec<String> {
    let strip = |line: &String| {
        let words = line.split(' ').filter(|word| !word.starts_with("0x"));
        words.collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(strip).collect()
}

#[test]
fn a_reader_is_shown_as_one() {
    let terminal = Terminal::open();
    let reader = terminal.start(&["lock", "/rw", "--mode", "read", "--owner", "r"]);
    reader.line();
    let shown = terminal.lines(&["locks"]);
    assert_eq!(without_sessions(&shown), ["/rw", "  holds r (to read)"], "{shown:?}");
}

/// Two programs that each hold a lock and wait for the other's.
#[test]
fn a_deadlock_is_shown_and_is_code_3() {
    let terminal = Terminal::open();
    let command = terminal.command(&["locks", "/locks"]);
    let (sessions, ended) = terminal.ask(async |one| {
        let two = Client::connect(&terminal.server.connect_string()).await?;
        let lock = |client, path| Lock::new(client, path).expect("a lock");
        let _first = lock(one, "/locks/a").acquire().await.expect("it is free");
        let _second = lock(&two, "/locks/b").acquire().await.expect("it is free");
        let waiters = [lock(one, "/locks/b"), lock(&two, "/locks/a")]
            .map(|lock| spawn(async move { lock.acquire().await.map(drop) }));
        wait_for_children(one, "/locks/a", 2).await?;
        wait_for_children(one, "/locks/b", 2).await?;
        let ended = spawn_blocking(|| Running::start(command).end()).await.expect("it ends");
        for waiter in waiters {
            waiter.abort();
        }
        Ok(([one, &two].map(|client| client.session().id()), ended))
    });
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let cycle = ended.out.last().expect("lines");
    assert!(cycle.starts_with("deadlock: "), "{ended:?}");
    let waits = |waiter: SessionId, path, blocker: SessionId| {
        cycle.contains(&waiter.to_string())
            && cycle.contains(&format!("waits for {path} held by {blocker}"))
    };
    let [one, two] = sessions;
    assert!(waits(one, "/locks/b", two) && waits(two, "/locks/a", one), "{ended:?}");
}

#[test]
fn a_watch_reports_deadlocks_and_asks_the_youngest_to_release() {
    let terminal = Terminal::open();
    let command = terminal.command(&[
        "locks",
        "/locks",
        "--watch",
        "--interval",
        "0.05",
        "--revoke-youngest",
    ]);
    let (lines, youngest, ended) = terminal.ask(async |one| {
        let two = Client::connect(&terminal.server.connect_string()).await?;
        let lock = |client, path| Lock::new(client, path).expect("a lock");
        let watching = Running::start(command);
        let _first = lock(one, "/locks/a").acquire().await.expect("it is free");
        let second = lock(&two, "/locks/b").acquire().await.expect("it is free");
        let waiters = [lock(one, "/locks/b"), lock(&two, "/locks/a")]
            .map(|lock| spawn(async move { lock.acquire().await.map(drop) }));
        second.revocation_requested().await.expect("it is held");
        let ended = spawn_blocking(move || {
            let lines = [watching.line(), watching.line()];
            (lines, watching.interrupted())
        });
        let (lines, ended) = ended.await.expect("it ends");
        for waiter in waiters {
            waiter.abort();
        }
        Ok((lines, second.path().to_owned(), ended))
    });
    assert!(lines[0].starts_with("deadlock: "), "{lines:?}");
    assert_eq!(lines[1], format!("asked to release: {youngest}"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    terminal.run(&["locks", "--revoke-youngest"]).check_error(2, &["--watch"]);
}
