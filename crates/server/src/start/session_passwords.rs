//! The key of session passwords, from its file.
//!
//! In: `herdsman.sessionKeyFile` and `herdsman.sessionPasswords`. Out: the key for the node, or an error.
//! White space around the secret is ignored, so that a line break at the end of the file makes no
//! difference between two servers.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use herdsman_node::{KeyUse, SessionKey, SessionPasswords};
use thiserror::Error;

use herdsman_config::{Config, SessionPasswordUse};

/// A longer file is probably the wrong file.
const FILE_BYTES_MAX: usize = 4096;

/// Why no key can be loaded.
#[derive(Debug, Error)]
pub enum SessionKeyError {
    /// The setting requires a key, and no file is configured.
    #[error("herdsman.sessionPasswords needs a key: set herdsman.sessionKeyFile")]
    NoFile,
    /// The file cannot be read.
    #[error("cannot read the session key file {path}: {source} (herdsman.sessionKeyFile)", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file does not contain a key of valid length.
    #[error(
        "the session key file {path} has {found}; a key has {} to {FILE_BYTES_MAX} bytes: create one with \
         `head -c 32 /dev/urandom | base64` and copy it to all servers (herdsman.sessionKeyFile)",
        SessionKey::BYTES_MIN,
        path = path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The length of its contents, as text.
        found: String,
    },
}

/// Reads the key, if one is configured.
pub(crate) fn load(config: &Config) -> Result<SessionPasswords, SessionKeyError> {
    let sessions = &config.sessions;
    let Some(path) = &sessions.key_file else {
        return match sessions.passwords {
            Some(_) => Err(SessionKeyError::NoFile),
            None => Ok(SessionPasswords::Apache),
        };
    };
    let key_use = match sessions.passwords {
        Some(SessionPasswordUse::AcceptKeyed) => KeyUse::Accept,
        Some(SessionPasswordUse::IssueKeyed) => KeyUse::Issue,
        Some(SessionPasswordUse::KeyedOnly) | None => KeyUse::Only,
    };
    Ok(SessionPasswords::Keyed { key: read_key(path)?, key_use })
}

fn read_key(path: &Path) -> Result<SessionKey, SessionKeyError> {
    let path_buf = || path.to_owned();
    let bytes =
        read(path).map_err(|source| SessionKeyError::Unreadable { path: path_buf(), source })?;
    let too_long = bytes.len() > FILE_BYTES_MAX;
    let key = SessionKey::new(bytes.trim_ascii()).filter(|_| !too_long);
    key.ok_or_else(|| SessionKeyError::Length {
        path: path_buf(),
        found: match bytes.trim_ascii().len() {
            _ if too_long => format!("more than {FILE_BYTES_MAX} bytes"),
            1 => "1 byte".to_owned(),
            count => format!("{count} bytes"),
        },
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_with(
        content: Option<&[u8]>,
        passwords: Option<SessionPasswordUse>,
    ) -> Result<SessionPasswords, String> {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.sessions.passwords = passwords;
        if let Some(content) = content {
            let path = dir.path().join("key");
            std::fs::write(&path, content).unwrap();
            config.sessions.key_file = Some(path);
        }
        load(&config).map_err(|error| error.to_string())
    }

    fn key_use(loaded: &Result<SessionPasswords, String>) -> Option<KeyUse> {
        match loaded {
            Ok(SessionPasswords::Keyed { key_use, .. }) => Some(*key_use),
            _ => None,
        }
    }

    #[test]
    fn a_key_file_alone_accepts_nothing_else() {
        assert_eq!(key_use(&load_with(Some(&[b'k'; 32]), None)), Some(KeyUse::Only));
        let issue = load_with(Some(&[b'k'; 44]), Some(SessionPasswordUse::IssueKeyed));
        assert_eq!(key_use(&issue), Some(KeyUse::Issue));
        assert!(matches!(load_with(None, None), Ok(SessionPasswords::Apache)));
    }

    #[test]
    fn a_line_break_at_the_end_makes_no_other_key() {
        let session = herdsman_proto::SessionId(7);
        let passwords = [&[b'k'; 32][..], &[&[b'k'; 32][..], b"\r\n"].concat()].map(|content| {
            let Ok(SessionPasswords::Keyed { key, .. }) = load_with(Some(content), None) else {
                panic!("no key");
            };
            key.password(session)
        });
        assert_eq!(passwords[0], passwords[1]);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let error = |content: &[u8]| load_with(Some(content), None).unwrap_err();
        let short = error(b"too short\n");
        assert!(short.contains("has 9 bytes") && short.contains("/dev/urandom"), "{short}");
        assert!(!short.contains("too short"), "{short}");
        assert!(error(&[b' '; 40]).contains("0 bytes"));
        assert!(error(&[b'k'; FILE_BYTES_MAX + 1]).contains("more than"));
        let none = load_with(None, Some(SessionPasswordUse::KeyedOnly)).unwrap_err();
        assert!(none.contains("herdsman.sessionKeyFile"), "{none}");
    }

    #[test]
    fn a_key_file_that_is_missing_is_named() {
        let mut config = Config::default();
        config.sessions.key_file = Some("/no/such/file".into());
        let error = load(&config).unwrap_err().to_string();
        assert!(error.contains("/no/such/file") && error.contains("sessionKeyFile"), "{error}");
    }
}
