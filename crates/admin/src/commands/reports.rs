//! Commands that report the server's state, and those that reset a counter.
//!
//! In: [`ServerReports`], the same data as for four-letter words. Out: Apache's fields.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use herdsman_config::Config;
use herdsman_config::setting::Shape;
use herdsman_proto::SessionId;
use herdsman_server::ServesAs;
use herdsman_server::operators::metrics::Number;
use herdsman_server::operators::words::report::{ConnectionReport, ServerReports};
use herdsman_tree::watches::WatchSummary;

use super::json::Json;
use super::{Answer, CommandContext, NOT_SERVING};
use crate::masks::IdView;

/// A request for a command.
pub(super) struct CommandRequest<'a> {
    pub context: &'a CommandContext,
    pub arguments: &'a HashMap<String, String>,
    /// How the caller sees session ids.
    pub ids: IdView<'a>,
}

impl CommandRequest<'_> {
    pub(super) fn reports(&self) -> ServerReports<'_> {
        self.context.server.reports()
    }
}

pub(super) fn nothing(_: &CommandRequest<'_>, answer: Answer) -> Answer {
    answer
}

pub(super) fn configuration(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let config = request.context.server.config();
    let report = request.reports().configuration();
    answer
        .put("client_port", report.client_port)
        .put("data_dir", report.data_dir.display().to_string())
        .put("data_log_dir", report.log_dir.display().to_string())
        .put("tick_time", config.sessions.tick_ms)
        .put("max_client_cnxns", config.shown_connections_per_address_max())
        .put("min_session_timeout", config.shown_timeout_min_ms())
        .put("max_session_timeout", config.shown_timeout_max_ms())
        .put("server_id", report.server_id)
        .put("client_port_listen_backlog", config.shown_backlog())
}

pub(super) fn reset_connections(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    request.reports().reset_connections();
    answer
}

pub(super) fn reset_server(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    request.reports().reset_server();
    answer
}

pub(super) fn connections(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let all = request.reports().connections();
    let in_full = |connection| connection_in_full(connection, request.ids);
    // TLS connections will be in a separate list.
    answer
        .put("connections", all.iter().map(in_full).collect::<Vec<_>>())
        .put("secure_connections", Vec::new())
}

fn connection_in_brief(connection: &ConnectionReport) -> Vec<(String, Json)> {
    let stats = &connection.stats;
    let fields: [(&str, Json); 5] = [
        ("remote_socket_address", connection.peer.as_str().into()),
        ("interest_ops", connection.interest_ops.into()),
        ("outstanding_requests", stats.queued.into()),
        ("packets_received", stats.received.into()),
        ("packets_sent", stats.sent.into()),
    ];
    fields.map(|(key, value)| (key.to_owned(), value)).into()
}

fn connection_in_full(connection: &ConnectionReport, ids: IdView<'_>) -> Json {
    let stats = &connection.stats;
    let average = stats.latency.sum.checked_div(stats.latency.count).unwrap_or(0);
    let mut fields = connection_in_brief(connection);
    let more: [(&str, Json); 11] = [
        ("session_id", ids.number(stats.session).into()),
        ("last_operation", connection.last_operation.into()),
        ("established", connection.established_ms.into()),
        ("session_timeout", stats.timeout_ms.into()),
        ("last_cxid", stats.last_xid.0.into()),
        ("last_zxid", stats.last_zxid.0.into()),
        ("last_response_time", stats.last_response_ms.into()),
        ("last_latency", stats.last_latency_ms.into()),
        ("min_latency", stats.latency.min.into()),
        ("avg_latency", average.into()),
        ("max_latency", stats.latency.max.into()),
    ];
    fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
    Json::Object(fields)
}

pub(super) fn dirs(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let (data_bytes, log_bytes) = request.reports().directory_sizes();
    answer.put("datadir_size", data_bytes).put("logdir_size", log_bytes)
}

pub(super) fn dump(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let (reports, ids) = (request.reports(), request.ids);
    let ends = reports.session_ends().into_iter();
    let ends = ends.map(|(at_ms, sessions)| (at_ms.to_string(), numbers(sessions, ids)));
    let owned = reports.ephemerals().into_iter();
    let owned = owned.map(|(owner, paths)| (ids.number(owner).to_string(), texts(&paths)));
    answer
        .put("expiry_time_to_session_ids", Json::Object(ends.collect()))
        .put("session_id_to_ephemeral_paths", Json::Object(owned.collect()))
}

fn numbers(sessions: Vec<SessionId>, ids: IdView<'_>) -> Json {
    Json::List(sessions.into_iter().map(|session| Json::Whole(ids.number(session))).collect())
}

fn texts(paths: &[Arc<str>]) -> Json {
    Json::List(paths.iter().map(|path| Json::from(&**path)).collect())
}

pub(super) fn environment(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let entries = request.reports().environment();
    entries.into_iter().fold(answer, |answer, (key, value)| answer.put(key, value))
}

/// Apache returns Java's properties. Those about the machine have the same names here.
pub(super) fn system_properties(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let mut entries = request.reports().environment();
    entries.retain(|(key, _)| key.starts_with("os.") || key.starts_with("user."));
    entries.sort_unstable();
    entries.into_iter().fold(answer, |answer, (key, value)| answer.put(key, value))
}

pub(super) fn hash(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let reports = request.reports();
    let version = reports.digest_version();
    let digests = reports.digests().into_iter().map(|(zxid, digest)| {
        Json::object([
            ("zxid", zxid.0.into()),
            ("digest", digest.into()),
            ("digest_version", version.into()),
        ])
    });
    answer.put("digests", digests.collect::<Vec<_>>())
}

pub(super) fn trace_mask(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    answer.put("tracemask", request.reports().trace_mask())
}

