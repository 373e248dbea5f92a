//! `export`: writes a subtree as lines of JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressFinish};
use serde_json::json;
use tempfile::NamedTempFile;

use super::Run;
use super::subtree_failure::{HintFlags, Lines, SystemFlag};
use crate::failure::Failure;
use crate::shell::Shell;
use crate::subtree::export::{ExportCounts, ExportOptions, Unreadable, export};
use crate::subtree::{SubtreeError, human};

/// Write a subtree to a file, as lines of JSON: data, ACLs, types.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  export /app -o app.jsonl                  to a file, which appears when it is complete
  export /app | gzip > app.jsonl.gz         to a pipe
  export /app -o x --container 'locks/*'    marks these znodes as containers
`import` restores it, here or on another ensemble. It is not a snapshot: other clients may write meanwhile.")]
pub(crate) struct Export {
    /// The root of the subtree.
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// The file to write, readable only by its owner; by default standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Skip znodes that may not be read, and everything below them.
    #[arg(long)]
    skip_unreadable: bool,
    #[command(flatten)]
    hints: HintFlags,
    #[command(flatten)]
    system: SystemFlag,
}

impl Run for Export {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let options = ExportOptions {
            unreadable: if self.skip_unreadable { Unreadable::Skip } else { Unreadable::Fail },
            system: self.system.system(),
            hints: self.hints.hints()?,
        };
        let counts = match &self.output {
            None => {
                // A progress bar would be mixed with the lines.
                let bar = match shell.output.terminal().output {
                    true => ProgressBar::hidden(),
                    false => progress(shell, &self.path).await?,
                };
                let client = shell.client()?.clone();
                let lines = Lines::new(&mut shell.output);
                let advance = |counts: &ExportCounts| bar.set_position(counts.znodes);
                let exported = export(&client, &self.path, &options, lines, advance).await;
                bar.finish_and_clear();
                exported?
            }
            Some(file) => self.export_to(shell, file, &options).await?,
        };
        self.report(shell, &counts)
    }
}

impl Export {
    /// Writes to a temporary file, which gets its name when it is complete.
    async fn export_to(
        &self,
        shell: &mut Shell,
        file: &Path,
        options: &ExportOptions,
    ) -> Result<ExportCounts, Failure> {
        self.check_replaceable(file)?;
        let failed = |source| SubtreeError::File { path: file.to_owned(), source };
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut draft = NamedTempFile::new_in(directory).map_err(failed)?;
        let bar = progress(shell, &self.path).await?;
        let client = shell.client()?.clone();
        let out = BufWriter::new(draft.as_file_mut());
        let exported =
            export(&client, &self.path, options, out, |counts| bar.set_position(counts.znodes));
        let counts = exported.await;
        bar.finish_and_clear();
        let counts = counts.map_err(|error| match error {
            SubtreeError::Output(source) => failed(source),
            other => other,
        })?;
        draft.as_file_mut().flush().and_then(|()| draft.as_file().sync_all()).map_err(failed)?;
        let kept = if self.force { draft.persist(file) } else { draft.persist_noclobber(file) };
        kept.map_err(|error| failed(error.error))?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        Ok(counts)
    }

    /// Checks that only a regular file is replaced: not a link, nor a device such as `/dev/null`.
    fn check_replaceable(&self, file: &Path) -> Result<(), Failure> {
        let text = match file.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => {
                format!("{} exists and is not a file; it is not replaced", file.display())
            }
            Ok(_) if !self.force => {
                format!("{} already exists; --force replaces it", file.display())
            }
            _ => return Ok(()),
        };
        Err(Failure::failed(text))
    }

    fn report(&self, shell: &mut Shell, counts: &ExportCounts) -> Result<(), Failure> {
        let ExportCounts { znodes, bytes, ephemerals, hidden_acls, vanished, unreadable, .. } =
            *counts;
        if hidden_acls > 0 {
            let hidden = human::count(hidden_acls, "ACL");
            shell.output.note(format!(
                "{hidden} with a digest that is shown only to users who may change the ACL: import will reject them"
            ));
        }
        if shell.output.is_json() && self.output.is_some() {
            return shell.output.json(&json!({
                "root": self.path, "znodes": znodes, "bytes": bytes, "ephemerals": ephemerals,
                "vanished": vanished, "unreadable": unreadable, "hidden_acls": hidden_acls,
            }));
        }
        let size = human::size(bytes);
        let mut line =
            format!("exported {}, {size}, of {}", human::count(znodes, "znode"), self.path);
        for (count, what) in [
            (ephemerals, "ephemeral"),
            (vanished, "deleted meanwhile"),
            (unreadable, "not readable and skipped"),
        ] {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        shell.output.note(line);
        Ok(())
    }
}

/// A progress bar for the size of the subtree, if it can be shown and the server can count.
async fn progress(shell: &Shell, path: &str) -> Result<ProgressBar, Failure> {
    if !shell.output.terminal().errors {
        return Ok(ProgressBar::hidden());
    }
    let below = shell.client()?.count_descendants(path).await.unwrap_or(0);
    let bar = shell.output.progress("znodes", u64::from(below) + 1);
    Ok(bar.with_finish(ProgressFinish::AndClear))
}
