//! The HTTP ports beside a server: the admin server's and those for metrics. Each is opened if the
//! configuration wants it, and none is a reason for the others, or for the server, not to run.

use herdsman_admin::{Admin, AdminSettings, MetricsPorts, MetricsSettings};
use herdsman_config::Config;
use herdsman_server::Server;
use tracing::{info, warn};

/// The open ports. Dropping it closes them.
#[derive(Default)]
pub struct HttpPorts {
    /// The admin server, unless it is switched off or its port cannot be opened.
    pub admin: Option<Admin>,
    _metrics: Option<MetricsPorts>,
}

/// Says what would keep the ports closed, besides that they are taken. Returns how many warnings that were.
pub fn check(config: &Config) -> usize {
    let admin = AdminSettings::from_config(config)
        .map_err(|error| format!("no admin server: {error}"))
        .and_then(|settings| {
            settings.map_or(Ok(()), Admin::check).map_err(|error| error.to_string())
        });
    let metrics = MetricsSettings::from_config(config)
        .map_err(|error| format!("no port for metrics: {error}"))
        .and_then(|settings| {
            let checked = settings.map_or(Ok(()), MetricsPorts::check);
            checked.map_err(|error| format!("no metrics by HTTPS: {error}"))
        });
    let problems = [admin, metrics].into_iter().filter_map(Result::err);
    problems.inspect(|problem| warn!("{problem}")).count()
}

/// Opens the ports. What stands in the way is said in the log: a port that is taken must not keep clients
/// from being served.
pub fn open(server: &Server, config: &Config) -> HttpPorts {
    HttpPorts { admin: open_admin(server, config), _metrics: open_metrics(server, config) }
}

fn open_admin(server: &Server, config: &Config) -> Option<Admin> {
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

fn open_metrics(server: &Server, config: &Config) -> Option<MetricsPorts> {
    let settings = match MetricsSettings::from_config(config) {
        Ok(settings) => settings?,
        Err(error) => {
            warn!("no port for metrics: {error}");
            return None;
        }
    };
    match MetricsPorts::start(&server.handle()?, settings) {
        Ok(ports) => Some(ports),
        Err(error) => {
            warn!("no port for metrics: {error}");
            None
        }
    }
}
