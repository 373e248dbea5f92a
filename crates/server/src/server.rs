//! A running server, standalone or in an ensemble: recovery, threads, and orderly shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herdsman_node::{Node, NodeSettings, Now, Outputs, ServesAs};
use herdsman_proto::Zxid;
use herdsman_store::{DirLock, Dirs, Disk, LogWriter, RealDisk, Recovered, write_snapshot};
use herdsman_tree::Tree;
use herdsman_zab::{InitialState, ZabSettings};
use tracing::info;

use crate::clients::Clients;
use crate::clients::client_sockets::{self, ClientSockets};
use crate::clients::descriptors::ClientDescriptors;
use crate::clients::io_threads::{IoHandle, IoThreads, ServerContext};
use crate::clients::limit_reports::LimitReports;
use crate::clients::listener::{ClientPort, Listener};
use crate::clients::outbox::CloseCause;
use crate::clients::request_bytes::RequestBytes;
use crate::clients::wire::handshake::TlsAcceptor;
use crate::clock::Clock;
use crate::core::Core;
use crate::ensemble::peers::{PeerReceiver, Peers};
use crate::error::{ServerFailure, StartError};
use crate::handle::ServerHandle;
use crate::log::archive::{ArchiveSettings, Archiver};
use crate::log::commit::{CommitQueue, Committer};
use crate::log::disk_keeper::DiskKeeper;
use crate::log::scrubber::Scrubber;
use crate::log::snapshots::{
    PurgeForecast, SnapshotRequests, SnapshotService, SnapshotSettings, Snapshotter,
};
use crate::logins::Logins;
use crate::operators::audit::{self, Audit};
use crate::operators::slow_requests::SlowRequests;
use crate::operators::stats::ServerStats;
use crate::start::certificates::{CertificateWatch, Certificates};
use crate::start::network::network_settings;
use crate::start::repair::leader_wait::LeaderWait;
use crate::start::repair::{self, FilesState, Recovery, RepairContext};
use crate::start::session_passwords;
use crate::start::settings;
use crate::start::startup;
use crate::start::stop_signal::StopSignal;
use crate::ticker::Ticker;
use herdsman_config::{Config, check_directories};
use herdsman_quorum::{NetworkSettings, QuorumNetwork};
use herdsman_runtime::LimitedLog;
use herdsman_runtime::spawn;

/// How long requests in flight may take to complete when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A running server. Dropping it stops it.
pub struct Server {
    running: Option<Running>,
    address: Option<SocketAddr>,
    secure_address: Option<SocketAddr>,
}

struct Running {
    shared: Arc<ServerContext>,
    io_handle: Option<IoHandle>,
    threads: Option<Arc<IoThreads>>,
    listeners: Vec<Listener>,
    certificates: Option<CertificateWatch>,
    ticker: Ticker,
    /// Only if the files cannot be used.
    leader_wait: Option<LeaderWait>,
    commit_queue: Arc<CommitQueue>,
    committer: JoinHandle<()>,
    snapshotter: Snapshotter,
    archiver: Option<Archiver>,
    scrubber: Option<Scrubber>,
    _lock: DirLock,
}

