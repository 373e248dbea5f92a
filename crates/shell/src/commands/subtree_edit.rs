//! `edit`: edits a znode's data in the user's editor.

use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use herdsman_client::{ErrorKind, Node};
use serde_json::json;

use super::Run;
use super::subtree_diff::painted;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::ZnodeVersion;
use crate::subtree::diff::unified;
use crate::subtree::edit::{
    Draft, EditFormat, choose_editor, from_editable, is_unchanged, to_editable,
};

/// Edit a znode's data in $VISUAL or $EDITOR.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  edit /app/config                   as text
  edit /app/config --format json     indented, and validated before it is written
  edit /app/key --hex                bytes as hex digits
The data is written only if no other client has changed the znode meanwhile. If your text cannot be \
written, it is kept in a file. While the editor is open, Ctrl-C goes to the editor.")]
pub(crate) struct Edit {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// How to show the data in the editor.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatWord::Text)]
    format: FormatWord,
    /// The same as --format hex.
    #[arg(long, conflicts_with = "format")]
    hex: bool,
    /// The editor to use instead of $VISUAL and $EDITOR. It may have arguments, as in `code --wait`.
    #[arg(long, value_name = "COMMAND")]
    editor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatWord {
    Text,
    Json,
    Hex,
}

impl Run for Edit {
    async fn run(self, shell: &mut Shell) -> Result<(), Failure> {
        let format = self.edit_format();
        let before = shell.client()?.get(&self.path).await?;
        let shown = to_editable(&before.data, format)?;
        let draft = Arc::new(Draft::new(&shown, format)?);
        let (kept, path) = (Arc::clone(&draft), draft.path().to_owned());
        shell.on_interrupt(move || {
            // An open editor may still save.
            if kept.is_open() || kept.is_edited() {
                return Some(format!("your text is saved in {}", path.display()));
            }
            kept.discard();
            None
        });
        match self.edit(shell, &before, &shown, &draft).await {
            Ok(()) => {
                draft.discard();
                Ok(())
            }
            Err(failure) if draft.is_edited() => {
                let file = draft.path().display();
                Err(Failure::failed(format!("{failure}; your text is saved in {file}")))
            }
            Err(failure) => {
                draft.discard();
                Err(failure)
            }
        }
    }
}

impl Edit {
    /// Edits and writes the data. If this fails, the draft still has the user's text.
    async fn edit(
        &self,
        shell: &mut Shell,
        before: &Node,
        shown: &str,
        draft: &Arc<Draft>,
    ) -> Result<(), Failure> {
        let format = self.edit_format();
        let from_environment = [std::env::var("VISUAL").ok(), std::env::var("EDITOR").ok()];
        let editor = choose_editor(std::iter::once(self.editor.clone()).chain(from_environment));
        // On a separate thread, so that the session is kept alive meanwhile.
        let foreground = shell.foreground.give_away();
        let edited = Arc::clone(draft);
        let edited = tokio::task::spawn_blocking(move || edited.edit(&editor)).await;
        drop(foreground);
        edited.map_err(|error| Failure::failed(format!("the editor: {error}")))??;
        let after = from_editable(&draft.read()?, &before.data, format)?;
        if is_unchanged(&before.data, &after, format) {
            return self.report_unchanged(shell, before);
        }
        self.show_change(shell, shown, &to_editable(&after, format)?)?;
        shell.confirm(&format!("Write this to {}?", self.path)).await?;
        self.write(shell, before, after).await
    }

    fn edit_format(&self) -> EditFormat {
        match self.format {
            _ if self.hex => EditFormat::Hex,
            FormatWord::Text => EditFormat::Text,
            FormatWord::Json => EditFormat::Json,
            FormatWord::Hex => EditFormat::Hex,
        }
    }

    fn report_unchanged(&self, shell: &mut Shell, before: &Node) -> Result<(), Failure> {
        if shell.output.is_json() {
            let version = before.stat.version;
            return shell
                .output
                .json(&json!({"path": self.path, "changed": false, "version": version}));
        }
        shell.output.note("nothing was changed");
        Ok(())
    }

    /// Shows the difference, but not in JSON mode.
    fn show_change(&self, shell: &mut Shell, before: &str, after: &str) -> Result<(), Failure> {
        if shell.output.is_json() {
            return Ok(());
        }
        let name = printable(&self.path).into_owned();
        let style = shell.output.style();
        let lines = unified(before, after, &name, &format!("{name} (edited)"));
        lines.iter().try_for_each(|line| shell.output.say(painted(style, line)))
    }

    /// Writes the data if the znode has not changed. The version alone is not enough: a znode that was
    /// deleted and created again may have the same. No request compares more, so the znode is checked
    /// right before, and the reply shows whether it was still the same one.
    async fn write(&self, shell: &mut Shell, before: &Node, after: Bytes) -> Result<(), Failure> {
        let client = shell.client()?;
        let seen = ZnodeVersion::of(&before.stat);
        let now = client.exists(&self.path).await?;
        match now.map(|stat| ZnodeVersion::of(&stat)) {
            None => return Err(self.meanwhile("was deleted")),
            Some(now) if now.czxid != seen.czxid => {
                return Err(self.meanwhile("was deleted and created again"));
            }
            Some(now) if !now.has_same_data(&seen) => return Err(self.meanwhile("was changed")),
            Some(_) => {}
        }
        match client.set(&self.path, after).version(before.stat.version).await {
            Ok(stat) if stat.czxid != seen.czxid => Err(Failure::failed(format!(
                "written, but {} was deleted and created again at that moment: the data of the new \
                 znode is overwritten",
                self.path
            ))),
            Ok(stat) if shell.output.is_json() => {
                let version = stat.version;
                shell.output.json(&json!({"path": self.path, "changed": true, "version": version}))
            }
            Ok(stat) => shell.output.say(format!("written, version {}", stat.version)),
            Err(error) if *error.kind() == ErrorKind::BadVersion => {
                Err(self.meanwhile("was changed"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn meanwhile(&self, what: &str) -> Failure {
        Failure::failed(format!("{} {what} by another client meanwhile", self.path))
    }
}
