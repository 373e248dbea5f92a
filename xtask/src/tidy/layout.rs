//! How a crate's folder looks: its name, its lints, its entry, and the ban list of the pure ones.

use super::Source;

/// Crates that own no clock, thread, socket or environment variable; a clippy.toml of theirs says
/// so.
const PURE: &[&str] = &["proto", "properties", "secret", "sasl", "tree", "zab", "node"];

/// Crates that call C, which takes unsafe code. They have the workspace's lints line by line, with that one
/// denied where others forbid it.
const CALL_C: &[&str] = &["gssapi"];

/// Crates whose folder is not laid out as the others.
pub fn crate_layout(sources: &[Source]) -> Vec<String> {
    let exists = |path: &str| sources.iter().any(|source| source.path == path);
    let mut problems = Vec::new();
    for source in sources {
        let Some(name) = source.path.strip_prefix("crates/") else {
            continue;
        };
        let Some(name) = name.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let folder = format!("crates/{name}");
        let manifest = source.text.as_deref().unwrap_or_default();
        if !manifest.contains(&format!("name = \"{}\"", package_name(name))) {
            problems.push(format!("{folder}: its package is not named {}", package_name(name)));
        }
        let lints = match CALL_C.contains(&name) {
            true => "[lints.rust]\nunsafe_code = \"deny\"",
            false => "[lints]\nworkspace = true",
        };
        if !manifest.contains(lints) {
            problems.push(format!("{folder}: does not take the workspace's lints"));
        }
        if !exists(&format!("{folder}/src/lib.rs")) && !exists(&format!("{folder}/src/main.rs")) {
            problems.push(format!("{folder}: has neither src/lib.rs nor src/main.rs"));
        }
        if PURE.contains(&name) && !exists(&format!("{folder}/clippy.toml")) {
            problems.push(format!("{folder}: a pure crate without its clippy.toml"));
        }
    }
    problems
}

fn package_name(folder: &str) -> String {
    match folder {
        "cli" => "herdsman".into(),
        _ => format!("herdsman-{folder}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn problems(files: &[(&str, &str)]) -> usize {
        let sources: Vec<_> = files.iter().map(|(path, text)| source(path, text)).collect();
        crate_layout(&sources).len()
    }

    #[test]
    fn a_crate_has_its_name_lints_entry_and_bans() {
        let good = "[package]\nname = \"herdsman-tree\"\n[lints]\nworkspace = true\n";
        let manifest = "crates/tree/Cargo.toml";
        let entry = ("crates/tree/src/lib.rs", "");
        let bans = ("crates/tree/clippy.toml", "");
        assert_eq!(problems(&[(manifest, good), entry, bans]), 0);
        assert_eq!(problems(&[(manifest, "[package]\nname = \"tree\"\n"), entry, bans]), 2);
        assert_eq!(problems(&[(manifest, good), bans]), 1);
        assert_eq!(problems(&[(manifest, good), entry]), 1);
    }
}
