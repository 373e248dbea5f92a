//! What a server in the repair phase does with what comes over the network: it answers FETCH, and nothing else.

use std::io::{self, Read};
use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_proto::Zxid;
use herdsman_proto::quorum::fetch::{Chain, DAMAGED_RANGES_MAX, MemberState, TO_THE_END};
use herdsman_quorum::{
    ConnectResult, MemberReport, PortFailure, QuorumNetwork, ReadPermission, Receiver, SendRecord,
};
use herdsman_runtime::LimitedLog;
use herdsman_store::{Damage, Dirs, Disk, Irreparable};
use herdsman_zab::{Input, LinkId};
use parking_lot::Mutex;

use crate::ensemble::records::send_records;

pub(super) struct RepairReceiver {
    disk: Arc<dyn Disk>,
    dirs: Dirs,
    report: MemberReport,
    /// Why the log is not a history from which others may be repaired, if it is not.
    needs_tree: Option<Irreparable>,
    network: Weak<QuorumNetwork>,
    port_failure: Mutex<Option<PortFailure>>,
    /// Failed reads of the log for other members, which may repeat their requests.
    unread_records: LimitedLog,
}

impl RepairReceiver {
    pub fn new(
        disk: &Arc<dyn Disk>,
        dirs: &Dirs,
        damage: &Damage,
        network: &Arc<QuorumNetwork>,
    ) -> Self {
        let gaps = damage.gaps.iter().take(DAMAGED_RANGES_MAX);
        let report = MemberReport {
            last_zxid: damage.end.unwrap_or(damage.good),
            state: MemberState::Repairing,
            damaged: gaps.map(|gap| (gap.after, gap.before.unwrap_or(TO_THE_END))).collect(),
        };
        RepairReceiver {
            disk: Arc::clone(disk),
            dirs: dirs.clone(),
            report,
            needs_tree: damage.needs_tree,
            network: Arc::downgrade(network),
            port_failure: Mutex::default(),
            unread_records: LimitedLog::default(),
        }
    }

    /// The failure of a port that was given up.
    pub fn take_port_failure(&self) -> Option<PortFailure> {
        self.port_failure.lock().take()
    }
}

impl Receiver for RepairReceiver {
    /// Votes are not answered. A learner is told at once that nobody leads here.
    fn handle(&self, inputs: &mut Vec<Input>) {
        let Some(network) = self.network.upgrade() else { return };
        for input in inputs.drain(..) {
            if let Input::LinkOpened { link, .. } = input {
                network.close(link);
            }
        }
    }

    fn wait_for_room(&self, _: LinkId, _: Duration) -> ReadPermission {
        ReadPermission::Free
    }

    fn handle_connect(&self, _: LinkId, _: ConnectResult) {}

    fn receive_tree(&self, _: LinkId, _: Zxid, _: &mut dyn Read) -> io::Result<()> {
        Err(io::Error::other("this server repairs its files and takes no tree"))
    }

    fn handle_port_failed(&self, failure: PortFailure) {
        *self.port_failure.lock() = Some(failure);
    }

    fn report_member(&self) -> MemberReport {
        self.report.clone()
    }

    fn read_records(
        &self,
        range: (Zxid, Zxid),
        is_wanted: &dyn Fn() -> bool,
        send: &mut SendRecord<'_>,
    ) -> Chain {
        match self.needs_tree {
            Some(Irreparable::MixedHistories) => Chain::Broken,
            // Each record is one of this history, but nothing shows where some are missing.
            Some(Irreparable::WrongTree) => {
                send_records(&self.disk, &self.dirs, range, is_wanted, &self.unread_records, send);
                Chain::Broken
            }
            _ => send_records(&self.disk, &self.dirs, range, is_wanted, &self.unread_records, send),
        }
    }
}
