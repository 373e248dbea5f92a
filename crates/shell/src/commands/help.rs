//! `help`: lists the commands, or describes one with examples.

use clap::Args;
use serde_json::json;

use super::{Run, description};
use crate::failure::Failure;
use crate::output::Tint;
use crate::shell::Shell;
use crate::usage;

/// List the commands, or describe one of them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  help          all commands
  help ls       one command, with its flags and examples
  ls --help     the same")]
pub(crate) struct Help {
    /// A command.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Run for Help {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let Some(name) = self.command else {
            return list(shell);
        };
        let Some(command) = usage::find(&name) else {
            let text = format!("help: unknown command {name:?}; `help` lists the commands");
            return Err(Failure::usage(text));
        };
        match shell.output.is_json() {
            true => shell.output.json(&json!({
                "command": command.get_name(),
                "usage": usage::of(command),
                "help": usage::help(command),
            })),
            false => shell.output.say(usage::help(command).trim_end()),
        }
    }
}

fn list(shell: &mut Shell) -> Result<(), Failure> {
    let style = shell.output.style();
    let shown = description().get_subcommands().filter(|command| !command.is_hide_set());
    let mut rows: Vec<_> = shown
        .map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            (command.get_name(), usage::arguments(command).join(" "), about)
        })
        .collect();
    rows.sort_unstable_by_key(|(name, ..)| name.to_ascii_lowercase());
    if shell.output.is_json() {
        for (name, arguments, about) in rows {
            let usage = format!("{name} {arguments}");
            let line = json!({"command": name, "usage": usage.trim_end(), "about": about});
            shell.output.json(&line)?;
        }
        return Ok(());
    }
    for (name, arguments, about) in rows {
        let command = style.paint(Tint::Name, name);
        shell.output.say(format!("{command} {arguments}").trim_end())?;
        shell.output.say(format!("        {}", style.paint(Tint::Faint, about)))?;
    }
    shell.output.say("\n`help COMMAND` shows flags and examples.")
}
