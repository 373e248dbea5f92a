//! `history` and `redo`.

use clap::Args;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::words;

/// List the newest commands with their numbers.
#[derive(Args, Debug)]
#[command(after_help = "Secrets are not shown. `redo NUMBER` runs one of them again.")]
pub(crate) struct History {}

/// The newest ten and this one, as in zkCli.
const SHOWN: usize = 11;

impl Run for History {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let newest: Vec<_> = shell.transcript.newest(SHOWN).collect();
        for (number, line) in newest {
            match shell.output.is_json() {
                true => shell.output.json(&json!({"number": number, "command": line}))?,
                false => shell.output.say(format!("{number} - {}", printable(&line)))?,
            }
        }
        Ok(())
    }
}

/// Run a command of the history again.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redo 3     the command with number 3 in `history`")]
pub(crate) struct Redo {
    /// The number in `history`.
    #[arg(value_name = "NUMBER")]
    number: usize,
}

impl Run for Redo {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let line = match shell.transcript.get(self.number) {
            Some(line) if self.number + 1 < shell.transcript.count() => line.to_owned(),
            _ => {
                let text = format!("redo: there is no command {}; see `history`", self.number);
                return Err(Failure::usage(text));
            }
        };
        let words = words::split(&line)?;
        if words.first().is_some_and(|name| name.eq_ignore_ascii_case("redo")) {
            return Err(Failure::usage("redo: a redo cannot be redone"));
        }
        shell.transcript.replace_newest(&line);
        Box::pin(shell.execute(&words)).await
    }
}
