//! Networks that are connected to each other and to hand-made peers, over loopback.
//!
//! Every wait is for an event, with a limit that only a broken network reaches.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_proto::membership::{Member, PeerAddress, Role};
use herdsman_proto::notification::Hello;
use herdsman_proto::quorum::LearnerInfo;
use herdsman_proto::quorum::fetch::{Chain, FetchRequest, Fetched, MemberState};
use herdsman_proto::{
    JuteReader, LearnerKind, Membership, Notification, QuorumPacket, ServerId, ServerState, Vote,
    Zxid,
};
use herdsman_zab::{Input, LearnerPort, LinkId};

use super::{
    ConnectResult, MemberReport, NetworkSettings, PortFailure, PortKind, QuorumNetwork,
    ReadPermission, Receiver, SendRecord, StreamSource, StreamStep,
};

mod connecting;
mod fetching;
mod hostile;
mod links;
mod ports;
mod votes;

/// Long enough for a busy machine; a test that passes never waits this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// A FETCH up to this txn finds no record until it is stopped.
const ENDLESS_SCAN: Zxid = Zxid(1 << 40);

#[derive(Debug)]
enum Event {
    Input(Input),
    Connect(LinkId, ConnectResult),
    Tree(LinkId, Vec<u8>),
    PortFailed(PortFailure),
    FetchBegun,
    FetchBroken,
}

/// A receiver that passes everything to the test.
struct Probe {
    events: mpsc::Sender<Event>,
    /// The bytes that wait for the disk of a server that is up to date.
    queued_bytes: AtomicUsize,
}

impl Probe {
    fn new(events: mpsc::Sender<Event>) -> Self {
        Probe { events, queued_bytes: AtomicUsize::new(0) }
    }

    fn tell(&self, event: Event) {
        // The test may have ended already.
        _ = self.events.send(event);
    }
}

impl Receiver for Probe {
    fn handle(&self, inputs: &mut Vec<Input>) {
        for input in inputs.drain(..) {
            self.tell(Event::Input(input));
        }
    }

    fn wait_for_room(&self, _: LinkId, _: Duration) -> ReadPermission {
        ReadPermission::Active { queued_bytes: self.queued_bytes.load(Ordering::Relaxed) }
    }

    fn handle_connect(&self, link: LinkId, result: ConnectResult) {
        self.tell(Event::Connect(link, result));
    }

    /// In these tests a tree is a byte with its length, and that many bytes.
    fn receive_tree(&self, link: LinkId, _: Zxid, input: &mut dyn Read) -> io::Result<()> {
        let mut length = [0];
        input.read_exact(&mut length)?;
        let mut tree = vec![0; usize::from(length[0])];
        input.read_exact(&mut tree)?;
        self.tell(Event::Tree(link, tree));
        Ok(())
    }

    fn handle_port_failed(&self, failure: PortFailure) {
        self.tell(Event::PortFailed(failure));
    }

    fn report_member(&self) -> MemberReport {
        let damaged = vec![(Zxid(3), Zxid(5))];
        MemberReport { last_zxid: Zxid(9), state: MemberState::FollowingQuorum, damaged }
    }

    /// There is a record for each number; its payload has as many bytes. Before [`ENDLESS_SCAN`] it takes for ever to
    /// find the first one.
    fn read_records(
        &self,
        (after, before): (Zxid, Zxid),
        is_wanted: &dyn Fn() -> bool,
        send: &mut SendRecord<'_>,
    ) -> Chain {
        if before == ENDLESS_SCAN {
            self.tell(Event::FetchBegun);
            while is_wanted() {
                std::thread::yield_now();
            }
            self.tell(Event::FetchBroken);
            return Chain::Broken;
        }
        for zxid in after.0 + 1..before.0 {
            let payload = vec![b'x'; usize::try_from(zxid).unwrap()];
            if send(Zxid(zxid), payload.into()) == ControlFlow::Break(()) {
                self.tell(Event::FetchBroken);
                return Chain::Broken;
            }
        }
        Chain::Unbroken
    }
}

