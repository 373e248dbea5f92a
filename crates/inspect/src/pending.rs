//! Finishes what a restore or a server has decided and not finished.
//!
//! In: directories that this process has locked. Out: the same state as a start of the server would give. A tool that
//! changes something starts from there, because until then the files do not say what the state is.

use anyhow::{Context, Result};
use herdsman_store::recover::load;
use herdsman_store::{RealDisk, RecoverError, SnapshotName, replace};

use crate::console::Console;
use crate::durable::ToolDisk;
use crate::location::Location;
use crate::verify::data_dir::load_options;

/// Finishes it, if there is something to finish and it can be read. Returns the snapshot that has taken the place of
/// all others.
pub(crate) fn finish_pending(
    location: &Location,
    disk: &ToolDisk,
    console: &mut Console<'_>,
) -> Result<Option<SnapshotName>> {
    let Ok(Some(name)) = replace::pending(&RealDisk, &location.dirs) else {
        return Ok(None);
    };
    match load(&RealDisk, &location.dirs, &load_options(), &mut |_| {}) {
        Ok(_) => {}
        // A restore replaces it, and a repair says what is wrong.
        Err(RecoverError::InstallingDamaged(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    replace::finish(disk, &location.dirs, name)
        .context("a restore or an installation of a leader's tree was decided before, and cannot be finished")?;
    console.set_changed("what was interrupted is finished");
    console.say(format_args!(
        "finished what was interrupted: {} has taken the place of what was there before",
        name.file_name()
    ))?;
    Ok(Some(name))
}
