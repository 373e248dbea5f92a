//! Cuts connections and loses requests and replies, at random, until the time is over.

use std::time::Duration;

use fastrand::Rng;
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::party::{Proxies, SESSION_TIMEOUT};

/// Requests that change something, and those that recipes rely on.
const OPS: [OpCode; 8] = [
    OpCode::Create,
    OpCode::Create2,
    OpCode::CreateContainer,
    OpCode::Delete,
    OpCode::Multi,
    OpCode::SetData,
    OpCode::GetChildren2,
    OpCode::Exists,
];

/// Faults in progress.
pub struct Faults {
    task: JoinHandle<Done>,
}

/// How often each fault was injected.
#[derive(Default)]
struct Done {
    cuts: usize,
    lost: usize,
    partitions: usize,
    expiries: usize,
}

impl Faults {
    pub fn start(parties: Vec<Proxies>, seed: u64, end: Instant) -> Self {
        let task = tokio::spawn(async move {
            let mut done = Done::default();
            let all = parties.clone();
            let _ = timeout_at(end, make_faults(&parties, Rng::with_seed(seed), &mut done)).await;
            for proxy in all.iter().flat_map(|proxies| proxies.iter()) {
                proxy.clear_rules();
                proxy.heal();
            }
            done
        });
        Faults { task }
    }

    pub async fn end(self) -> String {
        let Done { cuts, lost, partitions, expiries } = self.task.await.unwrap_or_default();
        format!(
            "{cuts} times all connections of a party cut, {lost} requests or replies lost, {partitions} short partitions, \
             {expiries} longer than a session timeout"
        )
    }
}

async fn make_faults(parties: &[Proxies], mut rng: Rng, done: &mut Done) {
    loop {
        sleep(Duration::from_millis(rng.u64(50..400))).await;
        let proxies = &parties[rng.usize(..parties.len())];
        match rng.u32(..100) {
            0..60 => {
                let fault = match rng.bool() {
                    true => Fault::CutBeforeReply,
                    false => Fault::CutBeforeRequest,
                };
                let rule = Rule::new(fault).on(OPS[rng.usize(..OPS.len())]);
                for proxy in proxies.iter() {
                    proxy.clear_rules();
                    proxy.add_rule(rule.clone());
                }
                done.lost += 1;
            }
            60..90 => {
                proxies.iter().for_each(herdsman_testing::TestProxy::cut);
                done.cuts += 1;
            }
            90..98 => {
                partition(proxies, Duration::from_millis(rng.u64(100..1500))).await;
                done.partitions += 1;
            }
            _ => {
                partition(proxies, SESSION_TIMEOUT.mul_f64(1.5)).await;
                done.expiries += 1;
            }
        }
    }
}

/// Nothing passes for a while; what was sent meanwhile is lost.
async fn partition(proxies: &Proxies, time: Duration) {
    proxies.iter().for_each(herdsman_testing::TestProxy::partition);
    sleep(time).await;
    for proxy in proxies.iter() {
        proxy.cut();
        proxy.heal();
    }
}