/// A running network and what it has reported.
struct Server {
    id: ServerId,
    network: QuorumNetwork,
    events: mpsc::Receiver<Event>,
    probe: Weak<Probe>,
}

impl Server {
    fn start(settings: NetworkSettings) -> Self {
        let id = settings.my_id;
        let network = QuorumNetwork::new(settings);
        let (sender, events) = mpsc::channel();
        let probe = Arc::new(Probe::new(sender));
        let weak = Arc::downgrade(&probe);
        network.start(probe).unwrap();
        Server { id, network, events, probe: weak }
    }

    fn send(&self, link: LinkId, packet: &QuorumPacket) {
        self.network.send(link, packet);
        self.network.flush();
    }

    /// Starts a server that does not know other servers yet.
    fn alone(id: i64) -> Self {
        Server::start(settings(id))
    }

    fn election(&self) -> SocketAddr {
        self.network.open_addresses(PortKind::Election)[0]
    }

    fn quorum(&self) -> SocketAddr {
        self.network.open_addresses(PortKind::Quorum)[0]
    }

    fn member(&self) -> Member {
        member(&[(self.quorum().port(), self.election().port())])
    }

    /// Sets its membership to itself and these other servers.
    fn know(&self, others: &[(i64, Member)]) {
        let mut members = vec![(self.id.0, self.member())];
        members.extend_from_slice(others);
        self.network.set_membership(membership(&members));
    }

