//! The baseline: the number of instructions of each case when it was last accepted.
//!
//! A text file, so that a diff shows the cost of a change:
//! ```text
//! # comment
//! rustc 1.95.0 (59807616e 2026-04-14)
//! host x86_64-unknown-linux-gnu
//! decode-get-data    636
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// Instructions of an operation, by case.
pub type Counts = BTreeMap<String, u64>;

const HEAD: &str = "\
# Instructions of one operation, by case: what `cargo xtask instructions` compares with.
# `cargo xtask instructions --update` writes it anew.
";
const NAME_WIDTH: usize = 20;

/// The compiler that produced the instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The output of `rustc --version`, without the name.
    pub version: String,
    /// The target that it compiles for.
    pub host: String,
}

impl Compiler {
    /// Parses the output of `rustc -vV`.
    pub fn parse(verbose: &str) -> Result<Self> {
        let after = |prefix: &str| {
            let rest = verbose.lines().find_map(|line| line.strip_prefix(prefix));
            rest.map(str::to_string).with_context(|| format!("rustc -vV has no line `{prefix}…`"))
        };
        Ok(Compiler { version: after("rustc ")?, host: after("host: ")? })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {}", self.version)
    }
}

/// Counts, and the compiler that they were made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Another compiler produces other instructions.
    pub compiler: Compiler,
    /// Instructions of an operation, by case.
    pub counts: Counts,
}

impl Baseline {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!(
                "no baseline in {}; create it with `cargo xtask instructions --update`",
                path.display()
            )
        })?;
        text.parse().with_context(|| format!("reading {}", path.display()))
    }

    /// An empty baseline.
    pub fn empty(compiler: &Compiler) -> Self {
        Baseline { compiler: compiler.clone(), counts: Counts::new() }
    }

    /// Only the cases that were counted now.
    pub fn restricted_to(mut self, counted: &Counts) -> Self {
        self.counts.retain(|name, _| counted.contains_key(name));
        self
    }

    /// Checks that some cases can be replaced while the others remain valid.
    pub fn check_same_compiler(&self, compiler: &Compiler) -> Result<()> {
        ensure!(
            self.compiler == *compiler,
            "the baseline was counted with {}, this is {compiler}: update all cases, not only some",
            self.compiler,
        );
        Ok(())
    }

    /// Checks the host: other processors have other instructions.
    pub fn check_same_host(&self, compiler: &Compiler) -> Result<()> {
        ensure!(
            self.compiler.host == compiler.host,
            "the baseline was counted on {}, and instructions of {} cannot be compared with it; leave this \
             step out (`cargo xtask test --skip instructions`)",
            self.compiler.host,
            compiler.host,
        );
        Ok(())
    }
}

impl FromStr for Baseline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (mut version, mut host, mut counts) = (None, None, Counts::new());
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) =
                line.split_once(' ').with_context(|| format!("line {number}: no value"))?;
            let value = value.trim();
            let is_new = match key {
                "rustc" => version.replace(value.to_string()).is_none(),
                "host" => host.replace(value.to_string()).is_none(),
                case => {
                    let Ok(count) = value.parse() else {
                        bail!("line {number}: `{value}` is not a number of instructions");
                    };
                    counts.insert(case.to_string(), count).is_none()
                }
            };
            ensure!(is_new, "line {number}: `{key}` appears twice");
        }
        let version = version.context("no line `rustc VERSION`")?;
        let host = host.context("no line `host TARGET`")?;
        Ok(Baseline { compiler: Compiler { version, host }, counts })
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiler { version, host } = &self.compiler;
        writeln!(f, "{HEAD}rustc {version}\nhost {host}\n")?;
        for (name, count) in &self.counts {
            writeln!(f, "{name:NAME_WIDTH$} {count:8}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler() -> Compiler {
        let verbose =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        Compiler::parse(verbose).unwrap()
    }

    #[test]
    fn a_baseline_round_trips() {
        let long = "a-case-whose-name-is-wider-than-its-column";
        let counts = [("one", 1), ("two", 123_456_789_012), (long, 3)];
        let counts = counts.map(|(name, count)| (name.to_string(), count)).into();
        let baseline = Baseline { compiler: compiler(), counts };
        let text = baseline.to_string();
        assert!(text.contains("\nrustc 1.95.0 (59807616e 2026-04-14)\n"), "{text}");
        assert_eq!(text.parse::<Baseline>().unwrap(), baseline);
    }

    #[test]
    fn invalid_baselines_are_rejected_with_the_line() {
        let said = |text: &str| text.parse::<Baseline>().unwrap_err().to_string();
        assert_eq!(said("# one\none 1o\n"), "line 2: `1o` is not a number of instructions");
        assert_eq!(said("one\n"), "line 1: no value");
        assert_eq!(said("one 1\none 2\n"), "line 2: `one` appears twice");
        assert_eq!(said("host x\n"), "no line `rustc VERSION`");
        assert_eq!(said("rustc 1\n"), "no line `host TARGET`");
    }

    #[test]
    fn a_compiler_without_a_host_is_rejected() {
        assert!(Compiler::parse("rustc 1.95.0\n").is_err());
        assert!(Compiler::parse("host: x\n").is_err());
    }
}
