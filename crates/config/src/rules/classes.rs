//! Settings that name a Java class. There is no Java here: Apache's own classes stand for what is built in, and any
//! other one is a class that this server does not find. Apache's server does not start without it either.

use super::Checked;
use crate::error::ConfigError;
use crate::load::Loading;

const METRICS_PROVIDERS: [&str; 3] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
];
const CONNECTION_FACTORIES: [&str; 2] = [
    "org.apache.zookeeper.server.NIOServerCnxnFactory",
    "org.apache.zookeeper.server.NettyServerCnxnFactory",
];

pub(super) fn check(loading: &Loading) -> Checked {
    let provider = loading.draft.config.metrics.provider.as_deref().unwrap_or_default();
    check_class(loading, "metricsProvider.className", provider, &METRICS_PROVIDERS)
        .map_err(|problem| loading.broken("metricsProvider.className", problem))?;
    let given = loading.draft.config.given.iter().rfind(|given| given.key == "serverCnxnFactory");
    let factory = given.map_or("", |given| given.value.expose());
    check_class(loading, "serverCnxnFactory", factory, &CONNECTION_FACTORIES).map_err(|problem| {
        ConfigError::Unexpected { place: loading.place("serverCnxnFactory"), problem }
    })
}

fn check_class(loading: &Loading, key: &str, class: &str, known: &[&str]) -> Result<(), String> {
    if !loading.is_set(key) || known.contains(&class) {
        return Ok(());
    }
    let known = known.join(", ");
    Err(format!(
        "{key}={class} is a Java class that this server cannot load; remove the line, or name one of {known}"
    ))
}
