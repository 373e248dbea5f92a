//! The commands of this shell with their numbers, for `history` and `redo`.
//!
//! Numbers begin at 0 and grow, as in zkCli. The oldest commands are dropped, and a command with a
//! secret is not shown in full.

use std::collections::VecDeque;

use crate::words;

/// Most commands that are kept.
const KEPT: usize = 1000;

/// The commands of a shell.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: VecDeque<String>,
    dropped: usize,
}

impl Transcript {
    /// Adds a command.
    pub(crate) fn push(&mut self, line: &str) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    /// The number of the next command.
    pub(crate) fn count(&self) -> usize {
        self.dropped + self.lines.len()
    }

    /// The command with this number, if it is kept.
    pub(crate) fn get(&self, number: usize) -> Option<&str> {
        self.lines.get(number.checked_sub(self.dropped)?).map(String::as_str)
    }

    /// Replaces the newest command by the one that `redo` runs.
    pub(crate) fn replace_newest(&mut self, line: &str) {
        if let Some(newest) = self.lines.back_mut() {
            line.clone_into(newest);
        }
    }

    /// The newest commands and their numbers, oldest first; secrets are not shown.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = (usize, String)> {
        let skipped = self.lines.len().saturating_sub(count);
        let numbered = self.lines.iter().enumerate().skip(skipped);
        numbered.map(|(at, line)| (at + self.dropped, without_secret(line)))
    }
}

/// Whether a line holds a secret that must not be kept in a file.
pub(crate) fn holds_secret(line: &str) -> bool {
    let words = words::scan(line);
    let is_addauth = words.first().is_some_and(|word| word.text.eq_ignore_ascii_case("addauth"));
    is_addauth || words.iter().any(|word| word.text.starts_with("--auth"))
}

fn without_secret(line: &str) -> String {
    match holds_secret(line) {
        true => {
            let shown: Vec<&str> = words::scan(line).iter().take(2).map(|word| word.text).collect();
            format!("{} …", shown.join(" "))
        }
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_when_old_commands_are_dropped() {
        let mut transcript = Transcript::default();
        for number in 0..KEPT + 2 {
            transcript.push(&format!("ls /{number}"));
        }
        assert_eq!(transcript.count(), KEPT + 2);
        assert_eq!(transcript.get(1), None);
        assert_eq!(transcript.get(2), Some("ls /2"));
        let newest: Vec<_> = transcript.newest(1).collect();
        assert_eq!(newest, [(KEPT + 1, format!("ls /{}", KEPT + 1))]);
    }

    #[test]
    fn secrets_are_neither_shown_nor_kept() {
        let mut transcript = Transcript::default();
        transcript.push("addauth digest bob:secret");
        let shown: Vec<_> = transcript.newest(9).collect();
        assert_eq!(shown, [(0, "addauth digest …".to_owned())]);
        assert!(holds_secret("  AddAuth digest x") && !holds_secret("get /addauth"));
    }
}
