//! The commands of this shell with their numbers, for `history` and `redo`.
//!
//! Numbers begin at 0 and grow, as zkCli's do. The oldest commands are forgotten, and what would
//! show a secret is not remembered in full.

use std::collections::VecDeque;

use crate::words;

/// Commands remembered.
const KEPT: usize = 1000;

/// The commands of a shell.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: VecDeque<String>,
    forgotten: usize,
}

impl Transcript {
    /// Remembers a command.
    pub(crate) fn push(&mut self, line: &str) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
            self.forgotten += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    /// How many there were: the number of the next one.
    pub(crate) fn count(&self) -> usize {
        self.forgotten + self.lines.len()
    }

    /// The command with this number, if it is remembered.
    pub(crate) fn get(&self, number: usize) -> Option<&str> {
        self.lines.get(number.checked_sub(self.forgotten)?).map(String::as_str)
    }

    /// Puts another text in the place of the newest command: what a redo has run.
    pub(crate) fn replace_newest(&mut self, line: &str) {
        if let Some(newest) = self.lines.back_mut() {
            line.clone_into(newest);
        }
    }

    /// The newest commands and their numbers, oldest first; secrets are not shown.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = (usize, String)> {
        let skipped = self.lines.len().saturating_sub(count);
        let numbered = self.lines.iter().enumerate().skip(skipped);
        numbered.map(|(at, line)| (at + self.forgotten, without_secret(line)))
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
    fn numbers_go_on_when_old_commands_are_forgotten() {
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
