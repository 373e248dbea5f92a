//! `herdsman completions` and `herdsman man`: generated from the same definitions as `--help`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Arguments as HerdsmanArguments;

/// Print a completion script for a shell.
#[derive(Args)]
#[command(after_help = "\
Examples:
  herdsman completions bash > /etc/bash_completion.d/herdsman
  herdsman completions zsh > ~/.zfunc/_herdsman
  herdsman completions fish > ~/.config/fish/completions/herdsman.fish")]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Write the manual pages, one per command.
#[derive(Args)]
#[command(after_help = "\
Examples:
  herdsman man --output /usr/local/share/man/man1
  herdsman man --output . && man ./herdsman-server.1")]
pub struct ManArguments {
    /// Output directory; created if it does not exist
    #[arg(long, short, alias = "out", value_name = "DIR")]
    output: PathBuf,
}

pub fn completions(arguments: &CompletionsArguments) -> ExitCode {
    let mut script = Vec::new();
    let mut command = HerdsmanArguments::command();
    clap_complete::generate(arguments.shell, &mut command, "herdsman", &mut script);
    // A reader that closes the pipe early, such as `head`, is not a failure.
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("herdsman: cannot write the script: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

pub fn man(arguments: &ManArguments) -> ExitCode {
    match write_pages(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("herdsman: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write_pages(ManArguments { output }: &ManArguments) -> Result<()> {
    std::fs::create_dir_all(output)
        .with_context(|| format!("cannot create {}", output.display()))?;
    clap_mangen::generate_to(HerdsmanArguments::command(), output)
        .with_context(|| format!("cannot write to {}", output.display()))
}
