//! Heartbeats, progress reports, and commands with acknowledgements.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::Error;
use herdsman_recipes::messaging::{
    Ack, Answer, Command, CommandClient, Dispatched, Dispatcher, Health, Heartbeat, HeartbeatEvent,
    HeartbeatMonitor, Progress, ProgressFeed, ProgressReporter, Repetition,
};
use herdsman_testing::proxy::{Direction, Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn heartbeats_appear_and_end() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let monitor = HeartbeatMonitor::start(&zk, "/hearts", LONG).await.unwrap();
    let mut events = monitor.events();
    let heart = within(Heartbeat::start(&other, "/hearts", "a")).await.unwrap();
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Appeared("a".into())));
    within(heart.beat()).await.unwrap();
    assert_eq!(zk.get("/hearts/a").await.unwrap().data, "1");
    server.expire_session(other.session().id());
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Left("a".into())));
    // It appears again in the next session.
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Appeared("a".into())));
    assert_eq!(monitor.healths()["a"], Health::Alive);
    within(heart.stop()).await.unwrap();
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Left("a".into())));
    drop((monitor, events));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_heartbeat_without_beats_is_stale_until_the_next_one() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let heart = within(Heartbeat::start(&zk, "/hearts", "a")).await.unwrap();
    zk.create("/hearts/a.d/below", "").parents().await.unwrap();
    zk.delete("/hearts/a.d").recursive().await.unwrap();
    let monitor =
        HeartbeatMonitor::start(&zk, "/hearts", Duration::from_millis(300)).await.unwrap();
    let mut events = monitor.events();
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Stale("a".into())));
    tokio::select! {
        ended = heart.beat_every(Duration::from_millis(20)) => panic!("{ended:?}"),
        event = within(events.next()) => assert_eq!(event, Some(HeartbeatEvent::Recovered("a".into()))),
    }
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Stale("a".into())));
}

