//! The HTTP ports of a server: the admin port and the metrics ports. Each is opened if it is configured. A port that
//! cannot be opened stops neither the other ports nor the server.

use herdsman_admin::{Admin, AdminSettings, MetricsPorts, MetricsSettings};
use herdsman_config::Config;
use herdsman_server::Server;
use tracing::{info, warn};

/// The open ports. Dropping it closes them.
#[derive(Default)]
pub struct HttpPorts {
    /// The admin server, unless it is disabled or its port cannot be opened.
    pub admin: Option<Admin>,
    _metrics: Option<MetricsPorts>,
}

/// Warns about configuration errors that would keep the ports closed. Does not check whether the ports are free.
/// Returns the number of warnings.
pub fn check(config: &Config) -> usize {
    let admin = AdminSettings::from_config(config)
        .map_err(|error| format!("the admin server will not run: {error}"))
        .and_then(|settings| {
            settings.map_or(Ok(()), Admin::check).map_err(|error| error.to_string())
        });
    let metrics = MetricsSettings::from_config(config)
        .map_err(|error| format!("metrics will not be served: {error}"))
        .and_then(|settings| {
            let checked = settings.map_or(Ok(()), MetricsPorts::check);
            checked.map_err(|error| format!("metrics will not be served over HTTPS: {error}"))
        });
    let problems = [admin, metrics].into_iter().filter_map(Result::err);
    problems.inspect(|problem| warn!("{problem}")).count()
}

/// Opens the ports. Failures are only logged: a port that is in use must not keep the server from serving clients.
pub fn open(server: &Server, config: &Config) -> HttpPorts {
    HttpPorts { admin: open_admin(server, config), _metrics: open_metrics(server, config) }
}

fn open_admin(server: &Server, config: &Config) -> Option<Admin> {
    let settings = match AdminSettings::from_config(config) {
        Ok(settings) => settings?,
        Err(error) => {
            warn!("the admin server is not running: {error}");
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
            warn!("metrics are not served: {error}");
            return None;
        }
    };
    match MetricsPorts::start(&server.handle()?, settings) {
        Ok(ports) => Some(ports),
        Err(error) => {
            warn!("metrics are not served: {error}");
            None
        }
    }
}
