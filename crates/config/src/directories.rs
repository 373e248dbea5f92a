//! Whether the data directories can be what the configuration says. Apache: the constructor of
//! `FileTxnSnapLog`. Nothing is created or written here; opening the files is `store`'s work.

use std::fs;
use std::io;
use std::path::Path;

use super::error::ConfigError;
use super::types::Storage;

/// Checks that the directories exist or may be created, and that logs and snapshots are not mixed up
/// where they have directories of their own.
///
/// # Errors
/// Names the directory and what to do.
pub fn check_directories(storage: &Storage) -> Result<(), ConfigError> {
    let snapshots = storage.data_dir.join("version-2");
    let logs = storage.log_dir.join("version-2");
    for directory in [&logs, &snapshots] {
        if !storage.create_directories && !directory.exists() {
            let problem = "does not exist, and datadir.autocreate=false forbids to create it";
            return Err(refused(directory, problem));
        }
    }
    if logs == snapshots {
        return Ok(());
    }
    if has_file(&logs, "snapshot.")? {
        return Err(refused(
            &logs,
            "has snapshots, but dataLogDir is for logs; is it the right directory?",
        ));
    }
    if has_file(&snapshots, "log.")? {
        let problem = "has logs, but dataLogDir is another directory; move its log.* files there";
        return Err(refused(&snapshots, problem));
    }
    Ok(())
}

fn refused(path: &Path, problem: &str) -> ConfigError {
    ConfigError::Directory { path: path.to_owned(), problem: problem.to_owned() }
}

fn has_file(directory: &Path, prefix: &str) -> Result<bool, ConfigError> {
    let cannot = |error: io::Error| refused(directory, &format!("cannot be read: {error}"));
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(cannot(error)),
    };
    for entry in entries {
        if entry.map_err(cannot)?.file_name().to_string_lossy().starts_with(prefix) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory of this test's own, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("herdsman-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary directory can be made");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn storage(data: &Path, log: &Path) -> Storage {
        Storage {
            data_dir: data.to_owned(),
            log_dir: log.to_owned(),
            create_directories: true,
            ..Storage::default()
        }
    }

    #[test]
    fn logs_and_snapshots_are_not_mixed_up() {
        let scratch = Scratch::new("mixed");
        let (data, log) = (scratch.0.join("data"), scratch.0.join("log"));
        let apart = storage(&data, &log);
        assert!(check_directories(&apart).is_ok(), "directories that do not exist are fine");
        fs::create_dir_all(data.join("version-2")).expect("can be made");
        fs::create_dir_all(log.join("version-2")).expect("can be made");
        fs::write(data.join("version-2/snapshot.0"), "").expect("can be written");
        fs::write(log.join("version-2/log.1"), "").expect("can be written");
        assert!(check_directories(&apart).is_ok(), "each file is where it belongs");
        let swapped = check_directories(&storage(&log, &data)).expect_err("they are swapped");
        assert!(swapped.to_string().contains("data/version-2: has snapshots"), "{swapped}");
        assert_eq!(swapped.exit_code(), 3);
        fs::write(data.join("version-2/log.1"), "").expect("can be written");
        let mixed = check_directories(&apart).expect_err("a log is with the snapshots");
        assert!(mixed.to_string().contains("move its log.* files there"), "{mixed}");
        assert!(check_directories(&storage(&data, &data)).is_ok(), "one directory may have both");
    }

    #[test]
    fn missing_directories_are_refused_only_if_they_must_not_be_made() {
        let scratch = Scratch::new("missing");
        let mut missing = storage(&scratch.0.join("data"), &scratch.0.join("data"));
        assert!(check_directories(&missing).is_ok());
        missing.create_directories = false;
        let error = check_directories(&missing).expect_err("must not be made");
        assert!(error.to_string().contains("datadir.autocreate=false"), "{error}");
    }
}
