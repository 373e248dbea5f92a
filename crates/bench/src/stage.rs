//! What a target must hold before it is measured, and what is taken away afterwards.
//!
//! The root is marked as ours by its data. A root that is there and has no mark belongs to somebody: it is
//! refused, nothing in it is touched. One with the mark is left over from a run that was killed, or from
//! `--keep`, and is emptied first, unless `--filled` says that its keys are to be used.
//!
//! Two runs at once with the same root on the same servers would take each other's znodes away.

use anyhow::{Context as _, Result, bail};
use herdsman_proto::{ErrorCode, JuteReader, ReadRequest, Request, WriteRequest};

use crate::arguments::Znodes;
use crate::dial::Session;
use crate::names::Family;
use crate::parts::Part;
use crate::progress::Progress;
use crate::script::{Script, run_to_end};
use crate::stop::Stop;
use crate::sweep::{Extent, sweep};
use crate::target::Target;
use crate::workload::create::{Create, PERSISTENT, create_request};

/// Begins the data of a root that is ours.
const MARK: &str = "herdsman bench";

/// The name of the family that `--filled` keeps.
const KEYS: &str = "keys";

/// How the keys come to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Nobody asks for them.
    Unused,
    /// They are filled in now.
    FillIn,
    /// They are there from an earlier run, and stay.
    AlreadyThere,
}

/// The znodes of a run on one target.
pub(crate) struct Stage<'a> {
    pub(crate) target: &'a Target,
    pub(crate) znodes: &'a Znodes,
    pub(crate) keys: Keys,
    pub(crate) progress: Progress,
}

/// The family of the keys.
pub(crate) fn keys_family(znodes: &Znodes) -> Family {
    Family::for_leaves(&znodes.root, KEYS, znodes.keys)
}

impl Stage<'_> {
    /// Says whether it could be prepared; changes nothing.
    pub(crate) fn check(&self) -> Result<()> {
        let mut session = Session::open(self.target)?;
        let checked = self.check_root(&mut session);
        session.close();
        checked.with_context(|| self.about())
    }

    fn about(&self) -> String {
        format!("target {}: {}", self.target.name(), self.root())
    }

    /// Makes the root ours, empty but for the keys, which are there afterwards. When it is asked to stop, the
    /// keys are not complete, and the mark does not say that they are.
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
        if stop.is_asked() {
            return Ok(());
        }
        let mark = mark_text(self.znodes.keys, self.znodes.value_bytes);
        self.with_session(|session| {
            let (path, data) = (self.root().into(), Some(mark.as_bytes()));
            session.must(&Request::Write(WriteRequest::SetData { path, data, version: -1 }))?;
            Ok(())
        })
    }

    /// Does something in a session of its own: one that waited for millions of znodes to be filled in or
    /// swept away would be over by then.
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

    /// Refuses a root that is somebody else's.
    fn check_root(&self, session: &mut Session) -> Result<()> {
        match read(session, self.root())? {
            Some(data) if !data.starts_with(MARK.as_bytes()) => bail!(
                "it exists and was not made by this program; nothing was changed; use another --root"
            ),
            None if self.keys == Keys::AlreadyThere => {
                bail!(
                    "it does not exist; leave --filled out, or fill it in with `herdsman bench fill`"
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
                "it was filled with {keys} keys of {value_bytes} bytes, and not with {} of {}; say \
                 --keys {keys} --value-bytes {value_bytes}, or leave --filled out",
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
        let what = format!("filling {keys} keys into {}", self.target.name());
        self.progress.announce(&what);
        let meter = self.progress.counting(&what, u64::from(keys));
        let load = Create::new(&family, self.znodes.value_bytes, Part::WHOLE, keys);
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

    /// Takes everything away that was not there before.
    pub(crate) fn clean(&self) -> Result<()> {
        let cleaned = self.with_session(|session| match self.keys {
            Keys::AlreadyThere if self.is_ours(session)? => self.sweep_families(session),
            Keys::AlreadyThere => Ok(()),
            Keys::Unused | Keys::FillIn => sweep_if_there(self, session),
        });
        cleaned.with_context(|| self.about())
    }

    /// Sweeps all families but the keys.
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

/// Sweeps the root, unless it is not there or not ours.
fn sweep_if_there(stage: &Stage<'_>, session: &mut Session) -> Result<()> {
    if !stage.is_ours(session)? {
        return Ok(());
    }
    sweep(stage.target, vec![stage.root().to_owned()], 0, Extent::All, stage.progress)
}

/// The data of a znode, if it exists.
fn read(session: &mut Session, path: &str) -> Result<Option<Vec<u8>>> {
    let request = Request::Read(ReadRequest::GetData { path: path.into(), watch: false });
    match session.call(&request)? {
        (0, body) => Ok(Some(JuteReader::new(&body).buffer()?.unwrap_or_default().to_vec())),
        (code, _) if code == ErrorCode::NoNode.code() => Ok(None),
        (code, _) => bail!("reading {path}: the server answers {}", crate::load::error_name(code)),
    }
}

/// Creates a znode and what is missing above it.
fn create_with_parents(session: &mut Session, path: &str, data: &str) -> Result<()> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|part| !part.is_empty());
    for (path, data) in above.map(|part| (part, "")).chain([(path, data)]) {
        let (code, _) = session.call(&create_request(path, data.as_bytes(), PERSISTENT))?;
        if code != 0 && code != ErrorCode::NodeExists.code() {
            bail!("creating {path}: the server answers {}", crate::load::error_name(code));
        }
    }
    Ok(())
}

fn mark_text(keys: u32, value_bytes: usize) -> String {
    format!("{MARK} keys={keys} value-bytes={value_bytes}")
}

/// Keys and bytes of a value; 0 where the mark does not say.
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
    fn a_mark_says_what_was_filled_in() {
        assert_eq!(parse_mark(mark_text(5_000_000, 100).as_bytes()), (5_000_000, 100));
        assert_eq!(parse_mark(MARK.as_bytes()), (0, 0));
    }
}
