//! PINGs of learners that report very many sessions.
//!
//! Our learners report at most 4,096 sessions in a PING and send several if there are more. Apache's report all of
//! theirs in one, so a leader cannot refuse a long one. The largest packet has room for about 180,000 sessions, whether
//! they exist or not, and all threads would wait for the node's lock meanwhile. So a long PING is handled in parts,
//! between which the lock is free. A leader expects no particular number of answers to a ping.

use herdsman_proto::QuorumPacket;
use herdsman_proto::limits::PING_SESSIONS_MAX;
use herdsman_zab::Input;

/// Whether this is a PING with more sessions than our own learners put into one.
#[must_use]
pub fn is_long_ping(input: &Input) -> bool {
    let Input::Packet { packet: QuorumPacket::Ping { touched, .. }, .. } = input else {
        return false;
    };
    touched.len() > PING_SESSIONS_MAX
}

/// Divides a long PING into several, in order. Returns every other input unchanged.
#[must_use]
pub fn divided(input: Input) -> Vec<Input> {
    match input {
        Input::Packet { link, packet: QuorumPacket::Ping { zxid, touched } }
            if touched.len() > PING_SESSIONS_MAX =>
        {
            let parts = touched.chunks(PING_SESSIONS_MAX);
            let ping = |touched: &[_]| QuorumPacket::Ping { zxid, touched: touched.to_vec() };
            parts.map(|part| Input::Packet { link, packet: ping(part) }).collect()
        }
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use herdsman_proto::{SessionId, Zxid};
    use herdsman_zab::LinkId;

    use super::*;

    fn ping(sessions: usize) -> Input {
        let touched = (0..sessions as i64).map(|id| (SessionId(id), 4000)).collect();
        let packet = QuorumPacket::Ping { zxid: Zxid(7), touched };
        Input::Packet { link: LinkId(1), packet }
    }

    #[test]
    fn a_ping_with_very_many_sessions_is_handled_in_parts() {
        let mut sessions = Vec::new();
        let parts = divided(ping(180_000));
        assert_eq!(parts.len(), 44);
        for part in parts {
            assert!(!is_long_ping(&part));
            let Input::Packet { link, packet: QuorumPacket::Ping { zxid, touched } } = part else {
                panic!("a ping");
            };
            assert_eq!((link, zxid), (LinkId(1), Zxid(7)));
            sessions.extend(touched.into_iter().map(|(session, _)| session.0));
        }
        assert!(sessions.into_iter().eq(0..180_000));
    }

    #[test]
    fn other_packets_stay_whole() {
        for input in [ping(0), ping(PING_SESSIONS_MAX), Input::Tick] {
            assert!(!is_long_ping(&input));
            assert_eq!(divided(input).len(), 1);
        }
    }
}
