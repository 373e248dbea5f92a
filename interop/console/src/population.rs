//! The content of the tree: znodes of every type, and clients that hold locks, wait and take part in
//! elections while [`RecipeClients`] exists.

use anyhow::Result;
use futures_util::future::try_join_all;
use herdsman_client::{Client, Lifetime, Op};
use herdsman_recipes::discovery::Registration;
use herdsman_recipes::{
    DoubleBarrier, HoldOptions, LeaderLatch, Lock, LockGuard, Queue, Registry, ServiceInstance,
};
use tokio::task::JoinHandle;

/// The children of `/big`.
pub const BIG: usize = 100_000;
const OPS_AT_ONCE: usize = 1000;

/// A name and data that would run as a script if any page treated them as markup.
pub const HOSTILE_NAME: &str = "<img src=x onerror=window.hacked=1>";
pub const HOSTILE_DATA: &str = "<script>window.hacked=1</script>\"><svg onload=window.hacked=1>";

const CONFIG: &str = concat!(
    r#"{"service":"orders","replicas":3,"limits":{"requests_per_second":250,"burst":null},"#,
    r#""hosts":["a.example","b.example"],"serial":12345678901234567890}"#,
);

/// Clients that use recipes. Dropping this releases everything.
pub struct RecipeClients {
    tasks: Vec<JoinHandle<()>>,
    guards: Vec<LockGuard>,
    latches: Vec<LeaderLatch>,
    instances: Vec<Registration<String>>,
}

impl Drop for RecipeClients {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Creates the znodes for the checks.
pub async fn create_znodes(zk: &Client) -> Result<()> {
    let znodes = [
        ("/app", ""),
        ("/app/config", CONFIG),
        ("/app/motd", "Good morning.\nThe gate is open.\n"),
        ("/app/feature-flags", "dark=true\nbeta=false\n"),
        ("/app/live", "before"),
        ("/app/doomed", ""),
        ("/app/doomed/one", "1"),
        ("/app/doomed/two", "2"),
        ("/app/doomed/two/three", "3"),
        ("/hostile", ""),
        ("/big", ""),
    ];
    for (path, data) in znodes {
        zk.create(path, data).await?;
    }
    zk.create("/app/bytes", (0..=255u8).collect::<Vec<u8>>()).await?;
    zk.create("/app/presence", "worker-7").ephemeral().await?;
    zk.create("/app/jobs", "").lifetime(Lifetime::Container).await?;
    zk.create(&format!("/hostile/{HOSTILE_NAME}"), HOSTILE_DATA).await?;
    for start in (0..BIG).step_by(OPS_AT_ONCE) {
        let one = |i: usize| Op::create(&format!("/big/item-{i:06}"), format!("{i}"));
        zk.transaction((start..start + OPS_AT_ONCE).map(one)).await?;
    }
    Ok(())
}

/// Starts clients that use recipes. Most requests go to one server, the `busiest`.
pub async fn start_recipes(servers: &str, busiest: &str) -> Result<RecipeClients> {
    let clients = try_join_all((0..7).map(|_| Client::connect(servers))).await?;
    let mut recipe_clients = RecipeClients {
        tasks: Vec::new(),
        guards: Vec::new(),
        latches: Vec::new(),
        instances: Vec::new(),
    };
    recipe_clients.contend(&clients).await?;
    recipe_clients.deadlock(&clients[0], &clients[1]).await?;
    recipe_clients.elect(&clients).await?;
    recipe_clients.register(&clients).await?;
    recipe_clients.wait_at_barrier(&clients);
    let queue = Queue::new(&clients[0], "/queues/mail")?;
    for letter in 0..12 {
        queue.offer(format!("letter {letter}")).await?;
    }
    recipe_clients.keep_busy(Client::connect(busiest).await?);
    Ok(recipe_clients)
}

impl RecipeClients {
    /// One client holds a lock, six wait for it.
    async fn contend(&mut self, clients: &[Client]) -> Result<()> {
        for (i, client) in clients.iter().take(7).enumerate() {
            let lock = Lock::new(client, "/locks/orders")?
                .options(&HoldOptions::new().owner(format!("worker-{}", i + 1)));
            if i == 0 {
                self.guards.push(lock.acquire().await?);
            } else {
                self.tasks.push(tokio::spawn(async move { drop(lock.acquire().await) }));
            }
        }
        Ok(())
    }

    /// Two clients hold a lock each and wait for the other's: a deadlock.
    async fn deadlock(&mut self, first: &Client, second: &Client) -> Result<()> {
        let lock = |client, path| Lock::new(client, path);
        self.guards.push(lock(first, "/locks/ledger")?.acquire().await?);
        self.guards.push(lock(second, "/locks/stock")?.acquire().await?);
        for wanted in [lock(first, "/locks/stock")?, lock(second, "/locks/ledger")?] {
            self.tasks.push(tokio::spawn(async move { drop(wanted.acquire().await) }));
        }
        Ok(())
    }

    /// The first client becomes the leader before the others join.
    async fn elect(&mut self, clients: &[Client]) -> Result<()> {
        for (client, id) in clients.iter().zip(["north", "east", "south"]) {
            let latch = LeaderLatch::start(client, "/election/scheduler", id)?;
            if self.latches.is_empty() {
                latch.wait_for_leadership().await?;
            }
            self.latches.push(latch);
        }
        Ok(())
    }

    async fn register(&mut self, clients: &[Client]) -> Result<()> {
        for (i, client) in clients.iter().take(3).enumerate() {
            let registry: Registry<String> = Registry::new(client, "/services")?;
            let instance = ServiceInstance::new("web")
                .with_id(format!("web-{}", i + 1))
                .with_address(format!("10.0.0.{}", i + 1))
                .with_port(8080)
                .with_payload(format!("release 1.{i}"));
            self.instances.push(registry.register(instance).await?);
        }
        Ok(())
    }

    /// Two of three clients have arrived.
    fn wait_at_barrier(&mut self, clients: &[Client]) {
        for client in clients.iter().take(2) {
            self.tasks.push(tokio::spawn(arrive(client.clone())));
        }
    }

    /// Reads and writes continuously, so that the plots have data.
    fn keep_busy(&mut self, client: Client) {
        self.tasks.push(tokio::spawn(async move {
            _ = client.create("/traffic", "").await;
            for turn in 0u64.. {
                if turn % 4 == 0 {
                    _ = client.set("/traffic", turn.to_string()).await;
                }
                _ = client.get("/app/config").await;
                tokio::time::sleep(std::time::Duration::from_millis(8)).await;
            }
        }));
    }
}

async fn arrive(client: Client) {
    if let Ok(barrier) = DoubleBarrier::new(&client, "/barriers/start", 3) {
        drop(barrier.enter().await);
    }
}
