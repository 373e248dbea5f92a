//! Rules about one file at a time.

use super::Source;

const RUST_FILE_LINES_MAX: usize = 1000;
const RUST_FILE_LINES_LOOK: usize = 600;
const RUST_LINE_CHARS_MAX: usize = 120;
const FILE_BYTES_MAX: usize = 256 * 1024;
const DOCUMENT_LINES_MAX: &[(&str, usize)] = &[("README.md", 120), ("docs/architecture.md", 350)];

/// Words that say a thing is unfinished; put together here so that this file does not contain them.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const FORBIDDEN_CODE: &[&str] =
    &[concat!("#[", "ignore"), concat!("allow(", "dead_code"), concat!("db", "g!(")];
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/fa", "rm/")];

/// Every rule of this file.
pub fn check_file(source: &Source) -> Vec<String> {
    let rules = [
        rust_file_length,
        rust_line_length,
        module_doc,
        unfinished_words,
        forbidden_code,
        machine_paths,
        document_length,
        file_size,
    ];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

/// Rust files worth another look.
pub fn long_file_warnings(source: &Source) -> Vec<String> {
    let lines = source.lines().count();
    if source.is_rust() && (RUST_FILE_LINES_LOOK..=RUST_FILE_LINES_MAX).contains(&lines) {
        return vec![format!("{}: {lines} lines; can it be split?", source.path)];
    }
    Vec::new()
}

fn rust_file_length(source: &Source) -> Vec<String> {
    let lines = source.lines().count();
    if source.is_rust() && lines > RUST_FILE_LINES_MAX {
        return vec![format!("{}: {lines} lines, at most {RUST_FILE_LINES_MAX}", source.path)];
    }
    Vec::new()
}

fn rust_line_length(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    // String literals may be longer, so that a message can be found by searching for it.
    let too_long = |line: &str| line.chars().count() > RUST_LINE_CHARS_MAX && !line.contains('"');
    problems(source, too_long, "longer than 120 characters")
}

fn module_doc(source: &Source) -> Vec<String> {
    let text = source.text.as_deref().unwrap_or_default();
    if source.is_rust() && !text.starts_with("//!") {
        return vec![format!("{}:1: does not begin with a module doc (`//!`)", source.path)];
    }
    Vec::new()
}

fn unfinished_words(source: &Source) -> Vec<String> {
    let has_word = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| UNFINISHED.contains(&word))
    };
    if is_code(source) {
        problems(source, has_word, "unfinished; say it in an issue")
    } else {
        Vec::new()
    }
}

fn forbidden_code(source: &Source) -> Vec<String> {
    let is_forbidden = |line: &str| FORBIDDEN_CODE.iter().any(|code| line.contains(code));
    let what = "do not disable tests, silence dead code or commit debug prints";
    if source.is_rust() { problems(source, is_forbidden, what) } else { Vec::new() }
}

fn machine_paths(source: &Source) -> Vec<String> {
    let names_machine = |line: &str| MACHINE_PATHS.iter().any(|path| line.contains(path));
    problems(source, names_machine, "a path of one machine")
}

fn document_length(source: &Source) -> Vec<String> {
    let limit = DOCUMENT_LINES_MAX.iter().find(|(path, _)| *path == source.path);
    let lines = source.lines().count();
    match limit {
        Some((path, max)) if lines > *max => vec![format!("{path}: {lines} lines, at most {max}")],
        _ => Vec::new(),
    }
}

fn file_size(source: &Source) -> Vec<String> {
    if source.text.is_none() && source.bytes > FILE_BYTES_MAX {
        return vec![format!("{}: a binary of {} bytes", source.path, source.bytes)];
    }
    Vec::new()
}

fn is_code(source: &Source) -> bool {
    let endings = [".rs", ".toml", ".sh", ".py", ".java", ".c", ".md"];
    endings.iter().any(|ending| source.path.ends_with(ending))
}

fn problems(source: &Source, is_wrong: impl Fn(&str) -> bool, what: &str) -> Vec<String> {
    let wrong = source.lines().filter(|(_, line)| is_wrong(line));
    wrong.map(|(number, _)| format!("{}:{number}: {what}", source.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn count(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&source(path, text)).len()
    }

    #[test]
    fn rust_files_have_a_length() {
        assert_eq!(count(rust_file_length, "a.rs", &"\n".repeat(1000)), 0);
        assert_eq!(count(rust_file_length, "a.rs", &"\n".repeat(1001)), 1);
        assert_eq!(count(long_file_warnings, "a.rs", &"\n".repeat(600)), 1);
        assert_eq!(count(long_file_warnings, "a.rs", &"\n".repeat(599)), 0);
        assert_eq!(count(rust_file_length, "a.md", &"\n".repeat(1001)), 0);
    }

    #[test]
    fn rust_lines_have_a_length() {
        assert_eq!(count(rust_line_length, "a.rs", &"ü".repeat(120)), 0);
        assert_eq!(count(rust_line_length, "a.rs", &"ü".repeat(121)), 1);
        assert_eq!(count(rust_line_length, "a.rs", &format!("\"{}\"", "ü".repeat(121))), 0);
    }

    #[test]
    fn rust_files_begin_with_a_module_doc() {
        assert_eq!(count(module_doc, "a.rs", "//! Why.\n"), 0);
        assert_eq!(count(module_doc, "a.rs", "use std::fs;\n//! Late.\n"), 1);
    }

    #[test]
    fn unfinished_work_is_not_left_in_files() {
        for word in UNFINISHED {
            assert_eq!(count(unfinished_words, "a.rs", &format!("// {word}: later")), 1);
            assert_eq!(count(unfinished_words, "a.rs", &format!("let my{word} = 1;")), 0);
        }
    }

    #[test]
    fn tests_are_not_switched_off() {
        for code in FORBIDDEN_CODE {
            assert_eq!(count(forbidden_code, "a.rs", &format!("ok\n  {code}\n")), 1);
        }
        assert_eq!(count(forbidden_code, "a.rs", "fn ignore() {}"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for path in MACHINE_PATHS {
            assert_eq!(count(machine_paths, "a.md", &format!("see {path}x")), 1);
        }
        assert_eq!(count(machine_paths, "a.md", "/workers/a and frame/work"), 0);
    }

    #[test]
    fn documents_have_a_length() {
        assert_eq!(count(document_length, "README.md", &"\n".repeat(121)), 1);
        assert_eq!(count(document_length, "README.md", &"\n".repeat(120)), 0);
        assert_eq!(count(document_length, "docs/architecture.md", &"\n".repeat(351)), 1);
    }

    #[test]
    fn large_binaries_are_found() {
        let binary = |bytes| Source { path: "fixtures/log.1".into(), bytes, text: None };
        assert_eq!(file_size(&binary(256 * 1024)).len(), 0);
        assert_eq!(file_size(&binary(256 * 1024 + 1)).len(), 1);
    }
}
