//! `diff`: compares two subtrees, on this ensemble, on others or in files.

use clap::Args;
use herdsman_client::Client;
use serde_json::json;

use super::subtree_failure::SystemFlag;
use super::{Run, close_session};
use crate::arguments::ConnectionArguments;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Style, Tint};
use crate::shell::Shell;
use crate::subtree::diff::{
    Diff, DiffCounts, Difference, Labels, Side, StatComparison, as_json, as_text_lines,
    summary_line,
};
use crate::subtree::file::{Completeness, ExportFile};
use crate::subtree::location::Location;
use crate::subtree::path;

/// Exit codes, as in diff(1).
const DIFFERENT: u8 = 1;
const FAILED: u8 = 2;

/// Compare two subtrees: data, ACLs and types.
#[derive(Args, Debug)]
#[command(after_help = "\
A subtree is given as
  /app                      a path on this ensemble
  zk2:2181,zk3:2181//app    on another ensemble: servers, a slash, the path; same credentials
  app.jsonl, file:/x        a file written by `export`
Examples:
  diff /app /copy
  diff /app zk2:2181//app --brief
  diff before.jsonl /app
Exit codes: 0 equal, 1 different, 2 failed. Servers do not tell clients which znodes are containers \
or have a time to live; between two files these are compared as well.")]
pub(crate) struct DiffSubtrees {
    /// The first subtree.
    #[arg(value_name = "A", value_parser = Location::parse)]
    left: Location,
    /// The second subtree.
    #[arg(value_name = "B", value_parser = Location::parse)]
    right: Location,
    /// Only list which znodes differ; of a subtree that only one side has, only its root.
    #[arg(long)]
    brief: bool,
    /// Also compare zxids, times and versions.
    #[arg(long)]
    stat: bool,
    /// Accept files that are truncated, or have added or missing lines.
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    system: SystemFlag,
}

impl Run for DiffSubtrees {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let mut connections = Vec::new();
        let compared = self.compare(shell, &mut connections).await;
        for connection in &connections {
            close_session(shell, connection).await;
        }
        match compared {
            Ok(counts) if counts.is_equal() => Ok(()),
            Ok(_) => Err(Failure::Answer(DIFFERENT)),
            Err(failure @ (Failure::ReaderGone | Failure::Interrupted(_))) => Err(failure),
            Err(failure) => {
                shell.output.fail(&failure);
                self.hint_at_files(shell);
                Err(Failure::Answer(FAILED))
            }
        }
    }
}

impl DiffSubtrees {
    async fn compare(
        &self,
        shell: &mut Shell,
        connections: &mut Vec<Connection>,
    ) -> Result<DiffCounts, Failure> {
        let stat = if self.stat { StatComparison::On } else { StatComparison::Off };
        let left = self.side(shell, &self.left, connections).await?;
        let right = self.side(shell, &self.right, connections).await?;
        let labels = (label(&self.left), label(&self.right));
        let labels = Labels { left: &labels.0, right: &labels.1 };
        let mut diff = Diff::new(left, right, stat);
        let mut only: Option<String> = None;
        while let Some(difference) = diff.next().await? {
            if self.brief && is_below(&mut only, &difference) {
                continue;
            }
            self.show(shell, &difference, labels)?;
        }
        let counts = diff.counts();
        if shell.output.is_json() {
            let DiffCounts { equal, changed, only_left, only_right } = counts;
            shell.output.json(&json!({"total": {
                "equal": equal, "changed": changed,
                "only_left": only_left, "only_right": only_right,
            }}))?;
        } else if !counts.is_equal() {
            shell.output.say(counts)?;
        }
        Ok(counts)
    }

    /// An absolute path is that of a znode, but the user may have meant a file.
    fn hint_at_files(&self, shell: &mut Shell) {
        for location in [&self.left, &self.right] {
            if let Location::Here(path) = location
                && std::path::Path::new(path).is_file()
            {
                shell.output.note(format!("if {path} is meant to be a file, use file:{path}"));
            }
        }
    }

    async fn side(
        &self,
        shell: &mut Shell,
        location: &Location,
        connections: &mut Vec<Connection>,
    ) -> Result<Side, Failure> {
        let system = self.system.system();
        let live = |client: &Client, path: &str| Side::live(client, path, system);
        match location {
            Location::Here(path) => {
                let client = shell.client()?;
                client.sync(path).await?;
                Ok(live(client, path))
            }
            Location::Elsewhere { servers, path } => {
                let arguments = ConnectionArguments {
                    servers: servers.clone(),
                    ..shell.connection_arguments.clone()
                };
                let connection =
                    Connection::open(&arguments, |line| shell.output.note(line)).await?;
                let side = live(connection.client(), path);
                connections.push(connection);
                Ok(side)
            }
            Location::File(file) => {
                let completeness =
                    if self.partial { Completeness::Partial } else { Completeness::Required };
                Ok(Side::file(ExportFile::open(file)?.into_records()?, completeness))
            }
        }
    }

    fn show(
        &self,
        shell: &mut Shell,
        difference: &Difference,
        labels: Labels<'_>,
    ) -> Result<(), Failure> {
        if shell.output.is_json() {
            return shell.output.json(&as_json(difference));
        }
        let style = shell.output.style();
        let lines = match self.brief {
            true => vec![summary_line(difference)],
            false => as_text_lines(difference, labels),
        };
        lines.iter().try_for_each(|line| shell.output.say(painted(style, line)))
    }
}

/// Whether a znode is below one that was already shown as missing on the other side; otherwise records it.
fn is_below(shown: &mut Option<String>, difference: &Difference) -> bool {
    if matches!(difference, Difference::Changed { .. }) {
        return false;
    }
    let own = difference.path();
    let is_below =
        shown.as_ref().is_some_and(|shown| *shown == path::SELF || path::is_within(shown, own));
    if !is_below {
        *shown = Some(own.to_owned());
    }
    is_below
}

fn label(location: &Location) -> String {
    match location {
        Location::Here(path) => path.clone(),
        Location::Elsewhere { servers, path } => format!("{servers}/{path}"),
        Location::File(file) => file.display().to_string(),
    }
}

/// Colours a line as in a unified diff.
pub(crate) fn painted(style: Style, line: &str) -> String {
    match line.trim_start().bytes().next() {
        Some(b'-') => style.paint(Tint::Bad, line),
        Some(b'+') => style.paint(Tint::Good, line),
        Some(b'~') => style.paint(Tint::Warning, line),
        Some(b'@') => style.paint(Tint::Name, line),
        _ => line.to_owned(),
    }
}
