//! What all handlers share.

use std::sync::Arc;

use axum::extract::FromRef;
use herdsman_server::ServerHandle;

use crate::api::limits::Limits;
use crate::commands::access;
use crate::identity::Identity;
use crate::masks::{IdView, Masks};
use crate::settings::AdminSettings;
use crate::stand_ins::StandIns;
use crate::views::Memory;

/// The server that is looked at, and what the admin server was told. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// The server.
    pub server: ServerHandle,
    /// What the admin server was told.
    pub settings: Arc<AdminSettings>,
    /// Sessions by which requests write.
    pub(crate) stand_ins: Arc<StandIns>,
    /// What the views remember.
    pub(crate) views: Arc<Memory>,
    /// What hides ids of sessions.
    pub(crate) masks: Arc<Masks>,
    /// What may go on at once.
    pub(crate) limits: Arc<Limits>,
}

impl AdminState {
    /// Of one server.
    #[must_use]
    pub fn new(server: ServerHandle, settings: AdminSettings) -> Self {
        AdminState {
            stand_ins: StandIns::new(server.clone()),
            views: Arc::default(),
            masks: Arc::default(),
            limits: Arc::default(),
            server,
            settings: Arc::new(settings),
        }
    }
}

impl AdminState {
    /// How this one sees ids of sessions.
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
