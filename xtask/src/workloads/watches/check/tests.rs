//! Sessions with late, duplicate, missing and unfounded events.

use super::*;
use crate::wire::Watches;
use crate::workloads::history::Answer;
use crate::workloads::history::made::*;

const WRITER: i64 = 1;
const WATCHER: i64 = 2;

struct Scenario(Vec<Record>);

impl Scenario {
    /// `/w/a` was created at 2; the watcher is connected.
    fn new() -> Scenario {
        let mut story = Scenario(Vec::new());
        story.write(created("/w/a", "x", 2));
        story.connect();
        story
    }

    fn write(&mut self, (op, outcome): (Op, Outcome)) {
        next(&mut self.0, WRITER, op, outcome);
    }

    fn set(&mut self, zxid: i64) {
        let answer = Answer::Stat(stat(2, zxid, 1, "y"));
        self.write((Op::set_data("/w/a", Some(b"y"), -1), done(zxid, answer)));
    }

    fn connect(&mut self) {
        self.0.push(Record { session: WATCHER, note: Note::Connected(0) });
    }

    fn ask(&mut self, op: Op, zxid: i64) {
        next(&mut self.0, WATCHER, op, done(zxid, Answer::Nothing));
    }

    fn absent(&mut self, op: Op, zxid: i64) {
        next(&mut self.0, WATCHER, op, refused(zxid, NO_NODE));
    }

    fn event(&mut self, zxid: i64, kind: i32, path: &str) {
        let note = Note::Event(Event { zxid, kind, path: path.into() });
        self.0.push(Record { session: WATCHER, note });
    }

    fn restore(&mut self, since: i64, zxid: i64) {
        self.ask(Op::SetWatches { since, watches: Watches::default() }, zxid);
    }

    fn findings(self) -> Findings {
        check(&self.0)
    }
}

fn data_watch() -> Op {
    Op::get_data("/w/a").watched()
}

#[test]
fn an_event_in_time_is_fine() {
    let mut story = Scenario::new();
    story.ask(data_watch(), 3);
    story.set(5);
    story.event(5, DATA_CHANGED, "/w/a");
    story.ask(Op::get_data("/w/a"), 5);
    let findings = story.findings();
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn an_event_after_the_reply_is_too_late() {
    let mut story = Scenario::new();
    story.ask(data_watch(), 3);
    story.set(5);
    story.ask(Op::get_data("/w/a"), 5);
    story.event(5, DATA_CHANGED, "/w/a");
    let findings = story.findings();
    assert_eq!((findings.lost.len(), findings.wrong.len()), (1, 1), "{findings:?}");
}

#[test]
fn an_event_needs_a_watch_and_a_change() {
    let mut story = Scenario::new();
    story.set(5);
    story.event(5, DATA_CHANGED, "/w/a");
    assert_eq!(story.findings().wrong.len(), 1);
    let mut story = Scenario::new();
    story.ask(data_watch(), 3);
    story.event(5, DATA_CHANGED, "/w/a");
    assert_eq!(story.findings().wrong.len(), 1);
    let mut story = Scenario::new();
    story.set(3);
    story.ask(data_watch(), 4);
    story.event(3, DATA_CHANGED, "/w/a");
    assert_eq!(story.findings().wrong.len(), 1);
}

#[test]
fn a_change_of_unknown_outcome_may_be_reported() {
    let mut story = Scenario::new();
    story.ask(data_watch(), 3);
    story.write((Op::set_data("/w/a", None, -1), Outcome::Unknown));
    story.event(5, DATA_CHANGED, "/w/a");
    assert!(story.findings().is_empty());
}

#[test]
fn a_one_shot_watch_fires_once() {
    let mut story = Scenario::new();
    story.ask(data_watch(), 3);
    story.set(5);
    story.set(6);
    story.event(5, DATA_CHANGED, "/w/a");
    story.event(6, DATA_CHANGED, "/w/a");
    assert_eq!(story.findings().wrong.len(), 1);
}

#[test]
fn changes_of_children_are_reported() {
    let mut story = Scenario::new();
    story.ask(Op::list("/w").watched(), 3);
    story.write(created("/w/b", "", 4));
    story.event(4, CHILDREN_CHANGED, "/w");
    story.ask(Op::list("/w").watched(), 4);
    story.set(5);
    story.write((Op::delete("/w/b", -1), done(6, Answer::Nothing)));
    story.ask(Op::list("/w"), 7);
    assert_eq!(story.findings().lost.len(), 1);
}

#[test]
fn a_reconnect_misses_nothing() {
    let missed = |reported: bool| {
        let mut story = Scenario::new();
        story.ask(data_watch(), 3);
        story.set(5);
        story.connect();
        if reported {
            story.event(-1, DATA_CHANGED, "/w/a");
        }
        story.restore(3, 6);
        story.ask(Op::get_data("/w/a"), 7);
        story.findings()
    };
    assert!(missed(true).is_empty());
    assert_eq!(missed(false).lost.len(), 1);
}

#[test]
fn an_absent_node_that_stays_absent_is_not_reported() {
    let story = |deleted: bool| {
        let mut story = Scenario::new();
        story.absent(Op::exists("/w/b").watched(), 3);
        story.write(created("/w/b", "", 4));
        if deleted {
            story.write((Op::delete("/w/b", -1), done(5, Answer::Nothing)));
        }
        story.connect();
        story.restore(3, 6);
        story.findings()
    };
    assert!(story(true).is_empty());
    assert_eq!(story(false).lost.len(), 1);
}

#[test]
fn a_recursive_watch_reports_everything_once() {
    let story = |events: &[i64]| {
        let mut story = Scenario::new();
        story.ask(Op::AddWatch { path: "/w".into() }, 3);
        story.set(5);
        story.set(6);
        events.iter().for_each(|zxid| story.event(*zxid, DATA_CHANGED, "/w/a"));
        story.ask(Op::get_data("/w/a"), 6);
        story.findings()
    };
    assert!(story(&[5, 6]).is_empty());
    assert_eq!(story(&[6]).lost.len(), 1);
    assert_eq!(story(&[5, 5, 6]).wrong.len(), 1);
    assert_eq!(story(&[6, 5]).wrong.len(), 1);
}
