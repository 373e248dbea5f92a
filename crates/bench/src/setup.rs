//! Creates the znodes that a target needs before the measurement, and deletes them afterwards.
//!
//! The data of the root contains a mark of this program. An existing root without the mark is refused, and nothing
//! in it is changed. One with the mark is left over from a run that was killed, or from `--keep`, and is emptied
//! first, unless `--filled` says that its keys are to be used.
//!
//! Two runs at the same time with the same root on the same servers would delete each other's znodes.

use anyhow::{Context as _, Result, bail};
use herdsman_proto::{ErrorCode, JuteReader, ReadRequest, Request, WriteRequest};

use crate::arguments::Znodes;
use crate::dial::Session;
use crate::names::Family;
use crate::progress::Progress;
use crate::script::{Script, run_to_end};
use crate::stop::Stop;
use crate::sweep::{Extent, sweep};
use crate::target::Target;
use crate::threads::ThreadShare;
use crate::workload::create::{Create, PERSISTENT, create_request};

/// The beginning of the data of a root that this program has created.
const MARK: &str = "herdsman bench";

/// The name of the family that `--filled` keeps.
const KEYS: &str = "keys";

/// How the keys are provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// No workload uses them.
    Unused,
    /// They are created now.
    FillIn,
    /// They exist from an earlier run, and are kept.
    AlreadyThere,
}

/// The znodes of a run on one target.
pub(crate) struct Setup<'a> {
    pub(crate) target: &'a Target,
    pub(crate) znodes: &'a Znodes,
    pub(crate) keys: Keys,
    pub(crate) progress: Progress,
}

/// The family of the keys.
pub(crate) fn keys_family(znodes: &Znodes) -> Family {
    Family::for_leaves(&znodes.root, KEYS, znodes.keys)
}

impl Setup<'_> {
    /// Checks whether the target can be prepared; changes nothing.
    pub(crate) fn check(&self) -> Result<()> {
        let mut session = Session::open(self.target)?;
        let checked = self.check_root(&mut session);
        session.close();
        checked.with_context(|| self.about())
    }

    fn about(&self) -> String {
        format!("target {}: {}", self.target.name(), self.root())
    }

    /// Creates and marks the root, empties it, and creates the keys. If it is stopped, the keys are not complete, and
    /// the mark does not say that they are.
    pub(crate) fn prepare(&self, stop: &Stop) -> Result<()> {
        self.prepare_root(stop).with_context(|| self.about())
    }

    fn prepare_root(&self, stop: &Stop) -> Result<()> {
        let goes_on = self.with_session(|session| {
            self.check_root(session)?;
            match self.keys {
                Keys::AlreadyThere => self.sweep_families(session).map(|()| false),
                _ => sweep_if_there(self, session).map(|()| true),
            }
        })?;
        if !goes_on {
            return Ok(());
        }
        self.with_session(|session| create_with_parents(session, self.root(), &mark_text(0, 0)))?;
        if self.keys != Keys::FillIn {
            return Ok(());
        }
        self.fill_keys(stop)?;
        if stop.is_requested() {
            return Ok(());
        }
        let mark = mark_text(self.znodes.keys, self.znodes.value_bytes);
        self.with_session(|session| {
            let (path, data) = (self.root().into(), Some(mark.as_bytes()));
            session.must(&Request::Write(WriteRequest::SetData { path, data, version: -1 }))?;
            Ok(())
        })
    }

    /// Calls `work` with a new session: a session that was idle while millions of znodes were created or deleted
    /// would have expired.
    fn with_session<T>(&self, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let mut session = Session::open(self.target)?;
        let done = work(&mut session);
        session.close();
        done
    }

    fn root(&self) -> &str {
        &self.znodes.root
    }

    fn is_ours(&self, session: &mut Session) -> Result<bool> {
        let data = read(session, self.root())?;
        Ok(data.is_some_and(|data| data.starts_with(MARK.as_bytes())))
    }

    /// Refuses a root that this program has not created.
    fn check_root(&self, session: &mut Session) -> Result<()> {
        match read(session, self.root())? {
            Some(data) if !data.starts_with(MARK.as_bytes()) => bail!(
                "it exists and was not created by this program; nothing was changed; use another --root"
            ),
            None if self.keys == Keys::AlreadyThere => {
                bail!(
                    "it does not exist; leave out --filled, or create the keys with `herdsman bench fill`"
                )
            }
            Some(mark) if self.keys == Keys::AlreadyThere => self.check_keys(&mark),
            _ => Ok(()),
        }
    }

    fn check_keys(&self, mark: &[u8]) -> Result<()> {
        let (keys, value_bytes) = parse_mark(mark);
        if keys < self.znodes.keys || value_bytes != self.znodes.value_bytes {
            bail!(
                "it was filled with {keys} keys of {value_bytes} bytes, and not with {} of {}; use \
                 --keys {keys} --value-bytes {value_bytes}, or leave out --filled",
                self.znodes.keys,
                self.znodes.value_bytes
            );
        }
        Ok(())
    }

    fn fill_keys(&self, stop: &Stop) -> Result<()> {
        let family = keys_family(self.znodes);
        self.create_parents(&family, stop)?;
        let keys = self.znodes.keys;
        let what = format!("creating {keys} keys on {}", self.target.name());
        self.progress.announce(&what);
        let meter = self.progress.counting(&what, u64::from(keys));
        let load = Create::new(&family, self.znodes.value_bytes, ThreadShare::WHOLE, keys);
        run_to_end(self.target, load, &meter, stop).map(|_| ())
    }

    /// Creates a family's top and parents.
    pub(crate) fn create_parents(&self, family: &Family, stop: &Stop) -> Result<()> {
        let parents = (0..family.parents()).map(|parent| family.parent_path(parent)).collect();
        for paths in [vec![family.top().to_owned()], parents] {
            let meter = Progress::Silent.counting("", 0);
            let script = Script::new(paths, ErrorCode::NodeExists, |path| {
                create_request(path, &[], PERSISTENT)
            });
            run_to_end(self.target, script, &meter, stop)?;
        }
        Ok(())
    }

    /// Deletes everything that this run has created.
    pub(crate) fn clean(&self) -> Result<()> {
        let cleaned = self.with_session(|session| match self.keys {
            Keys::AlreadyThere if self.is_ours(session)? => self.sweep_families(session),
            Keys::AlreadyThere => Ok(()),
            Keys::Unused | Keys::FillIn => sweep_if_there(self, session),
        });
        cleaned.with_context(|| self.about())
    }

    /// Deletes all families except the keys.
    fn sweep_families(&self, session: &mut Session) -> Result<()> {
        let (path, watch) = (self.root().into(), false);
        let list = ReadRequest::GetChildren { path, watch, with_stat: false };
        let body = session.must(&Request::Read(list))?;
        let names = JuteReader::new(&body).vector(JuteReader::required_string)?;
        let tops: Vec<String> = names
            .iter()
            .filter(|name| *name != KEYS)
            .map(|name| format!("{}/{name}", self.root()))
            .collect();
        if tops.is_empty() {
            return Ok(());
        }
        sweep(self.target, tops, 1, Extent::All, self.progress)
    }
}

