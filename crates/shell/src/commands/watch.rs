//! Watches: `addWatch`, `removewatches` and `printwatches`.

use clap::{Args, ValueEnum};
use herdsman_client::check_path;
use serde_json::json;

use super::Run;
use crate::failure::Failure;
use crate::shell::Shell;
use crate::watches::WatchKind;

/// Report every change of a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  addWatch /app                   /app and everything below it
  addWatch -m PERSISTENT /app     /app and its list of children
`removewatches` removes the watch. Needs a server of version 3.6 or newer.")]
pub(crate) struct AddWatch {
    /// What to watch.
    #[arg(
        short = 'm',
        value_name = "MODE",
        value_enum,
        ignore_case = true,
        default_value_t = Mode::Recursive
    )]
    mode: Mode,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

/// zkCli's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The znode's data and its list of children.
    #[value(name = "PERSISTENT")]
    Persistent,
    /// The znode and everything below it.
    #[value(name = "PERSISTENT_RECURSIVE")]
    Recursive,
}

impl Run for AddWatch {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let call = shell.client()?.watch(&self.path);
        let (call, kind) = match self.mode {
            Mode::Persistent => (call, WatchKind::Persistent),
            Mode::Recursive => (call.recursive(), WatchKind::Recursive),
        };
        let watch = call.await?;
        shell.watches.keep_always(&self.path, kind, watch)?;
        match shell.output.is_json() {
            true => shell.output.json(&json!({"watched": self.path})),
            false => Ok(()),
        }
    }
}

/// Remove the watches on a znode.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  removewatches /app        all of them
  removewatches /app -d     only data watches, as `get -w` sets them")]
pub(crate) struct RemoveWatches {
    #[command(flatten)]
    kind: KindFlags,
    /// Also without a connection. Accepted for zkCli's sake: this shell always does that.
    #[arg(short = 'l')]
    local: bool,
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
}

#[derive(Args, Debug)]
#[group(multiple = false)]
struct KindFlags {
    /// Child watches only.
    #[arg(short = 'c')]
    children: bool,
    /// Data watches only.
    #[arg(short = 'd')]
    data: bool,
    /// Persistent watches only.
    #[arg(short = 'p')]
    persistent: bool,
    /// Persistent recursive watches only.
    #[arg(short = 'r')]
    recursive: bool,
    /// Watches of any kind; the default.
    #[arg(short = 'a')]
    any: bool,
}

impl KindFlags {
    /// `None` for any.
    fn kind(&self) -> Option<WatchKind> {
        if self.children {
            Some(WatchKind::Children)
        } else if self.data {
            Some(WatchKind::Data)
        } else if self.persistent {
            Some(WatchKind::Persistent)
        } else if self.recursive {
            Some(WatchKind::Recursive)
        } else {
            None
        }
    }
}

impl Run for RemoveWatches {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        check_path(&self.path)?;
        // Events that have already arrived are not lost with the watch.
        shell.show_ready_events()?;
        match shell.watches.remove(&self.path, self.kind.kind()) {
            0 => Err(Failure::failed(format!("No such watcher: {}", self.path))),
            count if shell.output.is_json() => {
                shell.output.json(&json!({"path": self.path, "removed": count}))
            }
            _ => Ok(()),
        }
    }
}

/// Show whether events are printed, or change it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  printwatches         shows on or off
  printwatches off     events are dropped from now on")]
pub(crate) struct PrintWatches {
    /// Whether to print them.
    #[arg(value_name = "ON|OFF", value_enum)]
    switch: Option<Switch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Run for PrintWatches {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        match self.switch {
            Some(switch) => {
                shell.prints_watches = switch == Switch::On;
                Ok(())
            }
            None => {
                let is_on = shell.prints_watches;
                match shell.output.is_json() {
                    true => shell.output.json(&json!({"printwatches": is_on})),
                    false => {
                        let word = if is_on { "on" } else { "off" };
                        shell.output.say(format!("printwatches is {word}"))
                    }
                }
            }
        }
    }
}
