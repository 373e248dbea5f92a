//! Which crate may use which: the table of docs/architecture.md, checked against the manifests.
//!
//! Tests of a crate get no further edges, with two exceptions: those of `server` may start anything
//! against it, and those of tools and clients may use `server` and `testing`, which no other code may use.

use super::Source;

/// Crate (folder under `crates/`) and what of ours it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("properties", &[]),
    ("secret", &[]),
    ("tls", &["secret"]),
    ("gssapi", &[]),
    ("sasl", &["gssapi", "secret"]),
    ("protection", &["secret", "tls"]),
    ("config", &["proto", "properties", "secret"]),
    ("tree", &["proto", "secret"]),
    ("zab", &["proto"]),
    ("store", &["proto", "tree"]),
    ("node", &["proto", "tree", "zab"]),
    (
        "server",
        &["config", "quorum", "runtime", "proto", "tree", "zab", "store", "node", "tls", "sasl"],
    ),
    ("runtime", &["proto"]),
    ("quorum", &["proto", "runtime", "sasl", "tls", "zab"]),
    ("client", &["proto", "tls", "sasl", "properties"]),
    ("recipes", &["client"]),
    ("bench", &["proto", "tls", "protection"]),
    ("shell", &["proto", "client", "protection"]),
    ("inspect", &["proto", "tree", "store", "secret", "tls", "protection", "properties"]),
    (
        "admin",
        &[
            "config",
            "proto",
            "tree",
            "store",
            "node",
            "server",
            "client",
            "recipes",
            "runtime",
            "tls",
            "properties",
        ],
    ),
    (
        "cli",
        &[
            "config",
            "server",
            "client",
            "recipes",
            "admin",
            "shell",
            "inspect",
            "bench",
            "protection",
        ],
    ),
    ("testing", &["config", "proto", "node", "server"]),
    ("sim", &["proto", "tree", "zab", "store", "node"]),
];
const PREFIX: &str = "herdsman-";

/// Every edge that the table does not allow, and every crate it does not know.
pub fn forbidden_edges(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in sources {
        let Some(name) = crate_of_manifest(&source.path) else {
            continue;
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{}: crate `{name}` is not in the table of edges", source.path));
            continue;
        };
        for edge in edges(source.text.as_deref().unwrap_or_default()) {
            let is_free = edge.in_tests && is_free_in_tests(name, &edge.to);
            if !is_free && !allowed.contains(&edge.to.as_str()) {
                problems.push(format!("{}: `{name}` must not use `{}`", source.path, edge.to));
            }
        }
    }
    problems
}

fn is_free_in_tests(name: &str, to: &str) -> bool {
    let starts_servers = ["admin", "bench", "cli", "client", "recipes", "shell", "inspect"];
    name == "server"
        || (starts_servers.contains(&name) && ["config", "server", "testing"].contains(&to))
}

fn crate_of_manifest(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}

#[derive(Debug, PartialEq, Eq)]
struct Edge {
    to: String,
    in_tests: bool,
}

/// Our own crates named in the dependency tables of a manifest. A line-wise reader is enough for
/// how we write them.
fn edges(manifest: &str) -> Vec<Edge> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
        }
        if line.starts_with('#') || !section.contains("dependencies") {
            continue;
        }
        let in_tests = section.contains("dev-dependencies");
        found.extend(names(line).map(|to| Edge { to, in_tests }));
    }
    found
}

/// The crates a line mentions, as a key, in a table header or behind `package =`.
fn names(line: &str) -> impl Iterator<Item = String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    line.split(move |c| !is_name(c)).filter_map(|word| word.strip_prefix(PREFIX)).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn problems(name: &str, manifest: &str) -> usize {
        forbidden_edges(&[source(&format!("crates/{name}/Cargo.toml"), manifest)]).len()
    }

    #[test]
    fn an_edge_outside_the_table_is_found() {
        let manifest = "[package]\nname = \"herdsman-tree\"\n[dependencies]\n";
        assert_eq!(problems("tree", &format!("{manifest}herdsman-proto.workspace = true\n")), 0);
        assert_eq!(problems("tree", &format!("{manifest}herdsman-zab.workspace = true\n")), 1);
    }

    #[test]
    fn edges_are_found_however_they_are_written() {
        let ways = [
            "[dependencies]\nherdsman-store = { path = \"../store\" }",
            "[dependencies.herdsman-store]\nworkspace = true",
            "[dependencies]\ndisk = { package = \"herdsman-store\", path = \"../store\" }",
            "[target.'cfg(unix)'.dependencies]\nherdsman-store.workspace = true",
            "[build-dependencies]\nherdsman-store.workspace = true",
            "[dev-dependencies]\nherdsman-store.workspace = true",
        ];
        for way in ways {
            assert_eq!(problems("node", way), 1, "{way}");
        }
    }

    #[test]
    fn only_the_servers_tests_may_use_anything_and_only_those_of_clients_a_server() {
        let manifest = "[dev-dependencies]\nherdsman-client.workspace = true\n";
        assert_eq!(problems("server", manifest), 0);
        assert_eq!(problems("store", manifest), 1);
        assert_eq!(problems("server", "[dependencies]\nherdsman-client.workspace = true\n"), 1);
        let manifest = "[dev-dependencies]\nherdsman-server.workspace = true\n";
        assert_eq!(problems("recipes", manifest), 0);
        assert_eq!(problems("store", manifest), 1);
        assert_eq!(problems("client", "[dependencies]\nherdsman-server.workspace = true\n"), 1);
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_eq!(problems("helpers", "[package]\n"), 1);
    }
}
