//! What the log says during the repair phase.

use std::time::{Duration, Instant};

use herdsman_proto::ServerId;
use herdsman_store::repair::Spliced;
use herdsman_store::{Damage, Repair};
use tracing::{info, warn};

use super::members::Members;

/// How often a server that waits says for what.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Damaged places and missing txns in one line.
const SHOWN_MAX: usize = 10;

pub(super) struct Progress {
    started: Instant,
    reported: Option<Instant>,
}

impl Progress {
    /// Says what is damaged.
    pub fn begin(damage: &Damage) -> Self {
        let places = shown(damage.places.iter().map(ToString::to_string));
        let consequence = match (damage.needs_tree, damage.end) {
            (Some(reason), _) => {
                format!("{reason}. So this server takes everything from a leader")
            }
            (None, None) => format!(
                "everything after txn {} is missing, and it is not known which txn was the last one, so this server \
                 takes everything from a leader",
                damage.good
            ),
            (None, Some(end)) => format!(
                "the last txn before the damage is {}, the last one in the log {end}; the other members are asked for \
                 the records in between that are missing",
                damage.good
            ),
        };
        warn!(
            "the files of this server are damaged: {places}. {consequence}. Until then it takes no part in the \
             ensemble and serves nobody (herdsman.selfRepair)"
        );
        Progress { started: Instant::now(), reported: None }
    }

    /// Says what is waited for, now and then.
    pub fn report(&mut self, repair: &Repair, members: &Members, others: &[ServerId]) {
        let now = Instant::now();
        if self.reported.is_some_and(|reported| now - reported < REPORT_EVERY) {
            return;
        }
        self.reported = Some(now);
        let said = others.iter().map(|id| match members.said(*id) {
            Some(said) => format!("server {id}: {said}"),
            None => format!("server {id}: not asked yet"),
        });
        let said = said.collect::<Vec<_>>().join("; ");
        let seconds = (now - self.started).as_secs();
        warn!("waiting ({seconds} s so far) for {}. {said}", missing(repair, others));
    }

    /// Says that all records were found.
    pub fn note_complete(&self) {
        let seconds = self.started.elapsed().as_secs();
        info!("all records that this server lacked were found on other members, in {seconds} s");
    }

    /// Says what was written.
    pub fn note_splice(&self, spliced: &Spliced) {
        let files = shown(spliced.files.iter().map(|path| path.display().to_string()));
        info!("put {} records into the log: {files}", spliced.records);
    }

    /// Says why everything is taken from a leader.
    pub fn note_join(&self, repair: &Repair, others: &[ServerId], witness: ServerId) {
        warn!(
            "there is a leader with a quorum (server {witness}), but what is missing cannot be had as records ({}): \
             joining that leader without a vote. Its tree replaces the files of this server, which votes again when it \
             is up to date",
            missing(repair, others)
        );
    }
}

fn missing(repair: &Repair, others: &[ServerId]) -> String {
    match repair.irreparable() {
        Some(reason) => format!("a leader with a quorum: {reason}"),
        None => shown(repair.outstanding(others).iter().map(ToString::to_string)),
    }
}

/// A list for people.
fn shown(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<_> = items.collect();
    let more = items.len().saturating_sub(SHOWN_MAX);
    items.truncate(SHOWN_MAX);
    let mut text = items.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}
