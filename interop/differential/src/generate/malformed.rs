//! Requests that no ordinary client sends.

use herdsman_proto::{JuteWrite, OpCode};

use super::{Generator, Place};
use crate::action::Action;
use crate::call::Call;

/// Numbers that are not an op, or not one for clients: also check outside of a multi, and notification.
const WRONG_OPS: [i32; 9] = [0, 10, 13, 23, 99, 108, -1, -2, i32::MAX];

impl Generator {
    pub(super) fn malformed(&mut self, slot: usize) -> Action {
        match self.rng.weighted(&[15, 40, 10, 15, 20]) {
            0 => {
                let op = *self.rng.pick(&WRONG_OPS);
                Action::call(slot, Call::raw(op, Vec::new(), "unknown"))
            }
            1 => Action::call(slot, self.truncated()),
            2 => Action::call(slot, self.trailing_garbage()),
            3 => Action::call(slot, self.lying_vector()),
            _ => self.broken_frame(slot),
        }
    }

    fn victim(&mut self) -> Call {
        match self.rng.below(4) {
            0 => self.write(Place::InBurst),
            1 => self.read(Place::InBurst),
            2 => self.multi(Place::InBurst),
            _ => self.watch_op(),
        }
    }

    /// The kinds of undecodable requests. Apache's ensembles stop at an undecodable write (see
    /// `scenarios`).
    fn unreadable_victim(&mut self) -> Call {
        if self.servers == 1 {
            return self.victim();
        }
        match self.rng.below(2) {
            0 => self.multi_read(),
            _ => self.watch_op(),
        }
    }

    /// A body that is truncated.
    fn truncated(&mut self) -> Call {
        let mut call = self.unreadable_victim();
        if !call.body.is_empty() {
            let keep = self.rng.below(call.body.len());
            call.body.truncate(keep);
        }
        call.label = format!("truncated to {}: {}", call.body.len(), call.label);
        call
    }

    fn trailing_garbage(&mut self) -> Call {
        let mut call = self.victim();
        call.body.extend_from_slice(b"garbage");
        call.label = format!("with garbage: {}", call.label);
        call
    }

    /// A vector with a count larger than its content.
    fn lying_vector(&mut self) -> Call {
        let count = *self.rng.pick(&[-2, i32::MIN, i32::MAX, 1_000_000, 3]);
        let mut body = Vec::new();
        if self.servers == 1 && self.rng.percent(50) {
            body.put_buffer(Some(self.root.as_bytes()));
            body.put_buffer(Some(b""));
            body.put_int(count);
            body.put_int(0);
            return Call::raw(OpCode::Create.code(), body, "lying vector");
        }
        body.put_long(0);
        body.put_int(count);
        Call::raw(OpCode::SetWatches.code(), body, "lying vector")
    }

    /// Frames with impossible lengths, or too short for a header.
    fn broken_frame(&mut self, slot: usize) -> Action {
        let (length, rest, label): (i32, usize, _) = match self.rng.below(6) {
            0 => (-1, 4, "negative length"),
            1 => (i32::MIN, 4, "most negative length"),
            2 => (i32::MAX, 4, "length of 2 GiB"),
            3 => (0x000f_ffff + 1, 8, "length just above the limit"),
            4 => (0, 0, "empty frame"),
            _ => (5, 5, "half a header"),
        };
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(std::iter::repeat_n(1, rest));
        Action::Raw { slot, bytes, label }
    }
}
