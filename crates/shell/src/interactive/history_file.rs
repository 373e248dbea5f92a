//! The file that keeps the history of commands between shells.

use std::path::PathBuf;

use crate::shell::holds_secret;

/// The path of the file. Creates its directory; `None` if there is none.
pub(crate) fn open() -> Option<PathBuf> {
    let directory = directory(
        std::env::var_os("XDG_STATE_HOME").map(PathBuf::from),
        std::env::var_os("HOME").map(PathBuf::from),
    )?;
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("shell_history"))
}

/// The directory by the XDG rules: a state directory that is not absolute counts as not set.
fn directory(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = state.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute());
    let base = state.or_else(|| home.map(|home| home.join(".local/state")))?;
    Some(base.join("herdsman"))
}

/// Whether a line may be written to the file: not if it is blank or contains a secret.
pub(crate) fn may_keep(line: &str) -> bool {
    !line.trim().is_empty() && !holds_secret(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_in_the_state_directory() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(directory(path("/s"), path("/home/bob")), path("/s/herdsman"));
        let usual = path("/home/bob/.local/state/herdsman");
        assert_eq!(directory(None, path("/home/bob")), usual);
        assert_eq!(directory(path("relative"), path("/home/bob")), usual);
        assert_eq!(directory(None, None), None);
    }

    #[test]
    fn secrets_are_not_written() {
        assert!(may_keep("ls /"));
        assert!(!may_keep("addauth digest bob:secret"));
        assert!(!may_keep("  addAuth digest bob:secret"));
        assert!(!may_keep("diff /a /b --auth digest:bob:secret"));
        assert!(!may_keep("   "));
    }
}