    /// Returns the first event that `pick` accepts; drops those before it.
    fn wait<T>(&self, mut pick: impl FnMut(Event) -> Option<T>) -> T {
        loop {
            match self.events.recv_timeout(PATIENCE) {
                Ok(event) => {
                    if let Some(picked) = pick(event) {
                        return picked;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("server {} timed out", self.id),
                Err(RecvTimeoutError::Disconnected) => panic!("server {} is gone", self.id),
            }
        }
    }

    /// The next vote: its sender and its round.
    fn vote(&self) -> (i64, i64) {
        self.wait(|event| match event {
            Event::Input(Input::Notification { from, message }) => Some((from.0, message.round)),
            _ => None,
        })
    }

    fn tell(&self, to: i64, round: i64) {
        self.network.notify(ServerId(to), &vote(round));
    }

    fn opened(&self) -> LinkId {
        self.wait(|event| match event {
            Event::Input(Input::LinkOpened { link, .. }) => Some(link),
            _ => None,
        })
    }

    fn connected(&self) -> (LinkId, ConnectResult) {
        self.wait(|event| match event {
            Event::Connect(link, result) => Some((link, result)),
            _ => None,
        })
    }

    fn packet(&self, link: LinkId) -> QuorumPacket {
        self.wait(|event| match event {
            Event::Input(Input::Packet { link: of, packet }) if of == link => Some(packet),
            Event::Input(Input::LinkLost { link: of }) if of == link => panic!("{link:?} is lost"),
            _ => None,
        })
    }

    fn lost(&self, link: LinkId) {
        self.wait(|event| match event {
            Event::Input(Input::LinkLost { link: of }) if of == link => Some(()),
            _ => None,
        });
    }

    /// Stops it and checks that no thread is left that could still report something.
    fn stop(self) {
        self.network.stop();
        assert_eq!(self.probe.strong_count(), 0);
    }
}

fn settings(id: i64) -> NetworkSettings {
    NetworkSettings {
        observer_master_port: None,
        my_id: ServerId(id),
        membership: membership(&[(id, member(&[(0, 0)]))]),
        listen_on_all_addresses: false,
        bind_tries_max: None,
        connect_timeout: PATIENCE,
        hello_timeout: PATIENCE,
        init_limit: PATIENCE,
        connect_limit: PATIENCE,
        connect_tries_max: None,
        connect_retry: Duration::from_millis(5),
        tell_all_addresses: false,
        address_timeout: PATIENCE,
        tcp_keep_alive: true,
        leader_no_delay: true,
        follower_no_delay: true,
        field_bytes_max: 1 << 20,
        queue_bytes_max: 64 << 20,
        protection: super::security::QuorumProtection::default(),
    }
}

fn membership(members: &[(i64, Member)]) -> Arc<Membership> {
    let members = members.iter().map(|(id, member)| (ServerId(*id), member.clone())).collect();
    Arc::new(Membership { members, ..Membership::default() })
}

/// A member with these pairs of quorum and election port.
fn member(ports: &[(u16, u16)]) -> Member {
    let addresses = ports.iter().map(|&(quorum_port, election_port)| PeerAddress {
        host: "127.0.0.1".to_owned(),
        quorum_port,
        election_port,
    });
    let addresses = addresses.collect();
    Member { addresses, role: Role::Participant, client: None, secure_client: None }
}

/// Servers that know each other.
fn ensemble(ids: &[i64]) -> Vec<Server> {
    let servers: Vec<_> = ids.iter().map(|id| Server::alone(*id)).collect();
    let members: Vec<_> = servers.iter().map(|server| (server.id.0, server.member())).collect();
    for server in &servers {
        server.network.set_membership(membership(&members));
    }
    servers
}

fn vote(round: i64) -> Notification {
    let vote = Vote { leader: ServerId(1), zxid: Zxid(7), epoch: 3 };
    Notification { state: ServerState::Looking, vote, round, config: "version=0".to_owned() }
}

fn commit(zxid: i64) -> QuorumPacket {
    QuorumPacket::Commit { zxid: Zxid(zxid) }
}

/// A peer whose bytes the test sends and reads itself.
struct Raw(TcpStream);

impl Raw {
    fn connect(to: SocketAddr) -> Self {
        Raw::over(TcpStream::connect(to).unwrap())
    }

    fn accept(listener: &TcpListener) -> Self {
        Raw::over(listener.accept().unwrap().0)
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn send_packet(&mut self, packet: &QuorumPacket) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        self.send(&bytes);
    }

    fn read<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the other side has ended the connection, properly or not.
    fn is_ended(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// The same, with a limit for the wait.
    fn is_ended_within(&mut self, wait: Duration) -> bool {
        self.0.set_read_timeout(Some(wait)).unwrap();
        let ended = self.0.read(&mut [0]);
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        !ended.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        })
    }

    /// Sends FETCH and reads everything up to FETCHED: the zxids of the records, and that packet.
    fn fetch(&mut self, request: FetchRequest) -> io::Result<(Vec<i64>, Fetched)> {
        self.send_packet(&QuorumPacket::Fetch(request));
        let (mut bytes, mut zxids) = (Vec::new(), Vec::new());
        loop {
            let mut reader = JuteReader::new(&bytes);
            match QuorumPacket::decode(&mut reader) {
                Ok(QuorumPacket::Record { zxid, .. }) => zxids.push(zxid.0),
                Ok(QuorumPacket::Fetched(fetched)) => return Ok((zxids, fetched)),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {
                    let mut more = [0; 4096];
                    match self.0.read(&mut more)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => bytes.extend_from_slice(&more[..count]),
                    }
                    continue;
                }
            }
            let consumed = bytes.len() - reader.rest().len();
            bytes.drain(..consumed);
        }
    }

    fn hello(&mut self, id: i64, addresses: &str) {
        let mut bytes = Vec::new();
        Hello { server: ServerId(id), addresses: addresses.to_owned() }.encode(&mut bytes);
        self.send(&bytes);
    }

    fn read_hello(&mut self) -> Hello {
        let mut bytes = self.read::<20>().to_vec();
        let length = JuteReader::new(&bytes[16..]).int().unwrap();
        let mut addresses = vec![0; length as usize];
        self.0.read_exact(&mut addresses).unwrap();
        bytes.extend_from_slice(&addresses);
        Hello::decode(&mut JuteReader::new(&bytes)).unwrap()
    }

    fn send_vote(&mut self, round: i64) {
        self.send(&super::election::frame_of(&vote(round)));
    }

    /// The round of the next vote.
    fn read_vote(&mut self) -> i64 {
        let length = i32::from_be_bytes(self.read());
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).unwrap();
        Notification::decode(&payload).unwrap().round
    }
}

/// A listener that stands in for a member, and that member.
fn stand_in() -> (TcpListener, Member) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, member(&[(port, port)]))
}
