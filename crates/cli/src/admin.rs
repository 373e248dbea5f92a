//! The admin server beside a server: opened if the configuration wants it, and never a reason for
//! the server not to run.

use herdsman_admin::{Admin, AdminSettings};
use herdsman_server::{Config, Server};
use tracing::{info, warn};

/// Says what would keep the admin port closed, besides that it is taken.
pub fn check(config: &Config) {
    match AdminSettings::from_config(config) {
        Ok(Some(settings)) => {
            if let Err(error) = Admin::check(settings) {
                warn!("{error}");
            }
        }
        Ok(None) => {}
        Err(error) => warn!("no admin server: {error}"),
    }
}

/// Opens a server's admin port. What stands in the way is said in the log, as Apache does: a port that
/// is taken must not keep clients from being served.
pub fn open(server: &Server, config: &Config) -> Option<Admin> {
    let settings = match AdminSettings::from_config(config) {
        Ok(settings) => settings?,
        Err(error) => {
            warn!("no admin server: {error}");
            return None;
        }
    };
    match Admin::start(server.handle()?, settings) {
        Ok(admin) => {
            info!("console and admin commands on {}", admin.url());
            Some(admin)
        }
        Err(error) => {
            warn!("{error}");
            None
        }
    }
}
