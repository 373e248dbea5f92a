//! A server, and shells that talk to it with captured streams.

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use clap::{Args as _, FromArgMatches as _};
use herdsman_shell::{Arguments, Streams, modernized, run_with};
use herdsman_testing::TestServer;

/// What a shell has printed, and its exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: u8,
    pub out: String,
    pub errors: String,
}

impl Ran {
    /// The output of a shell that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.errors.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The one line of a shell that must have failed with this code.
    #[track_caller]
    pub fn failed(self, code: u8) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let line = self.errors.strip_suffix('\n').expect("an error has a line");
        assert!(!line.contains('\n'), "one line, not {:?}", self.errors);
        line.to_owned()
    }
}

/// Captured output; clones share it.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no thread panics while writing").clone())
            .expect("the shell prints UTF-8 here")
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

/// The arguments after `herdsman shell`, parsed as the binary does.
pub fn arguments(words: &[&str]) -> Arguments {
    let all = ["herdsman", "shell"].iter().chain(words);
    let all = modernized(all.map(|word| (*word).into()));
    let command = Arguments::augment_args(clap::Command::new("herdsman shell"));
    let matches = command.get_matches_from(all.into_iter().skip(1));
    Arguments::from_arg_matches(&matches).expect("the arguments are complete")
}

/// Runs a shell with this input.
pub fn shell(words: &[&str], input: &str) -> Ran {
    let (out, errors) = (Captured::default(), Captured::default());
    let input = Cursor::new(input.to_owned().into_bytes());
    let code = run_with(&arguments(words), Streams::new(input, out.clone(), errors.clone()));
    Ran { code, out: out.text(), errors: errors.text() }
}

/// A server of one test.
pub struct World {
    pub server: TestServer,
}

impl World {
    pub fn start() -> Self {
        World { server: TestServer::start() }
    }

    /// `herdsman shell --server … WORDS`.
    pub fn run(&self, words: &[&str]) -> Ran {
        let servers = self.server.connect_string();
        shell(&[&["--server", servers.as_str()], words].concat(), "")
    }

    /// Runs commands from a pipe.
    pub fn pipe(&self, lines: &str) -> Ran {
        shell(&["--server", &self.server.connect_string()], lines)
    }

    /// Runs commands from a pipe; all must succeed.
    #[track_caller]
    pub fn pipe_ok(&self, lines: &str) -> String {
        self.pipe(lines).ok()
    }
}
