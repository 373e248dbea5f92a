//! `get`: prints the data of a znode.

use clap::Args;
use serde_json::{Map, Value};

use super::Run;
use crate::failure::Failure;
use crate::format::{Encoding, base64_of, data_json, hexdump, stat_json, stat_lines, text_of};
use crate::shell::Shell;
use crate::watches::WatchKind;

/// Print the data of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  get /app/config        the data; bytes that are not text are escaped as \\x1b
  get -s /app/config     also the stat
  get -w /app/config     also report the next change
  get -x /app/config     as a hexdump
  get -b /app/config     in base64")]
pub(crate) struct Get {
    /// Also print the stat.
    #[arg(short = 's')]
    stat: bool,
    /// Watch the data: report its next change.
    #[arg(short = 'w')]
    watch: bool,
    /// Print the data in base64.
    #[arg(short = 'b', conflicts_with = "hexdump")]
    base64: bool,
    /// Print the data as a hexdump.
    #[arg(short = 'x')]
    hexdump: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// As in zkCli before 3.5.
    #[arg(hide = true)]
    deprecated_watch: Option<String>,
}

impl Run for Get {
    async fn run(mut self, shell: &mut Shell) -> Result<(), Failure> {
        if self.deprecated_watch.is_some() {
            let note =
                "'get path [watch]' has been deprecated. Please use 'get [-s] [-w] path' instead.";
            shell.output.note(note);
            self.watch = true;
        }
        let call = shell.client()?.get(&self.path);
        let node = match self.watch {
            true => {
                let (node, watch) = call.watch().await?;
                shell.watches.keep(&self.path, WatchKind::Data, watch)?;
                node
            }
            false => call.await?,
        };
        if shell.output.is_json() {
            return self.say_json(shell, &node);
        }
        self.say_data(shell, &node.data)?;
        match self.stat {
            true => shell.output.say(stat_lines(&node.stat)),
            false => Ok(()),
        }
    }
}

impl Get {
    /// Prints the data, unchanged to a file or a pipe, escaped on a terminal.
    fn say_data(&self, shell: &mut Shell, data: &[u8]) -> Result<(), Failure> {
        if self.hexdump {
            shell.output.say(hexdump(data))
        } else if self.base64 {
            shell.output.say(base64_of(data))
        } else if shell.output.terminal().output {
            shell.output.say(text_of(data))
        } else {
            shell.output.say_bytes(data)
        }
    }

    fn say_json(&self, shell: &mut Shell, node: &herdsman_client::Node) -> Result<(), Failure> {
        let encoding = match self.base64 {
            true => Encoding::Base64,
            false => Encoding::Text,
        };
        let mut answer = Map::new();
        answer.insert("path".to_owned(), Value::from(self.path.as_str()));
        data_json(&mut answer, &node.data, encoding);
        if self.stat {
            answer.insert("stat".to_owned(), stat_json(&node.stat));
        }
        shell.output.json(&answer)
    }
}
