//! The first message of an election connection.

use herdsman_proto::notification::{HELLO_ADDRESS_BYTES_MAX, Hello};
use herdsman_proto::{DecodeError, JuteReader};

/// In: the bytes of a stream.
pub fn run(bytes: &[u8]) {
    let mut reader = JuteReader::new(bytes);
    let hello = match Hello::decode(&mut reader) {
        Ok(hello) => hello,
        Err(error) => {
            let late = matches!(error, DecodeError::Truncated { .. });
            let bytes_max = 8 + 8 + 4 + HELLO_ADDRESS_BYTES_MAX;
            assert!(!late || bytes.len() < bytes_max, "a stream is not read forever");
            assert_eq!(reader.rest(), bytes, "a reader that failed stays where it was");
            return;
        }
    };
    if hello.addresses.len() <= HELLO_ADDRESS_BYTES_MAX {
        let mut out = Vec::new();
        hello.encode(&mut out);
        assert_eq!(Hello::decode(&mut JuteReader::new(&out)).as_ref(), Ok(&hello));
    }
    if let Ok(endpoints) = hello.endpoints() {
        let written = Hello::new(hello.server, &endpoints);
        let again = written.endpoints().expect("our own addresses are well formed");
        let texts = endpoints.iter().map(|endpoint| endpoint.to_string().len() + 1);
        if texts.sum::<usize>() <= HELLO_ADDRESS_BYTES_MAX {
            assert_eq!(again, endpoints);
        }
    }
}
