//! Golden scripts: a folder of text files, each with commands, `---`, and the transcript they must
//! give. The first comment of a script says what it shows. With `HERDSMAN_REGENERATE=1` the
//! transcripts are written anew; read the difference before you keep it.

use std::fs;
use std::path::Path;

/// Plays every script of a folder below `tests`.
pub fn check_folder(name: &str, scripts_min: usize, run: fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("there are scripts")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort_unstable();
    assert!(files.len() >= scripts_min, "the scripts are gone");
    let wrong: Vec<_> = files.iter().filter_map(|file| check(file, run)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a script, if anything is.
fn check(file: &Path, run: fn(&str) -> String) -> Option<String> {
    let text = fs::read_to_string(file).expect("a readable script");
    let (commands, expected) = text.split_once("---\n").unwrap_or((&text, ""));
    assert!(commands.starts_with("# "), "{} does not say what it shows", file.display());
    let transcript = run(commands);
    if std::env::var_os("HERDSMAN_REGENERATE").is_some() {
        fs::write(file, format!("{commands}---\n{transcript}")).expect("a writable script");
    } else if transcript != expected {
        let lines = transcript.lines().zip(expected.lines().chain(std::iter::repeat("")));
        let first = lines.enumerate().find(|(_, (found, expected))| found != expected);
        return Some(format!("{}: first difference {first:?}\n{transcript}", file.display()));
    }
    None
}

/// The commands of a script, without comments and empty lines.
pub fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}
