//! Buffers that the connections of one I/O thread lend each other. A connection needs them while it is
//! served, and only one at a time is; an idle one holds none.

use std::cell::RefCell;

use bytes::BytesMut;

/// A buffer that has grown beyond this is given back to the system.
const SPARE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static INPUT: RefCell<BytesMut> = RefCell::default();
    static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
}

/// An empty buffer for what a client sends.
pub(crate) fn take_input() -> BytesMut {
    INPUT.take()
}

/// It is not needed any more.
pub(crate) fn give_input(mut buffer: BytesMut) {
    if buffer.capacity() <= SPARE_BYTES_MAX {
        buffer.clear();
        INPUT.replace(buffer);
    }
}

/// An empty buffer for what a client gets.
pub(crate) fn take_output() -> Vec<u8> {
    OUTPUT.take()
}

/// It is not needed any more.
pub(crate) fn give_output(mut buffer: Vec<u8>) {
    if buffer.capacity() <= SPARE_BYTES_MAX {
        buffer.clear();
        OUTPUT.replace(buffer);
    }
}
