//! Asks the other members for records, and notes what they say about themselves.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::quorum::fetch::{Chain, FetchRequest, Fetched, MemberState};
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{Membership, ServerId, Zxid};
use herdsman_quorum::{IsWanted, MemberConnection, QuorumNetwork};
use herdsman_store::Repair;
use herdsman_store::repair::Answer;

/// Time for a connection to a member.
const DIAL_LIMIT: Duration = Duration::from_secs(2);
/// How often a server that does not know FETCH is asked, and whether it leads: Apache's logs each such connection.
const LEADER_QUESTION_EVERY: Duration = Duration::from_secs(5);
/// Ranges that are asked for on one connection.
const RANGES_MAX: usize = 1000;

/// What a member last said, or why it said nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It cannot be reached, or has broken the connection: why.
    Nothing(String),
    /// It does not know FETCH, as Apache's servers, and does not answer a learner as a leader does.
    NoFetch,
    /// It does not know FETCH, but leads.
    Leads,
    /// Its state, and whether it had no time to read records.
    State(MemberState, Chain),
}

impl Said {
    /// Whether there is a leader with a quorum.
    fn has_quorum(&self) -> bool {
        match self {
            Said::Leads => true,
            Said::State(state, _) => state.has_quorum(),
            Said::Nothing(_) | Said::NoFetch => false,
        }
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Said::Nothing(why) => write!(f, "not reachable ({why})"),
            Said::NoFetch => f.write_str("cannot send records and does not lead"),
            Said::Leads => f.write_str("cannot send records, and leads"),
            Said::State(state, Chain::Busy) => write!(f, "{state}, busy"),
            Said::State(state, _) => write!(f, "{state}"),
        }
    }
}

/// The other members.
pub(super) struct Members {
    network: Arc<QuorumNetwork>,
    me: ServerId,
    config_version: u64,
    accepted_epoch: u32,
    said: BTreeMap<ServerId, Said>,
    asked_to_lead: BTreeMap<ServerId, Instant>,
}

impl Members {
    pub fn new(
        network: Arc<QuorumNetwork>,
        me: ServerId,
        membership: &Membership,
        accepted_epoch: u32,
    ) -> Self {
        Members {
            network,
            me,
            config_version: membership.version,
            accepted_epoch,
            said: BTreeMap::new(),
            asked_to_lead: BTreeMap::new(),
        }
    }

    /// What a member last said; nothing before it was asked.
    pub fn said(&self, id: ServerId) -> Option<&Said> {
        self.said.get(&id)
    }

    /// A member that has shown that there is a leader with a quorum.
    pub fn reports_leader(&self) -> Option<ServerId> {
        self.said.iter().find(|(_, said)| said.has_quorum()).map(|(id, _)| *id)
    }

    /// Whether a member had no time to read what it was asked for.
    pub fn has_busy(&self) -> bool {
        self.said.values().any(|said| matches!(said, Said::State(_, Chain::Busy)))
    }

    /// Asks a member for what is missing, and offers its records to the repair.
    pub fn ask(&mut self, id: ServerId, repair: &mut Repair, is_wanted: &IsWanted<'_>) {
        if self.knows_no_fetch(id) {
            return;
        }
        let said = match self.network.dial_member(id, DIAL_LIMIT) {
            Err(failure) => Said::Nothing(failure.to_string()),
            Ok(mut connection) => {
                match fetch_all(&mut connection, self.me, id, repair, is_wanted) {
                    Ok(Some(said)) => said,
                    Ok(None) => self.ask_for_state(connection, id, is_wanted),
                    // It may be looking for the first record in a large file; what it does is known at once.
                    Err(failure) if failure.kind() == io::ErrorKind::TimedOut => {
                        self.ask_for_state(connection, id, is_wanted)
                    }
                    Err(failure) if closes_without_answer(&failure) && is_wanted() => {
                        self.ask_for_leader(id, is_wanted)
                    }
                    Err(failure) => Said::Nothing(failure.to_string()),
                }
            }
        };
        self.said.insert(id, said);
    }

    /// Asks a member for nothing but its state, on another connection than the one on which it sends records.
    fn ask_for_state(&self, old: MemberConnection, id: ServerId, is_wanted: &IsWanted<'_>) -> Said {
        drop(old);
        let mut ignore = |_, _| ControlFlow::Continue(());
        let fetched = self
            .network
            .dial_member(id, DIAL_LIMIT)
            .and_then(|mut it| it.fetch(state_request(self.me), is_wanted, &mut ignore));
        match fetched {
            Ok(fetched) => Said::State(fetched.state, Chain::Broken),
            Err(failure) => Said::Nothing(failure.to_string()),
        }
    }

    /// Whether a member was found a moment ago not to know FETCH.
    fn knows_no_fetch(&self, id: ServerId) -> bool {
        let is_recent = |asked: &Instant| asked.elapsed() < LEADER_QUESTION_EVERY;
        matches!(self.said.get(&id), Some(Said::Leads | Said::NoFetch))
            && self.asked_to_lead.get(&id).is_some_and(is_recent)
    }

