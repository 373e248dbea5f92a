//! The files of a membership that changes at run time, as in Apache:
//! `zoo.cfg.dynamic.<version>` is the current one, with its version in its name, and zoo.cfg refers to
//! it with `dynamicConfigFile` and no longer lists members itself. `zoo.cfg.bak` is the previous
//! zoo.cfg. Apache: `QuorumPeerConfig.writeDynamicConfig`, `editStaticConfig`, `backupOldConfig`.
//!
//! How we differ: zoo.cfg keeps its comments and the order of its lines. Apache's `zoo.cfg.dynamic.next`, the
//! last proposed membership, is neither written nor read: proposals are in the log, and a
//! file would outlive a change that is rolled back. The next change removes one that Apache has left.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use herdsman_proto::{Membership, ServerId};

/// Keys that are removed from zoo.cfg when the members have a separate file.
const MOVED_KEYS: [&str; 5] = ["server.", "group", "weight", "dynamicConfigFile", "peerType"];

/// The files of one server.
#[derive(Clone, Debug)]
pub struct DynamicFiles {
    file: PathBuf,
    my_id: ServerId,
}

impl DynamicFiles {
    /// The zoo.cfg next to them.
    #[must_use]
    pub fn new(file: PathBuf, my_id: ServerId) -> Self {
        DynamicFiles { file, my_id }
    }

    /// The id of the server.
    #[must_use]
    pub fn my_id(&self) -> ServerId {
        self.my_id
    }

    /// Backs up zoo.cfg, unless it refers to a dynamic file already.
    ///
    /// # Errors
    /// I/O errors.
    pub fn back_up(&self) -> io::Result<()> {
        let text = fs::read_to_string(&self.file)?;
        let points = logical_lines(&text).any(|line| key_of(line) == "dynamicConfigFile");
        if points { Ok(()) } else { replace(&self.with_suffix(".bak"), &text) }
    }

    /// Checks whether zoo.cfg can be replaced, which takes more than writing next to it: it may be a mount point.
    ///
    /// # Errors
    /// I/O errors.
    pub fn check_writable(&self) -> io::Result<()> {
        replace(&self.file, &fs::read_to_string(&self.file)?)
    }

    /// Writes a committed membership, and makes zoo.cfg refer to it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn activate(&self, membership: &Membership) -> io::Result<()> {
        let dynamic = self.with_suffix(&format!(".dynamic.{:x}", membership.version));
        replace(&dynamic, &sorted_lines(membership, |line| !line.starts_with("version")))?;
        self.point_to(&dynamic, membership)?;
        match fs::remove_file(self.with_suffix(".dynamic.next")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn point_to(&self, dynamic: &Path, membership: &Membership) -> io::Result<()> {
        let own_client_port =
            membership.members.get(&self.my_id).is_some_and(|member| member.client.is_some());
        let text = fs::read_to_string(&self.file)?;
        let mut edited = String::new();
        for line in logical_lines(&text).filter(|line| stays(key_of(line), own_client_port)) {
            edited.push_str(line);
            edited.push('\n');
        }
        let dynamic = dynamic.canonicalize()?;
        edited.push_str(&format!("dynamicConfigFile={}\n", dynamic.display()));
        replace(&self.file, &edited)
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.file);
        name.push(suffix);
        PathBuf::from(name)
    }
}

fn stays(key: &str, own_client_port: bool) -> bool {
    let is_moved = MOVED_KEYS.iter().any(|moved| key.starts_with(moved))
        || (own_client_port && key.starts_with("clientPort"));
    !is_moved
}

fn sorted_lines(membership: &Membership, keep: impl Fn(&str) -> bool) -> String {
    let text = membership.to_text();
    let mut lines: Vec<_> = text.lines().filter(|line| keep(line)).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Splits a Java properties file into lines: a backslash at the end joins the next one. Each has
/// its inner line ends, without the last one.
fn logical_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = 0;
        loop {
            let line_end = rest[end..].find('\n').map_or(rest.len(), |at| end + at);
            let line = &rest[end..line_end];
            let slashes = line.trim_end_matches('\r').bytes().rev().take_while(|&b| b == b'\\');
            let is_comment = rest.trim_start().starts_with(['#', '!']);
            if is_comment || slashes.count() % 2 == 0 || line_end == rest.len() {
                let whole = &rest[..line_end];
                rest = rest.get(line_end + 1..).unwrap_or("");
                return Some(whole);
            }
            end = line_end + 1;
        }
    })
}

fn key_of(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with(['#', '!']) {
        return "";
    }
    line.split(|c: char| c == '=' || c == ':' || c.is_whitespace()).next().unwrap_or_default()
}

/// Replaces a file atomically and durably.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = OsString::from(path);
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATIC: &str = "# ours\ntickTime=2000\nserver.1=a:1:2;3\nserver.2 = \\\n  b:1:2;3\n\
                          peerType=participant\nclientPort=2181\ninitLimit 5\n";
    const MEMBERS: &str = "server.2=b:1:2:participant;0.0.0.0:3\n\
                           server.1=a:1:2:participant;0.0.0.0:3\nversion=300000001";

    fn files(dir: &Path) -> DynamicFiles {
        let file = dir.join("zoo.cfg");
        fs::write(&file, STATIC).unwrap();
        DynamicFiles::new(file, ServerId(1))
    }

    #[test]
    fn zoo_cfg_points_to_the_members_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let read = |name: &str| fs::read_to_string(dir.path().join(name));
        let membership = Membership::parse_text(MEMBERS).unwrap();
        files.back_up().unwrap();
        files.check_writable().unwrap();
        assert_eq!(read("zoo.cfg").unwrap(), STATIC);
        let elsewhere = DynamicFiles::new(dir.path().join("missing/zoo.cfg"), ServerId(1));
        assert!(elsewhere.check_writable().is_err());
        fs::write(dir.path().join("zoo.cfg.dynamic.next"), MEMBERS).unwrap();
        files.activate(&membership).unwrap();
        assert!(read("zoo.cfg.dynamic.next").is_err());
        assert_eq!(
            read("zoo.cfg.dynamic.300000001").unwrap(),
            "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3"
        );
        let dynamic = dir.path().join("zoo.cfg.dynamic.300000001").canonicalize().unwrap();
        let expected = format!(
            "# ours\ntickTime=2000\ninitLimit 5\ndynamicConfigFile={}\n",
            dynamic.display()
        );
        assert_eq!(read("zoo.cfg").unwrap(), expected);
        assert_eq!(read("zoo.cfg.bak").unwrap(), STATIC);
        files.back_up().unwrap();
        assert_eq!(read("zoo.cfg.bak").unwrap(), STATIC);
    }

    #[test]
    fn a_client_port_of_zoo_cfg_itself_stays() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let members = MEMBERS.replace(";0.0.0.0:3", "");
        files.activate(&Membership::parse_text(&members).unwrap()).unwrap();
        assert!(fs::read_to_string(dir.path().join("zoo.cfg")).unwrap().contains("clientPort"));
    }
}
