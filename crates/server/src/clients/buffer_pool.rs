//! Buffers that the connections of one I/O thread share. A connection needs them only while it is
//! served, and only one is served at a time; an idle connection holds none.

use std::cell::RefCell;

use bytes::BytesMut;

/// An output buffer that has grown beyond this is freed.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The same for input. A connection may read as much as fits before the length of its frame is checked, so this
/// is little more than one read.
const INPUT_BYTES_MAX: usize = 256 * 1024;

thread_local! {
    static INPUT: RefCell<BytesMut> = RefCell::default();
    static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
}

/// Takes an empty buffer for received bytes.
pub(crate) fn take_input() -> BytesMut {
    INPUT.take()
}

/// Returns a buffer to the pool.
pub(crate) fn return_input(mut buffer: BytesMut) {
    if buffer.capacity() <= INPUT_BYTES_MAX {
        buffer.clear();
        INPUT.replace(buffer);
    }
}

/// Takes an empty buffer for output.
pub(crate) fn take_output() -> Vec<u8> {
    OUTPUT.take()
}

/// Returns a buffer to the pool.
pub(crate) fn return_output(mut buffer: Vec<u8>) {
    if buffer.capacity() <= OUTPUT_BYTES_MAX {
        buffer.clear();
        OUTPUT.replace(buffer);
    }
}
