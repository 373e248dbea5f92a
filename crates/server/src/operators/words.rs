//! Four-letter words, which operators send to the client port. Apache: `FourLetterCommands`.
//!
//! In: the first four bytes of a connection and the bytes after them. Out: the answer as text,
//! after which the connection closes. One table defines the words; it generates the dispatch
//! and the list in docs/operating.md. The caller decides whether a word may be used
//! (`4lw.commands.whitelist`).
//!
//! Answers are Apache 3.9.5's, byte for byte where the values are equal; lists that Apache prints in
//! the order of its hash tables are sorted here. The data for an answer is collected first, under
//! the locks of the node and the tree, and formatted after they are released.

mod connections;
mod dump;
mod environment;
pub(crate) mod java;
mod markdown;
mod monitor;
pub(crate) mod process;
pub mod report;
pub(crate) mod status;
mod version;
mod watches;

use std::sync::atomic::Ordering;

pub use connections::last_op;
pub use markdown::{metrics_markdown, words_markdown};
pub(crate) use status::directory_sizes;
pub(crate) use version::full_version;

use herdsman_node::ServesAs;

use crate::clients::io_threads::ServerContext;

/// The answer of most words while the server starts or stops.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";
/// Apache sends answers in packets of this many characters.
const PACKET_BYTES: usize = 8192;

/// A word.
struct Word {
    /// The first bytes of the connection.
    bytes: [u8; 4],
    /// One sentence about its answer.
    about: &'static str,
    /// The number of bytes that follow the first four.
    operand_bytes: usize,
    /// Its answer while the server does not serve; `None` if that makes no difference.
    not_serving: Option<&'static str>,
    /// Its answer; the second argument is what followed the word.
    answer: fn(&ServerContext, &[u8]) -> String,
}

/// All words, ordered by name.
static TABLE: [Word; 19] = [
    word(b"conf", "The configuration in use.", |shared, _| status::conf(shared)),
    word(b"cons", "Every connection with its session, last request and latencies.", |shared, _| {
        status::cons(shared)
    }),
    word(b"crst", "Sets the counters of all connections to 0.", |shared, _| status::crst(shared)),
    word(b"dirs", "Bytes in the directories of snapshots and of logs.", |shared, _| {
        status::dirs(shared)
    }),
    word(
        b"dump",
        "Sessions and connections by the time they expire, and all ephemerals.",
        |shared, _| dump::dump(shared),
    ),
    Word {
        not_serving: None,
        ..word(b"envi", "Version, machine and user.", |_, _| environment::envi())
    },
    Word {
        not_serving: None,
        ..word(b"gtmk", "The trace mask, a number that has no effect here.", |shared, _| {
            shared.trace_mask.load(Ordering::Relaxed).cast_signed().to_string()
        })
    },
    Word {
        not_serving: Some("This ZooKeeper instance is not currently serving requests"),
        ..word(b"hash", "Recent digests of the tree, to compare servers.", |shared, _| {
            status::hash(shared)
        })
    },
    Word {
        not_serving: Some("null"),
        ..word(b"isro", "`ro` if this server is read-only, otherwise `rw`.", |shared, _| {
            let is_read_only = role(shared) == Some(ServesAs::ReadOnly);
            if is_read_only { "ro" } else { "rw" }.to_owned()
        })
    },
    word(b"mntr", "All metrics, one per line.", |shared, _| monitor::mntr(shared)),
    Word { not_serving: None, ..word(b"ruok", "`imok`.", |_, _| "imok".to_owned()) },
    word(b"srst", "Sets counters and summaries of the server to 0.", |shared, _| {
        status::srst(shared)
    }),
    word(b"srvr", "Version, latencies, counts, last zxid and role.", |shared, _| {
        status::srvr(shared)
    }),
    word(b"stat", "Like `srvr`, and every connection.", |shared, _| status::stat(shared)),
    Word {
        not_serving: None,
        operand_bytes: 8,
        ..word(b"stmk", "Sets the trace mask (has no effect here).", set_trace_mask)
    },
    word(b"wchc", "Data watches by session; the answer can be long.", |shared, _| {
        watches::wchc(shared)
    }),
    word(b"wchp", "Data watches by path; the answer can be long.", |shared, _| {
        watches::wchp(shared)
    }),
    word(b"wchs", "Numbers of connections with data watches and of watched paths.", |shared, _| {
        watches::wchs(shared)
    }),
    Word {
        not_serving: None,
        ..word(&TELNET_CLOSE, "No answer: telnet sends it when it is interrupted.", |_, _| {
            String::new()
        })
    },
];

