//! Completion, hints and colours for the line editor.

use std::borrow::Cow;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::completion::complete;
use super::hint::usage_hint;
use super::paths::LivePaths;
use crate::output::{Style, Tint};
use crate::usage;
use crate::words;

/// Helps the user while typing a command.
pub(crate) struct Assistant {
    paths: LivePaths,
    style: Style,
}

impl Assistant {
    pub(crate) fn new(paths: LivePaths, style: Style) -> Self {
        Assistant { paths, style }
    }
}

impl Helper for Assistant {}
impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let completion = complete(&line[..at], &self.paths);
        let pairs = completion.candidates.into_iter();
        let pairs =
            pairs.map(|candidate| Pair { display: candidate.shown, replacement: candidate.text });
        Ok((completion.start, pairs.collect()))
    }
}

/// A hint that is shown but cannot be accepted as input.
pub(crate) struct UsageHint(String);

impl Hint for UsageHint {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = UsageHint;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<UsageHint> {
        // Without colour it would look like typed text.
        let is_visible = self.style == Style::Colored && at == line.len();
        if is_visible { usage_hint(line).map(UsageHint) } else { None }
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let words = words::scan(line);
        let Some(name) = words.first().filter(|_| self.style == Style::Colored) else {
            return Cow::Borrowed(line);
        };
        let end = name.start + name.text.len();
        let tint = match usage::find(name.text) {
            Some(_) => Tint::Name,
            // Half a word is not wrong yet.
            None if end < line.len() => Tint::Bad,
            None => return Cow::Borrowed(line),
        };
        let (before, rest) = line.split_at(name.start);
        match rest.strip_prefix(name.text) {
            Some(after) => {
                Cow::Owned(format!("{before}{}{after}", self.style.paint(tint, name.text)))
            }
            // It is in quotes.
            None => Cow::Borrowed(line),
        }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        let tint = match prompt {
            text if text.contains("(CONNECTED)") => Tint::Good,
            text if text.contains("(CLOSED)") || text.contains("(AUTH_FAILED)") => Tint::Bad,
            // Not connected at the moment, or a question.
            _ => Tint::Warning,
        };
        match self.style {
            Style::Plain => Cow::Borrowed(prompt),
            Style::Colored => Cow::Owned(self.style.paint(tint, prompt)),
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(self.style.paint(Tint::Faint, hint))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.style == Style::Colored && kind != CmdKind::MoveCursor
    }
}
