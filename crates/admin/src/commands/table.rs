//! The table of commands, the only place to add one: the dispatch, the page of links and the list in
//! docs/http.md come from it.

use super::reports::CommandRequest;
use super::{Answer, ensemble, reports};

/// Runs a command that only reads, or sets a counter.
pub(super) type Report = fn(&CommandRequest<'_>, Answer) -> Answer;

/// How a command is run.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Report(Report),
    Snapshot,
    Restore,
}

/// A command.
pub(super) struct Command {
    /// Its name, then its other names.
    pub names: &'static [&'static str],
    /// Its description, in a sentence.
    pub about: &'static str,
    /// Whether it needs a server that is serving.
    pub needs_server: bool,
    /// Whether the caller needs all permissions on the root.
    pub needs_all_permissions: bool,
    /// Whether it changes something, so that a browser must prove that its user intended it.
    pub changes: bool,
    pub run: Run,
}

impl Command {
    /// Whether it uses `POST`.
    pub(super) fn wants_post(&self) -> bool {
        matches!(self.run, Run::Restore)
    }
}

const fn command(names: &'static [&'static str], about: &'static str, report: Report) -> Command {
    Command {
        names,
        about,
        needs_server: true,
        needs_all_permissions: false,
        changes: false,
        run: Run::Report(report),
    }
}

/// The same for a command that changes something.
const fn changing(names: &'static [&'static str], about: &'static str, report: Report) -> Command {
    Command { changes: true, ..command(names, about, report) }
}

/// The same for a command that also works while the server is not serving.
const fn always(names: &'static [&'static str], about: &'static str, report: Report) -> Command {
    Command { needs_server: false, ..command(names, about, report) }
}

/// All of them, in the order of their names.
pub(super) static COMMANDS: [Command; 28] = [
    command(
        &["configuration", "conf", "config"],
        "Ports, directories and limits.",
        reports::configuration,
    ),
    changing(
        &["connection_stat_reset", "crst"],
        "Sets the counters of all connections to 0.",
        reports::reset_connections,
    ),
    command(
        &["connections", "cons"],
        "Every connection with its session, last request and latencies.",
        reports::connections,
    ),
    command(&["dirs"], "Bytes in the directories of snapshots and of logs.", reports::dirs),
    command(
        &["dump"],
        "When sessions expire, by the wall clock, and which session owns which ephemerals.",
        reports::dump,
    ),
    always(&["environment", "env", "envi"], "Version, machine and user.", reports::environment),
    always(
        &["get_trace_mask", "gtmk"],
        "The trace mask, a number without effect here.",
        reports::trace_mask,
    ),
    command(&["hash"], "Recent digests of the tree, to compare servers.", reports::hash),
    command(
        &["initial_configuration", "icfg"],
        "The configuration file as it was at the start, without comments, secrets hidden.",
        reports::initial,
    ),
    command(&["is_read_only", "isro"], "Whether the server is read-only.", reports::is_read_only),
    command(
        &["last_snapshot", "lsnp"],
        "The newest snapshot, and when it was written.",
        reports::last_snapshot,
    ),
    command(&["leader", "lead"], "The leader of the ensemble.", ensemble::leader),
    always(&["monitor", "mntr"], "All metrics.", reports::monitor),
    changing(
        &["observer_connection_stat_reset", "orst"],
        "Sets the counters of connections to other servers to 0.",
        ensemble::reset_observers,
    ),
    command(
        &["observers", "obsr"],
        "Observers that are up to date with this leader.",
        ensemble::observers,
    ),
    Command {
        needs_all_permissions: true,
        run: Run::Restore,
        ..changing(
            &["restore", "rest"],
            "`POST`: replaces everything by a snapshot. Not in an ensemble.",
            reports::nothing,
        )
    },
    command(&["ruok"], "Whether the server is serving: then `error` is null.", reports::nothing),
    command(
        &["server_stats", "srvr"],
        "Version, latencies, counts, last zxid and role.",
        reports::server_stats,
    ),
    Command {
        needs_server: false,
        ..changing(
            &["set_trace_mask", "stmk"],
            "Sets the trace mask to `?traceMask=`.",
            reports::set_trace_mask,
        )
    },
    Command {
        needs_all_permissions: true,
        run: Run::Snapshot,
        ..changing(
            &["snapshot", "snap"],
            "An exact snapshot; with `?streaming=false` one in the data directory.",
            reports::nothing,
        )
    },
    changing(
        &["stat_reset", "srst"],
        "Sets counters and summaries of the server to 0.",
        reports::reset_server,
    ),
    command(&["stats", "stat"], "As `server_stats`, and every connection.", reports::stats),
    always(
        &["system_properties", "sysp"],
        "Properties of the server's machine.",
        reports::system_properties,
    ),
    command(&["voting_view"], "The voting members.", ensemble::voting_view),
    command(
        &["watch_summary", "wchs"],
        "Numbers of connections with data watches, of watched paths, and of watches.",
        reports::watch_summary,
    ),
    command(&["watches", "wchc"], "Data watches by session. Can be long.", reports::watches),
    command(
        &["watches_by_path", "wchp"],
        "Data watches by path. Can be long.",
        reports::watches_by_path,
    ),
    always(
        &["zabstate"],
        "The phase of the ZAB protocol, and this member's role in it.",
        ensemble::zabstate,
    ),
];

/// Finds a command by its name.
pub(super) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&name))
}

/// The table of commands for docs/http.md.
#[must_use]
pub fn commands_markdown() -> String {
    let mut text = "| command | other names | response |\n|---|---|---|\n".to_owned();
    for Command { names, about, .. } in &COMMANDS {
        let also: Vec<_> = names[1..].iter().map(|name| format!("`{name}`")).collect();
        text += &format!("| `{}` | {} | {about} |\n", names[0], also.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_no_name_twice() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.names[0] < other.names[0]));
        let mut names: Vec<_> = COMMANDS.iter().flat_map(|command| command.names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Set UPDATE_DOCS=1 to write the table into the file instead of comparing it.
    #[test]
    fn the_page_about_http_has_the_table() {
        const BEGIN: &str = "<!-- commands:begin -->\n\n";
        const END: &str = "\n<!-- commands:end -->";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
        let page = std::fs::read_to_string(path).expect("docs/http.md can be read");
        let (before, rest) = page.split_once(BEGIN).expect("the page has the first mark");
        let (table, after) = rest.split_once(END).expect("the page has the second mark");
        let fresh = commands_markdown();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let page = format!("{before}{BEGIN}{fresh}{END}{after}");
            std::fs::write(path, page).expect("docs/http.md can be written");
            return;
        }
        assert!(table == fresh, "docs/http.md is out of date; run the tests with UPDATE_DOCS=1");
    }

    #[test]
    fn every_name_finds_its_command() {
        assert_eq!(find("srvr").map(|command| command.names[0]), Some("server_stats"));
        assert!(find("restore").is_some_and(Command::wants_post));
        assert!(find("SRVR").is_none());
    }
}
