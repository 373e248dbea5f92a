//! Patches of `cargo xtask mistakes`: each says what it is, and applies to the sources as they are, so that it
//! does not become useless unnoticed.

use std::path::Path;
use std::process::Command;

use super::Source;
use crate::mistakes::patch;
use crate::run;

/// Patches that cannot be used any more.
pub fn useless(root: &Path, sources: &[Source]) -> Vec<String> {
    let patches = sources
        .iter()
        .filter(|source| source.path.starts_with(patch::FOLDER) && source.path.ends_with(".patch"));
    let problem = |source: &Source| {
        let path = root.join(&source.path);
        if let Err(error) = patch::parse(&path, source.text.as_deref().unwrap_or_default()) {
            return Some(format!("{}: {error}", source.path));
        }
        let mut git = Command::new("git");
        git.args(["apply", "--check"]).arg(&path).current_dir(root);
        run::output(&mut git).err().map(|_| format!("{}: does not apply", source.path))
    };
    patches.filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::source;
    use super::*;

    #[test]
    fn a_patch_that_does_not_apply_or_says_nothing_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        run::output(Command::new("git").args(["init", "--quiet"]).current_dir(dir.path())).unwrap();
        fs::create_dir_all(dir.path().join(patch::FOLDER)).unwrap();
        let head = "What.\n\nproperty: agreement\nworld: plain\n\n";
        let diff = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-one\n+two\n";
        let check = |text: &str| {
            let path = format!("{}/a.patch", patch::FOLDER);
            fs::write(dir.path().join(&path), text).unwrap();
            useless(dir.path(), &[source(&path, text)])
        };
        fs::write(dir.path().join("a.rs"), "one\n").unwrap();
        assert!(check(&format!("{head}{diff}")).is_empty());
        assert_eq!(check(diff).len(), 1, "no head");
        fs::write(dir.path().join("a.rs"), "three\n").unwrap();
        let problems = check(&format!("{head}{diff}"));
        assert_eq!(problems, ["crates/sim/mistakes/a.patch: does not apply"]);
    }
}