pub(super) fn set_trace_mask(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    const WANTED: &str = "setTraceMask requires long traceMask argument";
    let Some(text) = request.arguments.get("traceMask") else {
        return answer.refuse(WANTED);
    };
    let Ok(mask) = text.parse() else {
        return answer.refuse(format!("{WANTED}, got {text}"));
    };
    request.reports().set_trace_mask(mask);
    answer.put("tracemask", mask)
}

pub(super) fn initial(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let text = request.context.initial_configuration.clone();
    answer.put("initial_configuration", text.map_or(Json::Null, Json::Text))
}

/// The configuration file without its secrets; `None` if there is no file. Read once, at the start: the file
/// may change later. Values of unknown settings are hidden too, because they may be secrets.
pub(super) fn initial_configuration(config: &Config) -> Option<String> {
    let bytes = std::fs::read(config.file.as_ref()?).ok()?;
    Some(without_secrets(&bytes))
}

fn without_secrets(file: &[u8]) -> String {
    let is_secret = |key: &str| {
        herdsman_config::settings::by_key(key).is_none_or(|row| row.shape == Shape::Secret)
    };
    herdsman_properties::without_values(file, is_secret)
}

pub(super) fn is_read_only(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    answer.put("read_only", request.reports().role() == Some(ServesAs::ReadOnly))
}

pub(super) fn last_snapshot(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let last = request.reports().last_snapshot();
    answer
        .put("zxid", format!("{:x}", last.map_or(-1, |last| last.zxid.0)))
        .put("timestamp", last.map_or(-1, |last| last.written_s))
}

/// All metrics. While the server is not serving, Apache fails with an internal error.
pub(super) fn monitor(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    if !request.context.server.is_serving() {
        return answer.with_error(StatusCode::OK, NOT_SERVING);
    }
    let reports = request.reports();
    let texts = reports.monitor_texts();
    let answer = texts.into_iter().fold(answer, |answer, (key, value)| answer.put(key, value));
    reports.monitor_numbers().into_iter().fold(answer, |answer, (key, number)| match number {
        Number::Whole(number) => answer.put(&key, number),
        Number::Fraction(number) => answer.put(&key, number),
    })
}

fn sizes([last, min, max]: [i64; 3]) -> Json {
    Json::object([
        ("last_buffer_size", last.into()),
        ("min_buffer_size", min.into()),
        ("max_buffer_size", max.into()),
    ])
}

pub(super) fn server_stats(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let reports = request.reports();
    let (numbers, more) = (reports.numbers(), reports.more_numbers());
    let (data_bytes, log_bytes) = reports.directory_sizes();
    let stats = Json::object([
        ("packets_sent", numbers.packets_sent.into()),
        ("packets_received", numbers.packets_received.into()),
        ("fsync_threshold_exceed_count", more.fsync_slow.into()),
        ("client_response_stats", sizes(more.response_sizes)),
        ("provider_null", false.into()),
        ("data_dir_size", data_bytes.into()),
        ("log_dir_size", log_bytes.into()),
        ("last_processed_zxid", numbers.zxid.0.into()),
        ("outstanding_requests", numbers.outstanding.into()),
        ("server_state", numbers.role.into()),
        ("avg_latency", numbers.latency.mean().into()),
        ("max_latency", numbers.latency.max.into()),
        ("min_latency", numbers.latency.min.into()),
        ("num_alive_client_connections", numbers.connections.into()),
        ("uptime", more.uptime_ms.into()),
        ("auth_failed_count", more.auth_failed.into()),
        ("non_mtlsremote_conn_count", 0.into()),
        ("non_mtlslocal_conn_count", 0.into()),
    ]);
    let answer = answer
        .put("version", reports.version())
        .put("read_only", reports.role() == Some(ServesAs::ReadOnly))
        .put("server_stats", stats)
        .put("client_response", sizes(more.response_sizes));
    let answer = match numbers.proposal_sizes {
        Some(proposals) => answer.put("proposal_stats", sizes(proposals)),
        None => answer,
    };
    answer.put("node_count", numbers.node_count)
}

pub(super) fn stats(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let all = request.reports().connections();
    let in_brief = all.iter().map(|connection| Json::Object(connection_in_brief(connection)));
    server_stats(request, answer)
        .put("connections", in_brief.collect::<Vec<_>>())
        .put("secure_connections", Vec::new())
}

pub(super) fn watch_summary(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let WatchSummary { connections, paths, watches } = request.reports().watch_summary();
    answer
        .put("num_connections", connections)
        .put("num_paths", paths)
        .put("num_total_watches", watches)
}

pub(super) fn watches(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let by_session = request.reports().watches_by_session().into_iter();
    let by_session =
        by_session.map(|(session, paths)| (request.ids.number(session).to_string(), texts(&paths)));
    answer.put("session_id_to_watched_paths", Json::Object(by_session.collect()))
}

pub(super) fn watches_by_path(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let by_path = request.reports().watches_by_path().into_iter();
    let by_path =
        by_path.map(|(path, sessions)| (path.to_string(), numbers(sessions, request.ids)));
    answer.put("path_to_session_ids", Json::Object(by_path.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_configuration_are_hidden() {
        let text = "dataDir=/data\nserver.1=zk1:2888:3888\nssl.keyStore.password=hunter2\n# comment\n\
                    DigestAuthenticationProvider.superDigest : super:abc\n";
        let shown = without_secrets(text.as_bytes());
        assert!(!shown.contains("hunter2") && !shown.contains("abc"), "{shown}");
        assert!(!without_secrets(b"no.such.setting=hunter2").contains("hunter2"));
        assert!(shown.contains("dataDir=/data\nserver.1=zk1:2888:3888\n"), "{shown}");
        assert!(shown.contains("ssl.keyStore.password=…\n"));
    }
}