impl Server {
    /// Recovers the data directory and serves clients. A member of an ensemble whose files are damaged waits for other
    /// members first.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_until(config, &StopSignal::default())
    }

    /// Like [`Server::start`], with a signal that ends a wait for other members with [`StartError::Stopped`].
    pub fn start_until(config: Config, stop: &StopSignal) -> Result<Self, StartError> {
        Self::start_with(config, &(Arc::new(RealDisk) as Arc<dyn Disk>), stop)
    }

    /// Like [`Server::start`], on a given disk.
    pub fn start_on(config: Config, disk: &Arc<dyn Disk>) -> Result<Self, StartError> {
        Self::start_with(config, disk, &StopSignal::default())
    }

    fn start_with(
        config: Config,
        disk: &Arc<dyn Disk>,
        stop: &StopSignal,
    ) -> Result<Self, StartError> {
        let audit = audit::from_config(&config)?;
        let started = Self::start_audited(config, disk, audit.clone(), stop);
        if let Some(audit) = audit {
            match &started {
                Ok(_) => audit.server_started(),
                Err(_) => audit.server_failed_to_start(),
            }
        }
        started
    }

    /// Checks what a start needs besides the data: addresses, keys, certificates, the JAAS file.
    /// Changes nothing, so it can be called while a server is running.
    ///
    /// # Errors
    /// The error with which a start would fail.
    pub fn check(config: &Config) -> Result<(), StartError> {
        client_sockets::check_hosts(config)?;
        Certificates::load(config)?;
        Logins::load(config)?;
        session_passwords::load(config)?;
        check_directories(&config.storage)?;
        Ok(())
    }

    /// Returns what the first purge of a server with this configuration would delete now; `None` if it never
    /// deletes anything, or has no data directory yet. Changes nothing.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn purge_forecast(config: &Config) -> io::Result<Option<PurgeForecast>> {
        let storage = &config.storage;
        let Some(purge) = storage.purge else { return Ok(None) };
        let dirs = Dirs::below(&storage.data_dir, &storage.log_dir);
        match PurgeForecast::of(&RealDisk, &dirs, purge) {
            Ok(forecast) => Ok(Some(forecast)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn start_audited(
        mut config: Config,
        disk: &Arc<dyn Disk>,
        audit: Option<Arc<Audit>>,
        stop: &StopSignal,
    ) -> Result<Self, StartError> {
        let hash_seed = settings::random_seed();
        client_sockets::check_hosts(&config)?;
        let certificates = Certificates::load(&config)?;
        let logins = Logins::load(&config)?;
        let passwords = session_passwords::load(&config)?;
        let stats = ServerStats::default();
        let storage = &config.storage;
        let dirs = Dirs::below(&storage.data_dir, &storage.log_dir);
        let lock = startup::open_dirs(&**disk, &config, &dirs)?;
        let files = startup::dynamic_files(&mut config);
        let options =
            settings::recover_options(&config, settings::tree_options(&config, hash_seed));
        let access = (&certificates, &logins);
        let context =
            RepairContext { disk, dirs: &dirs, options: &options, config: &config, access, stop };
        let Recovery { recovered, files: state } = repair::recover(&context, &stats)?;
        let snapshot_settings = settings::snapshot_settings(&config, disk, &dirs);
        startup::suspend_if_lost(&**disk, &config, &dirs, &recovered)?;
        write_first_snapshot(&recovered, &snapshot_settings)?;
        let sockets = ClientSockets::bind(&mut config, certificates.clients.clone())?;
        let log = LogWriter::new(
            Arc::clone(disk),
            &dirs.log,
            recovered.tree.last_zxid(),
            settings::log_options(&config),
        )
        .noted_in(&dirs.data);
        let zab = settings::zab_settings(&config);
        let past = zab
            .as_ref()
            .map(|zab| startup::past(&**disk, &config, &dirs, (&recovered, state), zab))
            .transpose()?;
        let keeper = DiskKeeper {
            disk: Arc::clone(disk),
            dirs,
            recover: options,
            log: settings::log_options(&config),
            snapshots: snapshot_settings.clone(),
            files,
            client_port: Arc::new(ClientPort::at(config.listen.client.clone())),
            requests: Arc::new(SnapshotRequests::default()),
            progress: Arc::default(),
        };
        let parts = Parts {
            node_settings: settings::node_settings(&config, state, passwords, hash_seed),
            config,
            stats,
            lock,
            recovered,
            files: state,
            member: zab.zip(past),
            snapshot_settings,
            log,
            keeper,
            audit,
            certificates,
            logins,
        };
        let (address, secure_address) = (sockets.address(), sockets.secure_address());
        let running = parts.run(sockets)?;
        Ok(Server { running: Some(running), address, secure_address })
    }

    /// Returns the address of the client port, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the address of the TLS client port, if there is one.
    #[must_use]
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.secure_address
    }

    /// Waits until the server cannot go on, and returns the reason: for example, a port that cannot be opened. The
    /// server does not stop by itself.
    pub fn failure(&self) -> impl Future<Output = ServerFailure> + Send + 'static {
        let core = self.running.as_ref().map(|running| Arc::clone(&running.shared.core));
        async move {
            match core {
                Some(core) => core.fatal().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the role in which it serves clients; `None` while there is no leader.
    #[must_use]
    pub fn serves_as(&self) -> Option<ServesAs> {
        self.running.as_ref()?.shared.core.with_node(Node::serves_as)
    }

    /// Returns the last txn that is visible to its clients.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        let running = self.running.as_ref();
        running.map_or(Zxid::ZERO, |running| running.shared.core.tree().last_zxid())
    }

    /// Returns a handle to inspect the server and to connect to it from the same process, for example for the admin
    /// server; `None` once stopped.
    #[must_use]
    pub fn handle(&self) -> Option<ServerHandle> {
        let running = self.running.as_ref()?;
        Some(ServerHandle::new(Arc::clone(&running.shared), running.io_handle.clone()))
    }

    /// Returns the core; `None` once stopped.
    pub(crate) fn core(&self) -> Option<&Core> {
        self.running.as_ref().map(|running| &*running.shared.core)
    }

    /// Stops the server like a killed process: txns that are not in the log yet are lost.
    pub fn kill(mut self) {
        if let Some(running) = self.running.take() {
            running.commit_queue.abandon();
            running.stop();
        }
    }

    /// Stops the server: it accepts no new connections, completes the requests in flight and closes its connections.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Writes the snapshot with which the history of a new server begins. After a loss that the operator accepted, it makes
/// sure that the next start does not find the damage again.
fn write_first_snapshot(
    recovered: &Recovered,
    settings: &SnapshotSettings,
) -> Result<(), StartError> {
    if recovered.fresh || recovered.accepted_loss.is_some() {
        let SnapshotSettings { disk, dirs, compression, last_zxid, .. } = settings;
        let (disk, tree) = (Arc::clone(disk), &recovered.tree);
        write_snapshot(disk, &dirs.data, *compression, tree, *last_zxid)?;
    }
    Ok(())
}

/// The parts from which a server is assembled.
struct Parts {
    config: Config,
    node_settings: NodeSettings,
    stats: ServerStats,
    lock: DirLock,
    recovered: Recovered,
    files: FilesState,
    /// The settings and the recovered state of a member of an ensemble.
    member: Option<(ZabSettings, InitialState)>,
    snapshot_settings: SnapshotSettings,
    log: LogWriter,
    keeper: DiskKeeper,
    audit: Option<Arc<Audit>>,
    certificates: Certificates,
    logins: Logins,
}

impl Parts {
    fn run(self, sockets: ClientSockets) -> Result<Running, StartError> {
        let Parts { config, recovered, member, snapshot_settings, keeper, certificates, .. } = self;
        let (node_settings, logins) = (self.node_settings, self.logins);
        let clock = Clock::start();
        let touch_step_ms = node_settings.touch_step_ms;
        let mut outputs = Outputs::default();
        let peer_settings = member
            .as_ref()
            .map(|(zab, _)| settings::peer_settings(&config, zab, &keeper, &recovered));
        let last_zxid = recovered.tree.last_zxid();
        let archive = ArchiveSettings::of(&config, &keeper, last_zxid);
        let Recovered { tree, txns_replayed, .. } = recovered;
        let tree_options = keeper.recover.tree.clone();
        let now = clock.now();
        let node = new_node(node_settings, member, (&tree, now), &mut outputs);
        let commit_queue = Arc::new(CommitQueue::default());
        let clients = Clients::new(settings::conn_limits(&config), settings::io_threads());
        let queue = Arc::clone(&commit_queue);
        let network = network(&config, &certificates, &logins);
        let core = Arc::new_cyclic(|core| {
            let peers = network.zip(peer_settings).map(|(network, settings)| {
                Peers::new(network, Arc::clone(&queue), settings, core.clone())
            });
            Core::new(node, tree, clients, self.stats, clock, queue, peers)
                .with_logs(self.audit, SlowRequests::above(config.logging.slow_request_ms))
        });
        let requests = Arc::clone(&keeper.requests);
        let snapshots =
            SnapshotService::new(requests.clone(), snapshot_settings.clone(), tree_options);
        let client_port = Arc::clone(&keeper.client_port);
        let scrub = settings::scrub_settings(&config, &keeper);
        let policy = settings::snapshot_policy(&config, txns_replayed, Arc::clone(&requests));
        let commit = settings::commit_settings(&config);
        let queue = Arc::clone(&commit_queue);
        let committer = Committer::new(Arc::clone(&core), queue, self.log, commit, policy, keeper);
        let committer = spawn("commit", || committer.run())?;
        let archiver = start_archiver(&core, archive)?;
        let snapshotter = Snapshotter::start(Arc::clone(&core), requests, snapshot_settings)?;
        let scrubber = scrub.map(|scrub| Scrubber::start(Arc::clone(&core), scrub)).transpose()?;
        take_up_role(&core, outputs)?;
        let ticker = Ticker::start(Arc::clone(&core))?;
        let leader_wait = LeaderWait::start_if(self.files, &core)?;
        let certificates = certificates.watch(&config)?;
        let tls = sockets.tls_acceptor(&config);
        let shared = Arc::new(shared(core, config, touch_step_ms, snapshots, tls, logins));
        let (threads, listeners) = sockets.open(client_port, &shared)?;
        Ok(Running {
            io_handle: threads.as_ref().and_then(|threads| threads.handle()),
            shared,
            threads,
            listeners,
            certificates,
            ticker,
            leader_wait,
            commit_queue,
            committer,
            snapshotter,
            archiver,
            scrubber,
            _lock: self.lock,
        })
    }
}

/// Starts to archive, if that is wanted.
fn start_archiver(
    core: &Arc<Core>,
    settings: Option<ArchiveSettings>,
) -> io::Result<Option<Archiver>> {
    settings.map(|settings| Archiver::start(Arc::clone(core), settings)).transpose()
}

/// A node that serves alone, or one that takes part in agreement.
fn new_node(
    settings: NodeSettings,
    member: Option<(ZabSettings, InitialState)>,
    (tree, now): (&Tree, Now),
    outputs: &mut Outputs,
) -> Node {
    match member {
        None => Node::new(settings, tree, now),
        Some((zab, state)) => Node::join(settings, zab, state, tree, now, outputs),
    }
}

/// The connections with the other members; `None` for a standalone server.
fn network(config: &Config, certificates: &Certificates, logins: &Logins) -> Option<QuorumNetwork> {
    let settings = network_settings(config)?;
    let protection = certificates.quorum_protection(config, logins);
    Some(QuorumNetwork::new(NetworkSettings { protection, ..settings }))
}

/// A standalone server ends orphaned sessions; a member of an ensemble starts looking for a leader.
fn take_up_role(core: &Arc<Core>, outputs: Outputs) -> io::Result<()> {
    let Some(peers) = core.peers() else {
        core.close_orphans();
        return Ok(());
    };
    core.with_node(|node| peers.begin(node, &core.stats.ensemble));
    peers.network.start(Arc::new(PeerReceiver::new(Arc::clone(core))))?;
    core.carry_out(outputs);
    Ok(())
}

fn shared(
    core: Arc<Core>,
    config: Config,
    touch_step_ms: u64,
    snapshots: SnapshotService,
    tls: Option<TlsAcceptor>,
    logins: Logins,
) -> ServerContext {
    let request_bytes = RequestBytes::new(settings::request_bytes_max(&config.limits));
    ServerContext {
        core,
        settings: settings::conn_settings(&config, touch_step_ms),
        connection_throttle: crate::clients::throttle::SessionThrottle::new(
            config.connection_throttle.clone(),
            settings::new_session_scope(&config),
        ),
        config: Arc::new(config),
        large_bytes: AtomicU64::new(0),
        request_bytes,
        client_descriptors: ClientDescriptors::of_process(),
        trace_mask: AtomicU64::new(settings::TRACE_MASK_DEFAULT),
        stopping: AtomicBool::new(false),
        snapshots,
        tls,
        logins,
        limit_reports: LimitReports::default(),
        logins_done: LimitedLog::news(),
        failed_logins: LimitedLog::default(),
    }
}

impl Running {
    fn stop(self) {
        let Running {
            shared,
            threads,
            listeners,
            certificates,
            ticker,
            leader_wait,
            commit_queue,
            committer,
            snapshotter,
            archiver,
            scrubber,
            _lock,
            io_handle: _,
        } = self;
        info!("stopping");
        shared.core.audit().inspect(|audit| audit.server_stops());
        shared.stopping.store(true, Ordering::Release);
        scrubber.iter().for_each(Scrubber::begin_stop);
        for listener in listeners {
            listener.stop();
        }
        if let Some(certificates) = certificates {
            certificates.stop();
        }
        ticker.stop();
        if let Some(leader_wait) = leader_wait {
            leader_wait.stop();
        }
        if let Some(peers) = shared.core.peers() {
            peers.network.stop();
        }
        drain(&shared, &commit_queue);
        commit_queue.stop();
        _ = committer.join();
        let mut clients = shared.core.clients.all();
        for client in &clients {
            client.outbox.close(CloseCause::Shutdown);
        }
        shared.core.clients.io_wakers.wake_clients(&mut clients);
        if let Some(threads) = threads.and_then(Arc::into_inner) {
            threads.join();
        }
        snapshotter.stop();
        if let Some(archiver) = archiver {
            archiver.stop();
        }
        if let Some(scrubber) = scrubber {
            scrubber.join();
        }
        shared.core.audit().inspect(|audit| audit.close());
        info!("stopped");
    }
}

/// Waits up to [`STOP_GRACE`] until the requests in flight are written and answered.
fn drain(shared: &ServerContext, commit_queue: &CommitQueue) {
    let deadline = Instant::now() + STOP_GRACE;
    while !commit_queue.is_stopping()
        && shared.core.with_node(Node::in_flight) > 0
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}
