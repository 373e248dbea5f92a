//! Splits a JAAS file into words, quoted texts and marks, by the rules of the JDK's `StreamTokenizer`.

use std::iter::Peekable;
use std::str::Chars;

use super::JaasError;
use crate::Secret;

/// The tokens of a file. Text may be a password, so it is always a secret.
pub(super) enum Token {
    Text(Secret),
    Mark(Mark),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    OpenBrace,
    CloseBrace,
    Semicolon,
    Equals,
}

impl Token {
    /// Describes the kind of token, without its content.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Token::Text(_) => "text",
            Token::Mark(Mark::OpenBrace) => "`{`",
            Token::Mark(Mark::CloseBrace) => "`}`",
            Token::Mark(Mark::Semicolon) => "`;`",
            Token::Mark(Mark::Equals) => "`=`",
        }
    }
}

/// A token and the line where it starts.
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) line: usize,
}

/// The rest of the file.
pub(super) struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Tokens { chars: text.chars().peekable(), line: 1 }
    }

    /// The current line.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the next token; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Lexeme>, JaasError> {
        self.skip_blanks_and_comments()?;
        let line = self.line;
        let Some(first) = self.take() else {
            return Ok(None);
        };
        let token = match first {
            '{' => Token::Mark(Mark::OpenBrace),
            '}' => Token::Mark(Mark::CloseBrace),
            ';' => Token::Mark(Mark::Semicolon),
            '=' => Token::Mark(Mark::Equals),
            '"' => Token::Text(self.quoted()?),
            first if is_word_start(first) => Token::Text(self.word(first)),
            first => return Err(self.stray(advice(first))),
        };
        Ok(Some(Lexeme { token, line }))
    }

    fn skip_blanks_and_comments(&mut self) -> Result<(), JaasError> {
        while let Some(&next) = self.chars.peek() {
            match next {
                '/' => self.skip_comment()?,
                next if next <= ' ' => {
                    self.take();
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), JaasError> {
        self.take();
        match self.chars.peek() {
            Some('/') => {
                while self.chars.peek().is_some_and(|&next| !is_line_end(next)) {
                    self.take();
                }
                Ok(())
            }
            Some('*') => self.skip_long_comment(),
            _ => Err(self.stray("`/` outside quotes: put paths and principals in double quotes")),
        }
    }

    fn skip_long_comment(&mut self) -> Result<(), JaasError> {
        let start = self.stray("comment is not closed by `*/`");
        self.take();
        while let Some(char) = self.take() {
            if char == '*' && self.chars.next_if_eq(&'/').is_some() {
                return Ok(());
            }
        }
        Err(start)
    }

    fn word(&mut self, first: char) -> Secret {
        let mut word = String::from(first);
        while let Some(next) = self.chars.next_if(|&next| is_word_part(next)) {
            word.push(next);
        }
        Secret::new(word)
    }

    fn quoted(&mut self) -> Result<Secret, JaasError> {
        let open = self.stray("unclosed quotes at the end of the line");
        let mut text = String::new();
        loop {
            match self.take() {
                Some('"') => return Ok(Secret::new(text)),
                Some('\\') => match self.escaped() {
                    Some(char) => text.push(char),
                    None => return Err(open),
                },
                Some(char) if !is_line_end(char) => text.push(char),
                _ => return Err(open),
            }
        }
    }

    /// Returns the character that an escape stands for. A character without special meaning stands for
    /// itself, so `\"` is `"`.
    fn escaped(&mut self) -> Option<char> {
        Some(match self.take()? {
            digit @ '0'..='7' => self.octal(digit),
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            itself => itself,
        })
    }

    /// Reads up to three octal digits, up to `\377`.
    fn octal(&mut self, first: char) -> char {
        let mut digits = String::from(first);
        let digits_max = if first <= '3' { 3 } else { 2 };
        while digits.len() < digits_max
            && let Some(digit) = self.chars.next_if(|next| next.is_digit(8))
        {
            digits.push(digit);
        }
        char::from(u8::from_str_radix(&digits, 8).expect("at most \\377"))
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.chars.next()?;
        // `\r
        // ` is one line end, counted at its second character.
        if taken == '\n' || (taken == '\r' && self.chars.peek() != Some(&'\n')) {
            self.line += 1;
        }
        Some(taken)
    }

    fn stray(&self, advice: &'static str) -> JaasError {
        JaasError::Stray { line: self.line, advice }
    }
}

fn is_line_end(char: char) -> bool {
    matches!(char, '\n' | '\r')
}

fn is_word_start(char: char) -> bool {
    char.is_ascii_alphabetic() || matches!(char, '$' | '_' | '*') || char >= '\u{a0}'
}

fn is_word_part(char: char) -> bool {
    is_word_start(char) || char.is_ascii_digit() || matches!(char, '.' | '-')
}

/// Returns advice about a character that cannot start a token.
fn advice(char: char) -> &'static str {
    match char {
        '#' => "`#` does not start a comment here: use `//` or `/* */`",
        '\'' => "use double quotes, not single quotes",
        '0'..='9' | '.' | '-' => "put text that starts with a digit, `.` or `-` in double quotes",
        _ => "put text with this character in double quotes",
    }
}