#[tokio::test]
async fn bad_input_to_messaging_is_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(Heartbeat::start(&zk, "/hearts", "").await.is_err());
    assert!(Heartbeat::start(&zk, "/hearts", "a/b").await.is_err());
    assert!(HeartbeatMonitor::start(&zk, "/hearts", Duration::ZERO).await.is_err());
    assert!(HeartbeatMonitor::start(&zk, "hearts", LONG).await.is_err());
    assert!(ProgressReporter::start(&zk, "progress").is_err());
    assert!(ProgressFeed::open(&zk, "/a//b").await.is_err());
    assert!(Dispatcher::new(&zk, "/").is_err());
    for id in ["", "a/b", "..", "a\0"] {
        assert!(CommandClient::join(&zk, "/fleet", id).await.is_err(), "{id:?}");
    }
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    assert!(matches!(console.dispatch_to(["a/b"], "x").await, Err(Error::InvalidArgument(_))));
    let huge = vec![0; 1_000_000];
    assert!(matches!(console.dispatch(huge).await, Err(Error::InvalidArgument(_))));
    for path in ["/hearts", "/fleet"] {
        assert!(zk.exists(path).await.unwrap().is_none(), "{path}");
    }
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn progress_is_seen_by_others_and_survives_lost_replies() {
    for op in [OpCode::Create2, OpCode::SetData] {
        for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
            let server = TestServer::start();
            let proxy = TestProxy::start(server.address());
            let (zk, behind) = (client(&server).await, client_behind(&proxy).await);
            let mut feed = ProgressFeed::open(&zk, "/job/progress").await.unwrap();
            let interval = Duration::from_millis(1);
            let reporter =
                ProgressReporter::start_with_interval(&behind, "/job/progress", interval).unwrap();
            let lost = proxy.add_rule(Rule::new(fault).on(op).path_containing("/job/progress"));
            for percent in [10, 20, 200] {
                let progress = Progress::new(percent, "working");
                reporter.report(progress.clone());
                within(reporter.flush()).await.unwrap();
                assert_eq!(within(feed.next()).await, Some(Ok(progress)));
            }
            assert_eq!(lost.fired(), 1, "{op:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn data_that_is_not_progress_is_reported_and_the_stream_continues() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/progress", "{}").await.unwrap();
    let mut feed = ProgressFeed::open(&zk, "/progress").await.unwrap();
    let read = within(feed.next()).await.unwrap();
    assert!(matches!(read, Err(Error::Codec { .. })), "{read:?}");
    zk.delete("/progress").await.unwrap();
    zk.create("/progress", r#"{"percent":7}"#).await.unwrap();
    assert_eq!(within(feed.next()).await, Some(Ok(Progress::new(7, ""))));
    drop(feed);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn progress_is_written_no_more_often_than_allowed() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    zk.create("/progress", "").await.unwrap();
    let reporter = ProgressReporter::start_with_interval(&zk, "/progress", LONG).unwrap();
    reporter.report(Progress::new(1, ""));
    within(reporter.flush()).await.unwrap();
    for percent in 2..100 {
        reporter.report(Progress::new(percent, ""));
        zk.sync("/").await.unwrap();
    }
    assert_eq!(proxy.traffic().requests(OpCode::SetData), 1);
}

type Log = Arc<Mutex<Vec<String>>>;

/// A client that logs what it carries out, and answers with that.
async fn run_logging(zk: &Client, id: &str, log: &Log) -> JoinHandle<herdsman_recipes::Result<()>> {
    let client = within(CommandClient::join(zk, "/fleet", id)).await.unwrap();
    let (log, id) = (Arc::clone(log), id.to_owned());
    tokio::spawn(client.run(move |command: Command| {
        let text = String::from_utf8_lossy(command.payload()).into_owned();
        log.lock().unwrap().push(format!("{id} {text}"));
        async move { Ok::<_, String>(text) }
    }))
}

fn logged(log: &Log) -> Vec<String> {
    let mut lines = log.lock().unwrap().clone();
    lines.sort();
    lines
}

async fn all(dispatched: &mut Dispatched) -> Vec<Ack> {
    let mut acks = within(dispatched.all()).await.unwrap();
    acks.sort_by(|a, b| a.client.cmp(&b.client));
    acks
}

/// The answers by client.
fn outcomes(acks: &[Ack]) -> Vec<(&str, Result<&[u8], &str>)> {
    let mut shown = Vec::new();
    for ack in acks {
        let outcome = match &ack.outcome {
            Ok(answer) => Ok(&answer[..]),
            Err(reason) => Err(reason.as_str()),
        };
        shown.push((ack.client.as_str(), outcome));
    }
    shown
}

#[tokio::test]
async fn commands_reach_present_clients_and_not_later_ones() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let log = Log::default();
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    let mut early = console.dispatch("early").await.unwrap();
    assert!(within(early.next()).await.is_none());
    let (a, b) = (run_logging(&zk, "a", &log).await, run_logging(&zk, "b", &log).await);
    assert_eq!(console.clients().await.unwrap().len(), 2);
    let mut first = console.dispatch("one").await.unwrap();
    assert_eq!(outcomes(&all(&mut first).await), [("a", Ok(&b"one"[..])), ("b", Ok(b"one"))]);
    let late = run_logging(&zk, "late", &log).await;
    let mut second = console.dispatch("two").await.unwrap();
    assert_eq!(all(&mut second).await.len(), 3);
    let mut third = console.dispatch_to(["b"], "three").await.unwrap();
    assert_eq!(outcomes(&all(&mut third).await), [("b", Ok(&b"three"[..]))]);
    assert_eq!(logged(&log), ["a one", "a two", "b one", "b three", "b two", "late two"]);
    for running in [a, b, late] {
        running.abort();
    }
    drop((early, first, second, third));
    eventually(|| server.watch_count() == 0).await;
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn an_acknowledged_command_is_not_repeated_after_a_restart() {
    let server = TestServer::start();
    let (zk, member) = (client(&server).await, client(&server).await);
    let log = Log::default();
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    let running = run_logging(&member, "a", &log).await;
    all(&mut console.dispatch("one").await.unwrap()).await;
    running.abort();
    let _ = running.await;
    // Sent while it is absent.
    let mut missed = console.dispatch_to(["a"], "two").await.unwrap();
    assert_eq!(missed.missing(), ["a"]);
    let again = client(&server).await;
    let _running = run_logging(&again, "a", &log).await;
    all(&mut missed).await;
    assert_eq!(logged(&log), ["a one", "a two"]);
}

/// A client that reports when it begins, and continues when it gets a permit.
async fn run_gated(
    zk: &Client,
    repetition: Repetition,
    begins: impl Fn() + Send + Sync + 'static,
    gate: &Arc<Semaphore>,
) -> JoinHandle<herdsman_recipes::Result<()>> {
    let client = within(CommandClient::join(zk, "/fleet", "a")).await.unwrap();
    let gate = Arc::clone(gate);
    tokio::spawn(client.repetition(repetition).run(move |_| {
        begins();
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, String>("done")
        }
    }))
}

/// A client that dies while it carries out a command, and joins again.
async fn die_and_join_again(repetition: Repetition) -> (Vec<u32>, Result<Bytes, String>) {
    let server = TestServer::start();
    let zk = client(&server).await;
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (sender, mut started) = mpsc::unbounded_channel();
    let begins = |life: u32| {
        let sender = sender.clone();
        move || sender.send(life).unwrap()
    };
    let member = client(&server).await;
    let first = run_gated(&member, repetition, begins(1), &gate).await;
    let mut dispatched = console.dispatch("x").await.unwrap();
    assert_eq!(within(started.recv()).await, Some(1));
    first.abort();
    server.expire_session(member.session().id());
    let left = within(dispatched.next()).await.unwrap().unwrap();
    assert_eq!(left, Answer::Left { client: "a".into() });
    assert_eq!(dispatched.missing(), ["a"]);
    let back = client(&server).await;
    let _second = run_gated(&back, repetition, begins(2), &gate).await;
    gate.add_permits(1);
    let Some(Ok(Answer::Acked(ack))) = within(dispatched.next()).await else {
        panic!("no acknowledgement");
    };
    assert!(within(dispatched.next()).await.is_none());
    let mut lives = vec![1];
    while let Ok(life) = started.try_recv() {
        lives.push(life);
    }
    (lives, ack.outcome)
}

#[tokio::test]
async fn a_command_that_was_interrupted_is_repeated() {
    assert_eq!(die_and_join_again(Repetition::Repeat).await, (vec![1, 2], Ok("done".into())));
}

#[tokio::test]
async fn an_interrupted_command_is_given_up_if_so_configured() {
    let (lives, outcome) = die_and_join_again(Repetition::GiveUp).await;
    assert_eq!(lives, [1]);
    assert!(outcome.unwrap_err().contains("interrupted"));
}

/// Reports when a handler begins, and when it is dropped.
struct Handling(mpsc::UnboundedSender<&'static str>);

impl Handling {
    fn begin(sender: &mpsc::UnboundedSender<&'static str>) -> Self {
        sender.send("begins").unwrap();
        Handling(sender.clone())
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        // Fails when the test has ended.
        let _ = self.0.send("stops");
    }
}

/// It used to keep working, and another client with its id did the same work at the same time.
#[tokio::test]
async fn a_disconnected_client_stops_by_itself_and_waits_for_its_node() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, cut_off) = (client(&server).await, client_behind(&proxy).await);
    let first = within(CommandClient::join(&cut_off, "/fleet", "a")).await.unwrap();
    let (sender, mut started) = mpsc::unbounded_channel();
    let first = tokio::spawn(first.run(move |_| {
        let handling = Handling::begin(&sender);
        async move {
            let _handling = handling;
            std::future::pending::<Result<&str, String>>().await
        }
    }));
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    let mut dispatched = console.dispatch("x").await.unwrap();
    assert_eq!(within(started.recv()).await, Some("begins"));
    proxy.partition();
    assert_eq!(within(started.recv()).await, Some("stops"));
    // No server has told it yet.
    assert!(!cut_off.session().state().is_connected());
    let gate = Arc::new(Semaphore::new(1));
    let second = run_gated(&zk, Repetition::Repeat, || {}, &gate).await;
    let acks = all(&mut dispatched).await;
    assert_eq!(outcomes(&acks), [("a", Ok(&b"done"[..]))]);
    proxy.heal();
    second.abort();
    let _dispatched = console.dispatch_to(["a"], "y").await.unwrap();
    assert_eq!(within(started.recv()).await, Some("begins"));
    assert!(!first.is_finished());
}

