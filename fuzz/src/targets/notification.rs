//! Votes.

use herdsman_proto::Notification;

/// In: the payload of a frame on an election connection.
pub fn run(bytes: &[u8]) {
    let Ok(notification) = Notification::decode(bytes) else {
        return;
    };
    assert!(bytes.len() >= 28, "shorter ones are ignored");
    let mut out = Vec::new();
    notification.encode(&mut out);
    assert_eq!(Notification::decode(&out), Ok(notification));
}