    /// Introduces this server to one that does not know FETCH, as an observer does: a leader answers with its epoch,
    /// another server closes the connection. Nothing is promised, so no quorum counts this server.
    fn ask_for_leader(&mut self, id: ServerId, is_wanted: &IsWanted<'_>) -> Said {
        self.asked_to_lead.insert(id, Instant::now());
        let info = LearnerInfo {
            server: self.me,
            protocol_version: PROTOCOL_VERSION,
            config_version: self.config_version,
        };
        let asked = self
            .network
            .dial_member(id, DIAL_LIMIT)
            .and_then(|mut it| it.await_leader_info(info, self.accepted_epoch, is_wanted));
        match asked {
            Ok(()) => Said::Leads,
            Err(failure) if closes_without_answer(&failure) => Said::NoFetch,
            Err(failure) => Said::Nothing(failure.to_string()),
        }
    }
}

/// Fetches all missing ranges, or none, if records cannot repair what is damaged: then only the state is asked for.
/// `None` if there was no room for a record: the connection is of no use then.
fn fetch_all(
    connection: &mut MemberConnection,
    me: ServerId,
    peer: ServerId,
    repair: &mut Repair,
    is_wanted: &IsWanted<'_>,
) -> io::Result<Option<Said>> {
    let ranges = repair.wanted().into_iter().take(RANGES_MAX);
    let mut requests: Vec<_> =
        ranges.map(|(after, before)| FetchRequest { from: me, after, before }).collect();
    if requests.is_empty() {
        requests.push(state_request(me));
    }
    let mut said = Said::NoFetch;
    for request in requests {
        let mut offer = repair.offer_of(peer, (request.after, request.before));
        let mut has_room = true;
        let fetched = connection.fetch(request, is_wanted, &mut |zxid, payload| {
            has_room = offer.push(zxid, payload);
            if has_room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if !has_room {
            repair.offer(offer, Answer::default());
            return Ok(None);
        }
        let Fetched { chain, state, damaged, .. } = fetched?;
        said = Said::State(state, chain);
        if chain == Chain::Busy {
            break;
        }
        repair.offer(offer, Answer { unbroken: chain == Chain::Unbroken, damaged });
    }
    Ok(Some(said))
}

/// Asks for no record.
fn state_request(me: ServerId) -> FetchRequest {
    FetchRequest { from: me, after: Zxid::ZERO, before: Zxid(1) }
}

/// How a server ends a connection whose first packet it does not know.
fn closes_without_answer(failure: &io::Error) -> bool {
    matches!(
        failure.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use herdsman_config::{Config, Mode, Role, SystemProperties};
    use herdsman_proto::QuorumPacket;
    use herdsman_store::repair::RecordId;
    use herdsman_store::{Damage, Gap};

    use super::*;
    use crate::start::network::network_settings;

    const ME: ServerId = ServerId(1);
    const OTHER: ServerId = ServerId(2);

    /// A network of two members, the other one at this port.
    fn network(port: u16, silence_max: Duration) -> Arc<QuorumNetwork> {
        let text = format!("server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:{port}:3");
        let mut config =
            Config::standalone_default(&SystemProperties::new()).expect("defaults").config;
        config.mode = Mode::Ensemble { my_id: ME, role: Role::Participant };
        config.quorum.membership = Membership::parse_text(&text).unwrap();
        let settings = network_settings(&config).unwrap();
        let settings = herdsman_quorum::NetworkSettings { init_limit: silence_max, ..settings };
        Arc::new(QuorumNetwork::new(settings))
    }

    fn missing_txn() -> Repair {
        let known = vec![RecordId::of(Zxid(8))];
        let gap = Gap { after: Zxid(7), before: Some(Zxid(9)), known, is_complete: true };
        let (good, end) = (Zxid(7), Some(Zxid(9)));
        Repair::new(Damage { good, gaps: vec![gap], end, needs_tree: None, places: Vec::new() })
    }

    fn accept(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        // The header of FETCH, and two numbers.
        stream.read_exact(&mut [0; 4 + 8 + 4 + 16 + 4]).unwrap();
        stream
    }

    /// It looked like a member that is down, so a damaged server never joined the leader.
    #[test]
    fn a_member_that_is_slow_to_find_records_says_what_it_does() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let network = network(address.port(), Duration::from_secs(1));
        let membership = Membership::default();
        let mut members = Members::new(network, ME, &membership, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slow = accept(&listener);
                let mut second = accept(&listener);
                let (state, chain) = (MemberState::LeadingQuorum, Chain::Broken);
                let fetched = Fetched { last_zxid: Zxid(9), chain, state, damaged: Vec::new() };
                let mut bytes = Vec::new();
                QuorumPacket::Fetched(fetched).encode(&mut bytes);
                second.write_all(&bytes).unwrap();
                drop(slow);
            });
            members.ask(OTHER, &mut missing_txn(), &|| true);
            // Ends the test if there is no second question.
            drop(TcpStream::connect(address));
        });
        assert_eq!(members.reports_leader(), Some(OTHER));
    }
}