#[tokio::test]
async fn commands_survive_lost_replies_and_are_done_once() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        for is_console in [true, false] {
            sweep(fault, is_console).await;
        }
    }
}

/// Loses each write in turn, on one side.
async fn sweep(fault: Fault, is_console: bool) {
    for skip in 0.. {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (direct, behind) = (client(&server).await, client_behind(&proxy).await);
        let (console, member) = if is_console { (behind, direct) } else { (direct, behind) };
        let ops = [OpCode::Multi, OpCode::Create2, OpCode::SetData, OpCode::CreateContainer];
        let rule = ops.iter().fold(Rule::new(fault), |rule, op| rule.on(*op));
        let lost = proxy.add_rule(rule.skip(skip));
        let log = Log::default();
        let client = within(CommandClient::join(&member, "/fleet", "a")).await.unwrap();
        let client = client.repetition(Repetition::GiveUp);
        let lines = Arc::clone(&log);
        let running = tokio::spawn(client.run(move |command: Command| {
            let text = String::from_utf8_lossy(command.payload()).into_owned();
            lines.lock().unwrap().push(text.clone());
            async move { Ok::<_, String>(text) }
        }));
        let console = Dispatcher::new(&console, "/fleet").unwrap();
        for text in ["one", "two"] {
            let mut dispatched = within(console.dispatch_to(["a"], text)).await.unwrap();
            let acks = all(&mut dispatched).await;
            assert_eq!(outcomes(&acks), [("a", Ok(text.as_bytes()))], "skip {skip}");
        }
        assert_eq!(*log.lock().unwrap(), ["one", "two"], "skip {skip}");
        running.abort();
        if lost.fired() == 0 {
            assert!(skip > 1, "the fault was hardly ever triggered");
            return;
        }
    }
}

