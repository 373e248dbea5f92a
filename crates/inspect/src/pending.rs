//! Finishes an interrupted restore, or an interrupted installation of a leader's tree.
//!
//! In: directories that this process has locked. Out: the state that a start of the server would give. A tool that
//! changes something needs it first, because until then the files do not show what the state is.

use anyhow::{Context, Result};
use herdsman_store::recover::load;
use herdsman_store::{RealDisk, RecoverError, SnapshotName, replace};

use crate::console::Console;
use crate::durable::ToolDisk;
use crate::location::Location;
use crate::verify::data_dir::load_options;

/// Finishes an interrupted operation, if there is one and its snapshot can be read. Returns the snapshot that has
/// replaced all others.
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
        .context("an earlier restore, or the installation of a leader's tree, was interrupted and cannot be finished")?;
    console.set_changed("an interrupted operation is finished");
    console.print(format_args!(
        "finished an interrupted operation: {} has replaced the previous state",
        name.file_name()
    ))?;
    Ok(Some(name))
}