/// Deletes the root if it exists and was created by this program.
fn sweep_if_there(setup: &Setup<'_>, session: &mut Session) -> Result<()> {
    if !setup.is_ours(session)? {
        return Ok(());
    }
    sweep(setup.target, vec![setup.root().to_owned()], 0, Extent::All, setup.progress)
}

/// Reads the data of a znode, if it exists.
fn read(session: &mut Session, path: &str) -> Result<Option<Vec<u8>>> {
    let request = Request::Read(ReadRequest::GetData { path: path.into(), watch: false });
    match session.call(&request)? {
        (0, body) => Ok(Some(JuteReader::new(&body).buffer()?.unwrap_or_default().to_vec())),
        (code, _) if code == ErrorCode::NoNode.code() => Ok(None),
        (code, _) => bail!("reading {path}: the server replied {}", crate::load::error_name(code)),
    }
}

/// Creates a znode and its missing ancestors.
fn create_with_parents(session: &mut Session, path: &str, data: &str) -> Result<()> {
    let above =
        path.match_indices('/').map(|(at, _)| &path[..at]).filter(|share| !share.is_empty());
    for (path, data) in above.map(|share| (share, "")).chain([(path, data)]) {
        let (code, _) = session.call(&create_request(path, data.as_bytes(), PERSISTENT))?;
        if code != 0 && code != ErrorCode::NodeExists.code() {
            bail!("creating {path}: the server replied {}", crate::load::error_name(code));
        }
    }
    Ok(())
}

fn mark_text(keys: u32, value_bytes: usize) -> String {
    format!("{MARK} keys={keys} value-bytes={value_bytes}")
}

/// Returns the number of keys and the size of a value; 0 if the mark does not contain them.
fn parse_mark(mark: &[u8]) -> (u32, usize) {
    let text = String::from_utf8_lossy(mark);
    let number = |name: &str| {
        text.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<u32>().ok())
    };
    (number("keys").unwrap_or(0), number("value-bytes").unwrap_or(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_contains_the_number_and_size_of_keys() {
        assert_eq!(parse_mark(mark_text(5_000_000, 100).as_bytes()), (5_000_000, 100));
        assert_eq!(parse_mark(MARK.as_bytes()), (0, 0));
    }
}
