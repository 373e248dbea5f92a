//! Scenarios as text: commands, `---`, and the transcript they must give. The first comment of a
//! script says what it shows. With `HERDSMAN_REGENERATE=1` the transcripts are written anew; read
//! the difference before you keep it.
//!
//! A vote is written `leader/zxid/epoch`. Commands:
//! - `members WORDS` (see `membership`), `finalize MS`, `log ID ZXID EPOCH` (its own vote),
//!   first of all;
//! - `empty ID …` (it starts without any data), `look ID …`, `crash ID …`, `joined ID FROM`, `epoch ID EPOCH` (it is established), `members-of
//!   ID WORDS` or `members-of ID WORDS then WORDS` (the server goes by others);
//! - `deliver` (everything, one message of each link at a time, also what follows), `deliver
//!   FROM>TO …` (the oldest on a link), `lose FROM>TO …`, `cut FROM>TO …`, `heal`;
//! - `hear ID FROM STATE ROUND VOTE` (a message without a network);
//! - `wait MS` (nothing is delivered), `run MS` (everything is, at once), `status`.

use std::fs;
use std::path::Path;

use herdsman_proto::{Notification, ServerId, ServerState, Vote, Zxid};

use crate::network::{Event, Link, Network, kind_in, membership};

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/election");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("there are scripts")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort_unstable();
    assert!(files.len() > 15, "the scripts are gone");
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a script, if anything is.
fn check(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).expect("a readable script");
    let (commands, expected) = text.split_once("---\n").unwrap_or((&text, ""));
    assert!(commands.starts_with("# "), "{} does not say what it shows", file.display());
    let transcript = Play::run(commands);
    if std::env::var_os("HERDSMAN_REGENERATE").is_some() {
        fs::write(file, format!("{commands}---\n{transcript}")).expect("a writable script");
    } else if transcript != expected {
        let lines = transcript.lines().zip(expected.lines().chain(std::iter::repeat("")));
        let first = lines.enumerate().find(|(_, (found, expected))| found != expected);
        return Some(format!("{}: first difference {first:?}\n{transcript}", file.display()));
    }
    None
}

struct Play {
    network: Network,
    transcript: String,
}

impl Play {
    fn run(commands: &str) -> String {
        let lines = commands.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut play =
            Play { network: Network::new(membership("1 2 3")), transcript: String::new() };
        for line in lines {
            play.transcript.push_str(&format!("> {line}\n"));
            let words: Vec<_> = line.split_whitespace().collect();
            play.command(words[0], &words[1..]);
        }
        play.transcript
    }

    fn command(&mut self, command: &str, words: &[&str]) {
        match command {
            "members" => self.network = Network::new(membership(&words.join(" "))),
            "finalize" => self.network.settings.finalize_wait_ms = number(words[0]) as u64,
            "log" => {
                let vote =
                    Vote { leader: id(words[0]), zxid: zxid(words[1]), epoch: number(words[2]) };
                self.network.own.insert(vote.leader, vote);
            }
            "look" => {
                words.iter().for_each(|word| self.network.start(id(word)));
                words.iter().for_each(|word| self.look(id(word)));
            }
            "empty" => words.iter().for_each(|word| {
                self.network.start(id(word));
                self.server(word).set_started_empty(true);
            }),
            "crash" => words.iter().for_each(|word| self.network.crash(id(word))),
            "joined" => self.server(words[0]).joined_by(id(words[1])),
            "epoch" => self.server(words[0]).took_epoch(number(words[1]) as u32),
            "members-of" => self.set_membership(words),
            "deliver" if words.is_empty() => self.deliver_all(),
            "deliver" => words.iter().for_each(|word| self.deliver(link(word))),
            "lose" => words.iter().for_each(|word| {
                self.network.lose(link(word)).expect("a message to lose");
            }),
            "cut" => self.network.cut.extend(words.iter().map(|word| link(word))),
            "heal" => self.network.cut.clear(),
            "hear" => self.hear(words),
            "wait" => self.pass(number(words[0]) as u64, |_| {}),
            "run" => self.pass(number(words[0]) as u64, Play::deliver_all),
            "status" => self.status(),
            other => panic!("{other} is no command"),
        }
    }

