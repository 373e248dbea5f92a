//! Requests that are answered from the tree, and watches.

use herdsman_proto::OpCode;

use super::{Generator, Place};
use crate::call::Call;

impl Generator {
    pub(super) fn read(&mut self, place: Place) -> Call {
        let path = self.readable_path(place);
        let path = Some(path.as_slice());
        let watch = self.rng.percent(45);
        match self.rng.weighted(&[20, 25, 10, 15, 15, 5, 4, 4, 2]) {
            0 => Call::read(OpCode::Exists, path, watch),
            1 => Call::read(OpCode::GetData, path, watch),
            2 => Call::path_only(OpCode::GetAcl, path),
            3 => Call::read(OpCode::GetChildren, path, watch),
            4 => Call::read(OpCode::GetChildren2, path, watch),
            5 => Call::path_only(OpCode::Sync, path),
            6 => self.get_ephemerals(path),
            7 => Call::path_only(OpCode::GetAllChildrenNumber, path),
            _ => Call::who_am_i(),
        }
    }

    fn get_ephemerals(&mut self, path: Option<&[u8]>) -> Call {
        let prefix: Option<&[u8]> = match self.rng.below(6) {
            0 => None,
            1 => Some(b""),
            2 => Some(b"  "),
            3 => Some(b"/"),
            4 => Some(b"no/prefix"),
            _ => path,
        };
        Call::path_only(OpCode::GetEphemerals, prefix)
    }

    pub(super) fn watch_op(&mut self) -> Call {
        let path = self.readable_path(Place::Alone);
        let path = Some(path.as_slice());
        match self.rng.weighted(&[55, 20, 25]) {
            0 => Call::numbered(OpCode::AddWatch, path, self.watch_mode()),
            1 => Call::numbered(OpCode::CheckWatches, path, self.watcher_type()),
            _ => Call::numbered(OpCode::RemoveWatches, path, self.watcher_type()),
        }
    }

    fn watch_mode(&mut self) -> i32 {
        *self.rng.pick(&[0, 0, 0, 0, 1, 1, 1, 1, 2, -1])
    }

    fn watcher_type(&mut self) -> i32 {
        match self.rng.weighted(&[95, 5]) {
            0 => 1 + self.rng.below(5) as i32,
            _ => *self.rng.pick(&[0, 6, -1]),
        }
    }

    pub(super) fn multi_read(&mut self) -> Call {
        let count = self.rng.weighted(&[3, 10, 20, 10, 5]);
        let parts: Vec<Call> = (0..count).map(|_| self.multi_read_part()).collect();
        Call::multi(OpCode::MultiRead, &parts)
    }

    fn multi_read_part(&mut self) -> Call {
        let path = self.readable_path(Place::Alone);
        let path = Some(path.as_slice());
        let watch = self.rng.percent(30);
        match self.rng.weighted(&[50, 50, 1, 1]) {
            0 => Call::read(OpCode::GetData, path, watch),
            1 => Call::read(OpCode::GetChildren, path, watch),
            2 => Call::read(OpCode::Exists, path, watch),
            _ => Call::numbered(OpCode::Delete, path, -1),
        }
    }

    /// setWatches or setWatches2 with random lists, relative to a random moment of the script.
    pub(super) fn set_watches(&mut self) -> Call {
        let lists = if self.rng.percent(50) { 5 } else { 3 };
        let lists: Vec<Vec<Vec<u8>>> = (0..lists)
            .map(|_| {
                let count = self.rng.below(4);
                (0..count).map(|_| self.readable_path(Place::Alone)).collect()
            })
            .collect();
        let newest = self.newest_offset.max(1) as usize;
        let offset = match self.rng.below(3) {
            0 => newest,
            1 => 0,
            _ => self.rng.below(newest),
        };
        Call::set_watches(offset as i64, &lists)
    }
}
