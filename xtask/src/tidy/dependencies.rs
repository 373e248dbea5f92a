//! Dependencies that are declared and not used.
//!
//! In: the manifests and sources. A package counts as using a dependency if the dependency's name, with `_` for `-`,
//! appears as a word in one of its Rust files, or in one of its features. Macros that name crates which the caller must
//! have would escape this; there are none.

use super::Source;

/// Declared only to switch features of theirs on, for a dependency that uses them.
const UNNAMED: &[&str] = &["pkcs5"];
/// Packages whose library has another name.
const RENAMED: &[(&str, &str)] = &[("md-5", "md5"), ("rustls-webpki", "webpki")];

/// Declared dependencies that nothing uses: of packages, and of the workspace.
pub fn unused(sources: &[Source]) -> Vec<String> {
    let manifests = || sources.iter().filter(|source| source.path.ends_with("Cargo.toml"));
    let mut problems = Vec::new();
    for manifest in manifests() {
        let text = manifest.text.as_deref().unwrap_or_default();
        let folder = manifest.path.strip_suffix("Cargo.toml").unwrap_or_default();
        for name in declared(text, false) {
            if !UNNAMED.contains(&name) && !is_used(sources, folder, text, name) {
                problems.push(format!("{}: nothing uses `{name}`", manifest.path));
            }
        }
        for name in declared(text, true) {
            let is_declared = |other: &Source| {
                declared(other.text.as_deref().unwrap_or_default(), false).any(|it| it == name)
            };
            if !manifests().any(is_declared) {
                problems.push(format!("{}: no package uses `{name}`", manifest.path));
            }
        }
    }
    problems
}

/// The names in the sections of dependencies: those of the workspace, or those of a package.
fn declared(manifest: &str, of_workspace: bool) -> impl Iterator<Item = &str> {
    let mut is_wanted = false;
    manifest.lines().filter_map(move |line| {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_wanted = section.ends_with("dependencies")
                && section.starts_with("workspace") == of_workspace;
            return None;
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
        (is_wanted && !name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

fn is_used(sources: &[Source], folder: &str, manifest: &str, name: &str) -> bool {
    let renamed = RENAMED.iter().find(|(package, _)| *package == name);
    let word = renamed.map_or_else(|| name.replace('-', "_"), |(_, library)| (*library).to_owned());
    let names = |source: &Source| {
        let text = source.text.as_deref().unwrap_or_default();
        let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
        text.split(|c: char| !is_in_word(c)).any(|found| found == word)
    };
    let mut files = sources.iter().filter(|it| it.is_rust() && it.path.starts_with(folder));
    let is_in_feature = |line: &str| {
        line.contains(&format!("\"{name}/")) || line.contains(&format!("dep:{name}\""))
    };
    files.any(names) || manifest.lines().any(is_in_feature)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn check(manifest: &str, code: &str) -> Vec<String> {
        unused(&[source("crates/a/Cargo.toml", manifest), source("crates/a/src/lib.rs", code)])
    }

    #[test]
    fn a_dependency_must_be_used() {
        let manifest = "[dependencies]\nfoo-bar.workspace = true\n\n[features]\nx = []\n";
        assert_eq!(check(manifest, "use foo_bar::X;"), Vec::<String>::new());
        assert_eq!(check(manifest, "use foo_bars::X;").len(), 1);
        let manifest = "[dev-dependencies]\nbaz = { version = \"1\" }\n";
        assert_eq!(check(manifest, "fn f() {}").len(), 1);
        let manifest = "[dependencies]\nq = \"1\"\n[features]\nx = [\"q/y\"]\n";
        assert_eq!(check(manifest, ""), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_of_the_workspace_must_be_declared_by_a_package() {
        let root = source("Cargo.toml", "[workspace.dependencies]\nfoo = \"1\"\nbar = \"2\"\n");
        let member = source("crates/a/Cargo.toml", "[dependencies]\nfoo.workspace = true\n");
        let code = source("crates/a/src/lib.rs", "use foo::X;");
        assert_eq!(unused(&[root, member, code]), ["Cargo.toml: no package uses `bar`"]);
    }
}