    fn server(&mut self, word: &str) -> &mut herdsman_zab::election::Election {
        self.network.servers.get_mut(&id(word)).expect("a running server")
    }

    fn look(&mut self, id: ServerId) {
        let events = self.network.look(id);
        self.note("", &events);
    }

    fn set_membership(&mut self, words: &[&str]) {
        let text = words[1..].join(" ");
        let (current, last_seen) = match text.split_once(" then ") {
            Some((current, last_seen)) => (membership(current), Some(membership(last_seen))),
            None => (membership(&text), None),
        };
        let kind = kind_in(&current, id(words[0]));
        self.server(words[0]).set_membership(&current, last_seen.as_ref(), kind);
    }

    fn deliver(&mut self, (from, to): Link) {
        let events = self.network.deliver((from, to));
        self.note(&format!("{from}>{to}: "), &events);
    }

    fn deliver_all(&mut self) {
        for _ in 0..100 {
            let busy = self.network.busy();
            if busy.is_empty() {
                return;
            }
            busy.into_iter().for_each(|link| self.deliver(link));
        }
        panic!("they talk without end:\n{}", self.transcript);
    }

    fn hear(&mut self, words: &[&str]) {
        let state = match words[2] {
            "looking" => ServerState::Looking,
            "following" => ServerState::Following,
            "leading" => ServerState::Leading,
            "observing" => ServerState::Observing,
            other => panic!("{other} is no state"),
        };
        let vote = words[4].split('/').collect::<Vec<_>>();
        let vote = Vote { leader: id(vote[0]), zxid: zxid(vote[1]), epoch: number(vote[2]) };
        let message = Notification { state, vote, round: number(words[3]), config: String::new() };
        let events = self.network.hear(id(words[0]), id(words[1]), &message);
        self.note("", &events);
    }

    /// Lets time pass, from one deadline to the next.
    fn pass(&mut self, wait_ms: u64, between: impl Fn(&mut Play)) {
        let end = self.network.now_ms + wait_ms;
        between(self);
        while let Some((at, id)) = self.network.next_deadline().filter(|(at, _)| *at <= end) {
            self.network.now_ms = at;
            let events = self.network.tick(id);
            self.note(&format!("at {at}: "), &events);
            between(self);
        }
        self.network.now_ms = end;
    }

    fn note(&mut self, cause: &str, events: &[Event]) {
        for event in events {
            let text = match event {
                Event::Tells(id, to, message) => {
                    let to: Vec<_> = to.iter().map(ToString::to_string).collect();
                    let Notification { state, vote, round, .. } = message;
                    format!("{id} tells {}: {state:?} {round} {}", to.join(" "), vote_text(*vote))
                }
                Event::Decides(id, decision) => {
                    let state = self.network.servers[id].state();
                    format!("{id} is {state:?}, the leader is {}", decision.leader)
                }
                Event::SupportLost(id) => format!("{id} is deserted"),
            };
            self.transcript.push_str(&format!("  {cause}{text}\n"));
        }
    }

    fn status(&mut self) {
        for (id, server) in &self.network.servers {
            let (state, round, vote) = (server.state(), server.round(), vote_text(server.vote()));
            let deadline = server.next_deadline().map_or("-".to_owned(), |at| at.to_string());
            let line = format!("  {id} {state:?} {round} {vote} next={deadline}\n");
            self.transcript.push_str(&line);
        }
    }
}

fn vote_text(vote: Vote) -> String {
    let number = |number: i64| match number {
        i64::MIN => "min".to_owned(),
        number => number.to_string(),
    };
    let zxid = if vote.zxid.0 == i64::MIN { "min".to_owned() } else { vote.zxid.to_string() };
    format!("{}/{zxid}/{}", number(vote.leader.0), number(vote.epoch))
}

fn id(word: &str) -> ServerId {
    ServerId(number(word))
}

fn link(word: &str) -> Link {
    let (from, to) = word.split_once('>').expect("a link such as 1>2");
    (id(from), id(to))
}

fn zxid(word: &str) -> Zxid {
    match word.strip_prefix("0x") {
        Some(hex) => Zxid(i64::from_str_radix(hex, 16).expect("a zxid")),
        None => Zxid(number(word)),
    }
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}
