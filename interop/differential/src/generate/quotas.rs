//! Quotas on the script's own `q`: limits are set, read back, exceeded, removed.

use herdsman_proto::{Acl, OpCode, Perms};

use super::writes::plain_create;
use super::{Generator, Place};
use crate::call::Call;

/// Limits as servers write and read them: soft, hard, and incomplete ones.
const LIMITS: [&[u8]; 7] = [
    b"count=5,bytes=100",
    b"count=-1,bytes=-1",
    b"count=2,bytes=-1",
    b"count=-1,bytes=50",
    b"count=-1,bytes=-1=;byteHardLimit=200;countHardLimit=6",
    b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
    b"count=1,bytes=10=;byteHardLimit=60;countHardLimit=-1",
];

impl Generator {
    pub(super) fn quota(&mut self) -> Call {
        let folder = format!("/zookeeper/quota{}", self.root);
        let quota = format!("{folder}/q");
        let limits = format!("{quota}/zookeeper_limits");
        let stats = format!("{quota}/zookeeper_stats");
        let text: &[u8] = self.rng.pick::<&[u8]>(&LIMITS);
        match self.rng.weighted(&[8, 8, 15, 12, 25, 8, 6, 3, 15]) {
            0 => created(&folder, b""),
            1 => created(&quota, b""),
            2 => created(&limits, text),
            3 => created(&stats, b"count=0,bytes=0"),
            4 => Call::read(OpCode::GetData, Some(stats.as_bytes()), true),
            5 => Call::set_data(Some(limits.as_bytes()), Some(text), -1),
            6 => Call::numbered(OpCode::Delete, Some(limits.as_bytes()), -1),
            7 => Call::numbered(OpCode::Delete, Some(stats.as_bytes()), -1),
            _ => self.grow(),
        }
    }

    /// Writes something below `q`.
    fn grow(&mut self) -> Call {
        let name = self.rng.below(8);
        let path = format!("{}/q/{name}", self.root);
        let data = self.data(Place::InBurst);
        match self.rng.below(3) {
            0 => Call::numbered(OpCode::Delete, Some(path.as_bytes()), -1),
            1 => Call::set_data(Some(path.as_bytes()), data.as_deref(), -1),
            _ => created(&path, data.as_deref().unwrap_or_default()),
        }
    }
}

fn created(path: &str, data: &[u8]) -> Call {
    let open = [Acl::world(Perms::ALL)];
    Call::create(&plain_create(path.as_bytes(), data, &open))
}
