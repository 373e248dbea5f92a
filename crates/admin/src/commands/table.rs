//! The commands. One is added here and nowhere else: the table makes the dispatch, the page of links and
//! the list in docs/operating.md.

use super::told::Asked;
use super::{Answer, ensemble, told};

/// Answers a command that only looks, or sets a counter.
pub(super) type Tell = fn(&Asked<'_>, Answer) -> Answer;

/// How a command is carried out.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Tell(Tell),
    Snapshot,
    Restore,
}

/// A command.
pub(super) struct Command {
    /// Its name, then its other names.
    pub names: &'static [&'static str],
    /// What it answers, in a sentence.
    pub about: &'static str,
    /// While the server does not serve, it is not carried out.
    pub needs_server: bool,
    /// Only for those who have all permissions on the root.
    pub needs_all_permissions: bool,
    /// It changes something, so a browser must show that its user meant it.
    pub changes: bool,
    pub run: Run,
}

impl Command {
    /// Whether it is asked by `POST`.
    pub(super) fn wants_post(&self) -> bool {
        matches!(self.run, Run::Restore)
    }
}

const fn command(names: &'static [&'static str], about: &'static str, tell: Tell) -> Command {
    Command {
        names,
        about,
        needs_server: true,
        needs_all_permissions: false,
        changes: false,
        run: Run::Tell(tell),
    }
}

/// The same for one that changes something.
const fn changing(names: &'static [&'static str], about: &'static str, tell: Tell) -> Command {
    Command { changes: true, ..command(names, about, tell) }
}

/// The same for one that also answers while the server does not serve.
const fn always(names: &'static [&'static str], about: &'static str, tell: Tell) -> Command {
    Command { needs_server: false, ..command(names, about, tell) }
}

/// All of them, in the order of their names.
pub(super) static COMMANDS: [Command; 28] = [
    command(
        &["configuration", "conf", "config"],
        "Ports, directories and limits.",
        told::configuration,
    ),
    changing(
        &["connection_stat_reset", "crst"],
        "Sets the counters of all connections to 0.",
        told::reset_connections,
    ),
    command(
        &["connections", "cons"],
        "Every connection with its session, last request and latencies.",
        told::connections,
    ),
    command(&["dirs"], "Bytes in the directories of snapshots and of logs.", told::dirs),
    command(
        &["dump"],
        "When sessions end, by the wall clock, and who owns which ephemerals.",
        told::dump,
    ),
    always(&["environment", "env", "envi"], "Version, machine and user.", told::environment),
    always(
        &["get_trace_mask", "gtmk"],
        "The trace mask, a number that has no effect here.",
        told::trace_mask,
    ),
    command(&["hash"], "Digests of the tree in the recent past, to compare servers.", told::hash),
    command(
        &["initial_configuration", "icfg"],
        "The configuration file as it was at the start, without comments, secrets hidden.",
        told::initial,
    ),
    command(&["is_read_only", "isro"], "Whether the server serves reads only.", told::is_read_only),
    command(
        &["last_snapshot", "lsnp"],
        "The newest snapshot, and when it was written.",
        told::last_snapshot,
    ),
    command(&["leader", "lead"], "Who leads the ensemble.", ensemble::leader),
    always(&["monitor", "mntr"], "All metrics.", told::monitor),
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
            "`POST`: puts a snapshot in the place of everything. Not in an ensemble.",
            told::nothing,
        )
    },
    command(&["ruok"], "Whether the server serves: `error` is null.", told::nothing),
    command(
        &["server_stats", "srvr"],
        "Version, latencies, counts, last zxid and role.",
        told::server_stats,
    ),
    Command {
        needs_server: false,
        ..changing(
            &["set_trace_mask", "stmk"],
            "Sets the trace mask to `?traceMask=`.",
            told::set_trace_mask,
        )
    },
    Command {
        needs_all_permissions: true,
        run: Run::Snapshot,
        ..changing(
            &["snapshot", "snap"],
            "An exact snapshot; with `?streaming=false` one in the data directory.",
            told::nothing,
        )
    },
    changing(
        &["stat_reset", "srst"],
        "Sets counters and summaries of the server to 0.",
        told::reset_server,
    ),
    command(&["stats", "stat"], "As `server_stats`, and every connection.", told::stats),
    always(
        &["system_properties", "sysp"],
        "What the server knows about its machine.",
        told::system_properties,
    ),
    command(&["voting_view"], "The members that vote.", ensemble::voting_view),
    command(
        &["watch_summary", "wchs"],
        "How many connections watch how many paths for data.",
        told::watch_summary,
    ),
    command(&["watches", "wchc"], "Watches for data by session. Can be long.", told::watches),
    command(
        &["watches_by_path", "wchp"],
        "Watches for data by path. Can be long.",
        told::watches_by_path,
    ),
    always(
        &["zabstate"],
        "The phase of agreement, and this member's place in it.",
        ensemble::zabstate,
    ),
];

/// The command of a name.
pub(super) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&name))
}

/// The table of commands for docs/http.md.
#[must_use]
pub fn commands_markdown() -> String {
    let mut text = "| command | also | answers |\n|---|---|---|\n".to_owned();
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

    /// Set UPDATE_DOCS=1 to write the table into the file instead of comparing.
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
        assert!(table == fresh, "docs/http.md is behind; run the tests with UPDATE_DOCS=1");
    }

    #[test]
    fn every_name_finds_its_command() {
        assert_eq!(find("srvr").map(|command| command.names[0]), Some("server_stats"));
        assert!(find("restore").is_some_and(Command::wants_post));
        assert!(find("SRVR").is_none());
    }
}
