//! A patch that makes a mistake, and the description in its head.
//!
//! The head is the text before the first `diff --git`, which git skips: sentences that describe the
//! mistake, and then lines of a key and a value. `property:` names the property that finds it, `world:` is
//! plain, rough, changing or rotting, `seeds:` is the number of seeds within which it is found (300 by default), and
//! `only` means that no other property finds it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The directory of the patches, from the root of the repository.
pub const FOLDER: &str = "crates/sim/mistakes";
/// Seeds that are run with a mistake whose patch does not specify a number.
pub const SEEDS_DEFAULT: u64 = 300;

/// A world of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Determined by the seed.
    Plain,
    /// `--rough`.
    Rough,
    /// `--changing`.
    Changing,
    /// `--rotting`.
    Rotting,
}

impl World {
    /// Its name in a patch.
    pub fn name(self) -> &'static str {
        match self {
            World::Plain => "plain",
            World::Rough => "rough",
            World::Changing => "changing",
            World::Rotting => "rotting",
        }
    }

    /// The arguments of the simulator.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            World::Plain => &[],
            World::Rough => &["--rough"],
            World::Changing => &["--changing"],
            World::Rotting => &["--rotting"],
        }
    }
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its name, which is that of the file.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
    /// A description.
    pub about: String,
    /// The property that finds it.
    pub property: String,
    /// The world in which it is found.
    pub world: World,
    /// The number of seeds within which it is found.
    pub seeds: Option<u64>,
    /// No other property finds it.
    pub only: bool,
}

/// Returns all mistakes of a repository, by name.
pub fn all(root: &Path) -> Result<Vec<Patch>> {
    let folder = root.join(FOLDER);
    let mut patches = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            patches.push(parse(&path, &text).with_context(|| path.display().to_string())?);
        }
    }
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(patches)
}

/// Parses the head of a patch.
pub fn parse(path: &Path, text: &str) -> Result<Patch> {
    let name = path.file_stem().context("a patch has a name")?.to_string_lossy().into_owned();
    let (mut about, mut property, mut world) = (Vec::new(), None, None);
    let (mut seeds, mut only) = (None, false);
    for line in text.lines().take_while(|line| !line.starts_with("diff --git")) {
        match line.split_once(": ") {
            Some(("property", value)) => property = Some(value.to_owned()),
            Some(("world", "plain")) => world = Some(World::Plain),
            Some(("world", "rough")) => world = Some(World::Rough),
            Some(("world", "changing")) => world = Some(World::Changing),
            Some(("world", "rotting")) => world = Some(World::Rotting),
            Some(("world", other)) => bail!("there is no world `{other}`"),
            Some(("seeds", value)) => seeds = Some(value.parse().context("a number of seeds")?),
            _ if line == "only" => only = true,
            _ => about.push(line),
        }
    }
    Ok(Patch {
        name,
        path: path.to_path_buf(),
        about: about.join(" ").trim().to_owned(),
        property: property.context("the head has no line `property: …`")?,
        world: world.context("the head has no line `world: …`")?,
        seeds,
        only,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_describes_a_mistake() {
        let head =
            "A cut is\nnot made.\n\nproperty: forward only\nworld: rough\nseeds: 40\nonly\n\n";
        let text = format!("{head}diff --git a/x b/x\nproperty: not this one\n");
        let patch = parse(Path::new("a/no-cut.patch"), &text).unwrap();
        assert_eq!(patch.name, "no-cut");
        assert_eq!(patch.about, "A cut is not made.");
        assert_eq!(patch.property, "forward only");
        assert_eq!((patch.world, patch.seeds, patch.only), (World::Rough, Some(40), true));
    }

    #[test]
    fn an_incomplete_head_is_rejected() {
        let check = |head: &str| parse(Path::new("a.patch"), head).is_ok();
        assert!(check("property: agreement\nworld: plain\n"));
        assert!(!check("property: agreement\n"));
        assert!(!check("world: plain\n"));
        assert!(!check("property: agreement\nworld: other\n"));
        assert!(!check("property: agreement\nworld: plain\nseeds: many\n"));
    }
}
