//! Histories as text: commands, `---`, and the transcript they must give. The first comment of a script
//! says what it shows and which of Apache's issues it is about. With `HERDSMAN_REGENERATE=1` the
//! transcripts are written anew; read the difference before you keep it. The commands are those of
//! [`crate::play`].

use std::fs;
use std::path::Path;

use crate::play::ScriptRun;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("there are scripts")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort_unstable();
    assert!(files.len() > 10, "the scripts are gone");
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a script, if anything is.
fn check(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).expect("a readable script");
    let (commands, expected) = text.split_once("---\n").unwrap_or((&text, ""));
    assert!(commands.starts_with("# "), "{} does not say what it shows", file.display());
    let transcript = ScriptRun::run(commands);
    if std::env::var_os("HERDSMAN_REGENERATE").is_some() {
        fs::write(file, format!("{commands}---\n{transcript}")).expect("a writable script");
    } else if transcript != expected {
        let lines = transcript.lines().zip(expected.lines().chain(std::iter::repeat("")));
        let first = lines.enumerate().find(|(_, (found, expected))| found != expected);
        return Some(format!("{}: first difference {first:?}\n{transcript}", file.display()));
    }
    None
}