#[tokio::test]
async fn only_the_latest_commands_are_kept() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let console = Dispatcher::new(&zk, "/fleet").unwrap().history_max(2);
    let mut oldest = console.dispatch_to(["away"], "0").await.unwrap();
    let left = within(oldest.next()).await.unwrap().unwrap();
    assert_eq!(left, Answer::Left { client: "away".into() });
    for text in ["1", "2", "3"] {
        console.dispatch_to(["away"], text).await.unwrap();
    }
    assert_eq!(zk.children("/fleet/commands").await.unwrap().names.len(), 2);
    let error = within(oldest.next()).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NoNode));
    assert!(within(oldest.next()).await.is_none());
    // A client that was absent gets the commands that were kept, in order.
    let log = Log::default();
    let mut last = console.dispatch_to(["away"], "4").await.unwrap();
    let _running = run_logging(&zk, "away", &log).await;
    within(async { while last.next().await.is_some() {} }).await;
    assert_eq!(*log.lock().unwrap(), ["away 3", "away 4"]);
}

/// The beats arrive late, and the connection is not lost.
#[tokio::test]
async fn a_monitor_that_hears_nothing_reports_no_program_as_stale() {
    const STALE_AFTER: Duration = Duration::from_millis(500);
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let heart = within(Heartbeat::start(&other, "/hearts", "a")).await.unwrap();
    let beats = tokio::spawn(async move { heart.beat_every(Duration::from_millis(20)).await });
    let monitor = HeartbeatMonitor::start(&zk, "/hearts", STALE_AFTER).await.unwrap();
    let mut events = monitor.events();
    proxy.partition_one_way(Direction::ToClient);
    let event = tokio::time::timeout(2 * STALE_AFTER, events.next()).await;
    assert!(event.is_err(), "{event:?}");
    proxy.heal();
    within(zk.sync("/").send()).await.unwrap();
    assert_eq!(monitor.healths()["a"], Health::Alive);
    beats.abort();
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Left("a".into())));
}

#[tokio::test]
async fn failures_are_acknowledged_and_foreign_nodes_ignored() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let client = within(CommandClient::join(&zk, "/fleet", "a")).await.unwrap();
    let _running = tokio::spawn(client.run(|command: Command| async move {
        let number: u32 = command.json().map_err(|error| error.to_string())?;
        assert!(number < 10, "a bug");
        Ok((number + 1).to_string())
    }));
    zk.create("/fleet/commands/readme", "hello").parents().await.unwrap();
    zk.create("/fleet/commands/_c_x-cmd-", "no header").sequential().await.unwrap();
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    for (payload, expected) in
        [("1", Ok("2")), ("x", Err("cannot be read")), ("11", Err("died")), ("2", Ok("3"))]
    {
        let mut dispatched = console.dispatch(payload).await.unwrap();
        let acks = all(&mut dispatched).await;
        match (&acks[0].outcome, expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(answer, expected),
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{payload}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn commands_continue_in_the_next_session_and_on_a_restarted_server() {
    let mut server = TestServer::start();
    let (zk, member) = (client(&server).await, client(&server).await);
    let log = Log::default();
    let console = Dispatcher::new(&zk, "/fleet").unwrap();
    let _running = run_logging(&member, "a", &log).await;
    all(&mut console.dispatch("one").await.unwrap()).await;
    server.expire_session(member.session().id());
    all(&mut console.dispatch_to(["a"], "two").await.unwrap()).await;
    server.restart();
    let mut third = within(console.dispatch_to(["a"], "three")).await.unwrap();
    all(&mut third).await;
    assert_eq!(*log.lock().unwrap(), ["a one", "a two", "a three"]);
}
