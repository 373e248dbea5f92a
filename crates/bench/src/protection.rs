//! TLS for targets with `tls://`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use herdsman_protection::TlsArguments;
use herdsman_tls::{Side, TlsContext};

/// Reads the files that the flags name, if any.
pub(crate) fn load(flags: &TlsArguments) -> Result<Option<Arc<TlsContext>>> {
    let Some(settings) = flags.settings()? else { return Ok(None) };
    let context = TlsContext::load(settings, Side::Client).context("TLS")?;
    Ok(Some(Arc::new(context)))
}
