//! Four-letter words: what an operator types into the client port. Apache: `FourLetterCommands`.

use crate::io_threads::Shared;

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `ruok`
    AreYouOk,
    /// `stmk`
    SetTraceMask,
}

impl Command {
    /// The command for the first four bytes of a connection.
    #[must_use]
    pub fn of(word: [u8; 4]) -> Option<Self> {
        match &word {
            b"ruok" => Some(Command::AreYouOk),
            b"stmk" => Some(Command::SetTraceMask),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Command::AreYouOk => "ruok",
            Command::SetTraceMask => "stmk",
        }
    }
}

/// The answer; `rest` is what followed the word.
pub(crate) fn answer(_shared: &Shared, command: Command, _rest: &[u8]) -> String {
    match command {
        Command::AreYouOk => "imok".to_owned(),
        Command::SetTraceMask => String::new(),
    }
}
