//! `edit`: a znode's data in the user's own editor.

use bytes::Bytes;
use clap::{Args, ValueEnum};
use herdsman_client::{ErrorKind, Node};
use serde_json::json;

use super::Run;
use super::subtree_diff::painted;
use crate::failure::Failure;
use crate::format::printable;
use crate::shell::Shell;
use crate::subtree::diff::unified;
use crate::subtree::edit::{
    Draft, EditFormat, choose_editor, from_editable, is_unchanged, to_editable,
};

/// Edit a znode's data in $VISUAL or $EDITOR.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  edit /app/config                   as text
  edit /app/config --format json     indented, and checked before it is written
  edit /app/key --hex                bytes as hex digits
It is written only if nobody has changed the znode meanwhile; otherwise your text is kept in a file.")]
pub(crate) struct Edit {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// The form in which to edit it.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatWord::Text)]
    format: FormatWord,
    /// The same as --format hex.
    #[arg(long, conflicts_with = "format")]
    hex: bool,
    /// The editor, in place of $VISUAL and $EDITOR. It may have arguments, as in `code --wait`.
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
        let draft = Draft::new(&shown, format)?;
        let from_environment = [std::env::var("VISUAL").ok(), std::env::var("EDITOR").ok()];
        let editor = choose_editor(std::iter::once(self.editor.clone()).chain(from_environment));
        // On a thread of its own, so that the session is kept alive meanwhile.
        let edited = tokio::task::spawn_blocking(move || draft.edit(&editor).map(|()| draft)).await;
        let draft = edited.map_err(|error| Failure::failed(format!("the editor: {error}")))??;
        let text = draft.read()?;
        let after = match from_editable(&text, &before.data, format) {
            Ok(after) => after,
            Err(error) => return Err(kept(draft, &error.to_string())),
        };
        if is_unchanged(&before.data, &after, format) {
            return self.tell_unchanged(shell, &before);
        }
        self.show_change(shell, &shown, &to_editable(&after, format)?)?;
        if let Err(failure) = shell.confirm(&format!("Write this to {}?", self.path)).await {
            return Err(kept(draft, &failure.to_string()));
        }
        self.write(shell, &before, after, draft).await
    }
}

impl Edit {
    fn edit_format(&self) -> EditFormat {
        match self.format {
            _ if self.hex => EditFormat::Hex,
            FormatWord::Text => EditFormat::Text,
            FormatWord::Json => EditFormat::Json,
            FormatWord::Hex => EditFormat::Hex,
        }
    }

    fn tell_unchanged(&self, shell: &mut Shell, before: &Node) -> Result<(), Failure> {
        if shell.output.is_json() {
            let version = before.stat.version;
            return shell
                .output
                .json(&json!({"path": self.path, "changed": false, "version": version}));
        }
        shell.output.note("nothing was changed");
        Ok(())
    }

    /// Only for people: scripts see what the znode holds afterwards.
    fn show_change(&self, shell: &mut Shell, before: &str, after: &str) -> Result<(), Failure> {
        if shell.output.is_json() {
            return Ok(());
        }
        let name = printable(&self.path).into_owned();
        let style = shell.output.style();
        let lines = unified(before, after, &name, &format!("{name} (edited)"));
        lines.iter().try_for_each(|line| shell.output.say(painted(style, line)))
    }

    async fn write(
        &self,
        shell: &mut Shell,
        before: &Node,
        after: Bytes,
        draft: Draft,
    ) -> Result<(), Failure> {
        let set = shell.client()?.set(&self.path, after).version(before.stat.version).await;
        match set {
            Ok(stat) if shell.output.is_json() => {
                let version = stat.version;
                shell.output.json(&json!({"path": self.path, "changed": true, "version": version}))
            }
            Ok(stat) => shell.output.say(format!("written, version {}", stat.version)),
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::BadVersion => {
                        format!("{} was changed by somebody else meanwhile", self.path)
                    }
                    _ => Failure::from(error).to_string(),
                };
                Err(kept(draft, &why))
            }
        }
    }
}

/// What the user has typed is never thrown away.
fn kept(draft: Draft, why: &str) -> Failure {
    match draft.keep() {
        Ok(file) => Failure::failed(format!("{why}; your text is in {}", file.display())),
        Err(error) => Failure::failed(format!("{why}; your text could not be kept: {error}")),
    }
}
