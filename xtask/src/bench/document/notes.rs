//! Notes about the numbers: `benchmarks/notes.md`, which is kept across runs.
//!
//! Text before the first heading goes to the top of the document; a section `## PART` goes below that
//! part's numbers. A section with an unknown name is an error, because it would not appear anywhere.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The parsed notes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The text before all numbers.
    pub opening: String,
    sections: Vec<(String, String)>,
}

impl Notes {
    /// Reads a file of notes about the parts with these names; a missing file means no notes.
    pub fn load(path: &Path, parts: &[&str]) -> Result<Notes> {
        match fs::read_to_string(path) {
            Ok(text) => Notes::parse(&text, parts),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Notes::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Parses the text of the file.
    pub fn parse(text: &str, parts: &[&str]) -> Result<Notes> {
        let mut notes = Notes::default();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                notes.sections.push((heading.trim().to_string(), String::new()));
                continue;
            }
            let section = notes.sections.last_mut().map(|(_, text)| text);
            let text = section.unwrap_or(&mut notes.opening);
            text.push_str(line);
            text.push('\n');
        }
        notes.opening = notes.opening.trim().to_string();
        for (name, text) in &mut notes.sections {
            let known = parts.contains(&name.as_str());
            ensure!(known, "notes.md: no part is called `{name}`; `--list` shows them");
            *text = text.trim().to_string();
        }
        Ok(notes)
    }

    /// Returns the notes about a part; empty if there are none.
    pub fn about(&self, part: &str) -> &str {
        let found = self.sections.iter().find(|(name, _)| name == part);
        found.map_or("", |(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[&str] = &["idle", "restart"];

    #[test]
    fn sections_belong_to_parts() {
        let text = "All of it.\n\n## idle\n\nSockets.\n\nMore.\n## restart\nReading.\n";
        let notes = Notes::parse(text, PARTS).unwrap();
        assert_eq!(notes.opening, "All of it.");
        assert_eq!(notes.about("idle"), "Sockets.\n\nMore.");
        assert_eq!(notes.about("restart"), "Reading.");
        assert_eq!(notes.about("memory"), "");
        assert_eq!(Notes::parse("", PARTS).unwrap(), Notes::default());
    }

    #[test]
    fn a_section_of_an_unknown_part_is_rejected() {
        let error = Notes::parse("## iddle\nx\n", PARTS).unwrap_err().to_string();
        assert!(error.contains("`iddle`"), "{error}");
    }
}
