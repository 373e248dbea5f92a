//! The two frames of a handshake.

use herdsman_proto::{ConnectRequest, ConnectResponse};

/// In: the payload of a connection's first frame, from either side.
pub fn run(bytes: &[u8]) {
    let mut out = Vec::new();
    if let Ok(request) = ConnectRequest::decode(bytes) {
        request.encode_frame(&mut out);
        assert_eq!(ConnectRequest::decode(&out[4..]), Ok(request));
    }
    out.clear();
    if let Ok(response) = ConnectResponse::decode(bytes) {
        response.encode_frame(&mut out);
        assert_eq!(ConnectResponse::decode(&out[4..]), Ok(response));
    }
}
