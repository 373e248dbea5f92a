//! The state that all handlers share.

use std::sync::Arc;

use axum::extract::FromRef;
use herdsman_server::ServerHandle;

use crate::api::limits::Limits;
use crate::caller_sessions::CallerSessions;
use crate::commands::access;
use crate::identity::Identity;
use crate::masks::{IdView, Masks};
use crate::settings::AdminSettings;
use crate::views::ViewCaches;

/// The server, the settings and the shared state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// The server.
    pub server: ServerHandle,
    /// The settings of the admin server.
    pub settings: Arc<AdminSettings>,
    /// Sessions for writes.
    pub(crate) caller_sessions: Arc<CallerSessions>,
    /// Cached data of the views.
    pub(crate) views: Arc<ViewCaches>,
    /// Masks for session ids.
    pub(crate) masks: Arc<Masks>,
    /// Limits on concurrent work.
    pub(crate) limits: Arc<Limits>,
}

impl AdminState {
    /// The state for a server.
    #[must_use]
    pub fn new(server: ServerHandle, settings: AdminSettings) -> Self {
        AdminState {
            caller_sessions: CallerSessions::new(server.clone()),
            views: Arc::default(),
            masks: Arc::default(),
            limits: Arc::default(),
            server,
            settings: Arc::new(settings),
        }
    }
}

impl AdminState {
    /// How this caller sees session ids.
    pub(crate) fn ids_seen_by(&self, identity: &Identity) -> IdView<'_> {
        if identity.logged_in && access::authorize(&self.server, &identity.ids).is_ok() {
            IdView::Whole
        } else {
            IdView::Masked(&self.masks)
        }
    }
}

impl FromRef<AdminState> for ServerHandle {
    fn from_ref(state: &AdminState) -> Self {
        state.server.clone()
    }
}