/// Telnet's code for an interrupted process.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

const fn word(
    bytes: &[u8; 4],
    about: &'static str,
    answer: fn(&ServerContext, &[u8]) -> String,
) -> Word {
    Word { bytes: *bytes, about, operand_bytes: 0, not_serving: Some(NOT_SERVING), answer }
}

/// A word that was recognised.
#[derive(Clone, Copy)]
pub struct Command(&'static Word);

impl Command {
    /// The command with these first four bytes.
    #[must_use]
    pub fn of(bytes: [u8; 4]) -> Option<Self> {
        TABLE.iter().find(|word| word.bytes == bytes).map(Command)
    }

    /// Its name, as the whitelist has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// How many bytes must follow the word.
    #[must_use]
    pub fn operand_bytes(self) -> usize {
        self.0.operand_bytes
    }
}

impl Word {
    fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or("telnet close")
    }
}

/// The answer; `rest` is what followed the word.
pub(crate) fn answer(shared: &ServerContext, command: Command, rest: &[u8]) -> String {
    match command.0.not_serving {
        Some(text) if !is_serving(shared) => text.to_owned(),
        _ => (command.0.answer)(shared, rest),
    }
}

/// As in Apache, a leader that serves no clients (`leaderServes=no`) does not answer most words.
fn is_serving(shared: &ServerContext) -> bool {
    !shared.stopping.load(Ordering::Acquire)
        && shared.core.with_node(herdsman_node::Node::serves_clients)
}

/// The current role.
fn role(shared: &ServerContext) -> Option<ServesAs> {
    shared.core.with_node(herdsman_node::Node::serves_as)
}

/// Apache's word for the role.
fn role_name(shared: &ServerContext) -> &'static str {
    match role(shared) {
        Some(ServesAs::Standalone) | None => "standalone",
        Some(ServesAs::Leader) => "leader",
        Some(ServesAs::Follower) => "follower",
        Some(ServesAs::Observer) => "observer",
        Some(ServesAs::ReadOnly) => "read-only",
    }
}

/// The number of packets that Apache would count for an answer.
pub(crate) fn packets(text: &str) -> u64 {
    text.len().div_ceil(PACKET_BYTES) as u64
}

fn set_trace_mask(shared: &ServerContext, rest: &[u8]) -> String {
    let Some(&mask) = rest.first_chunk() else { return String::new() };
    let mask = i64::from_be_bytes(mask);
    shared.trace_mask.store(mask.cast_unsigned(), Ordering::Relaxed);
    mask.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_bytes() {
        let name = |bytes: &[u8; 4]| Command::of(*bytes).map(Command::name);
        assert_eq!(name(b"ruok"), Some("ruok"));
        assert_eq!(name(b"wchs"), Some("wchs"));
        assert_eq!(name(&TELNET_CLOSE), Some("telnet close"));
        assert_eq!(name(b"RUOK"), None);
        assert_eq!(name(b"\0\0\0\x2d"), None);
    }

    #[test]
    fn the_table_is_sorted_and_has_no_word_twice() {
        assert!(TABLE.is_sorted_by(|one, other| one.bytes < other.bytes));
    }

    #[test]
    fn only_one_word_has_an_operand() {
        let with_operand: Vec<_> =
            TABLE.iter().filter(|word| word.operand_bytes > 0).map(Word::name).collect();
        assert_eq!(with_operand, ["stmk"]);
    }

    #[test]
    fn long_answers_are_several_packets() {
        assert_eq!(packets(""), 0);
        assert_eq!(packets("imok"), 1);
        assert_eq!(packets(&"x".repeat(PACKET_BYTES + 1)), 2);
    }
}
