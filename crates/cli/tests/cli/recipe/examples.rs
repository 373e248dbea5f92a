//! The examples of the help and of docs/tools.md are command lines that the binary understands.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use super::terminal::{Running, recipe};

/// Every recipe, as `herdsman recipe --help` lists them.
fn recipes() -> Vec<String> {
    let help = help(&[]);
    let commands = help.iter().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        let is_name = line.starts_with("  ") && !line.starts_with("   ");
        is_name.then(|| line.split_whitespace().next().expect("a name").to_owned())
    });
    names.filter(|name| name != "help").collect()
}

fn help(arguments: &[&str]) -> Vec<String> {
    let mut command = recipe("a:1", arguments);
    command.arg("--help");
    let ended = Running::start(command).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

/// The lines below `Examples:` in the help.
fn examples(arguments: &[&str]) -> Vec<String> {
    let help = help(arguments);
    let behind = help.iter().skip_while(|line| *line != "Examples:").skip(1);
    let examples: Vec<_> = behind.take_while(|line| !line.is_empty()).cloned().collect();
    assert!(!examples.is_empty(), "no examples for {arguments:?} in {help:#?}");
    // Also: none is long enough to be wrapped.
    let is_example = |line: &String| line.starts_with("  ") && line.contains("herdsman recipe ");
    assert!(examples.iter().all(is_example), "{examples:#?}");
    examples
}

/// The command lines of a text: from `herdsman recipe` to a comment or the end of the line.
fn command_lines<'t>(lines: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
    let starts = lines.into_iter().filter_map(|line| Some(&line[line.find("herdsman recipe ")?..]));
    starts.map(|line| line.split(" #").next().unwrap_or(line).trim_end()).collect()
}

/// Checks that the binary accepts a command line: without a server it then fails with 1; wrong usage would fail with 2.
fn check_is_understood(line: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_herdsman"));
    let mut command = Command::new("sh");
    let own_directory = binary.parent().expect("a directory").to_str().expect("text");
    let path = std::env::var("PATH").unwrap_or_default();
    // The redirections of examples are not what is tried here.
    let line = line.split(" <").next().unwrap_or(line);
    command.args(["-c", line]).env("PATH", format!("{own_directory}:{path}"));
    command.env("HERDSMAN_SERVERS", "").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Running::start(command).end();
    assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
    ended.check_error(1, &["herdsman: cannot connect to", "names no server"]);
}

#[test]
fn every_recipe_has_examples_that_are_understood() {
    let recipes = recipes();
    assert!(recipes.len() >= 19, "{recipes:?}");
    for name in &recipes {
        let lines = examples(&[name]);
        let lines = command_lines(lines.iter().map(String::as_str));
        let is_own = |line: &&str| line.starts_with(&format!("herdsman recipe {name} "));
        assert!(lines.iter().any(is_own), "{name}: {lines:?}");
        lines.into_iter().for_each(check_is_understood);
    }
    let lines = examples(&[]);
    command_lines(lines.iter().map(String::as_str)).into_iter().for_each(check_is_understood);
}

#[test]
fn the_docs_show_every_recipe_with_examples_that_are_understood() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let text = std::fs::read_to_string(docs).expect("the docs are there");
    let section = text.split("\n## ").find(|section| section.starts_with("Recipes\n"));
    let lines = command_lines(section.expect("a section").lines());
    lines.iter().for_each(|line| check_is_understood(line));
    let shown: BTreeSet<_> = lines.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    let missing: Vec<_> =
        recipes().into_iter().filter(|name| !shown.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/tools.md shows no example of {missing:?}");
}
