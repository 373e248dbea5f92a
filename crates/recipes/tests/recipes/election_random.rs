//! Five candidates and random faults from a seed: never two effective leaders, and in the end all candidates lead
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use herdsman_client::{Client, Op};
use herdsman_recipes::election::{Election, Leadership, Race};
use herdsman_testing::proxy::{Fault, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, within};

const CANDIDATES: usize = 5;
const FAULTS: usize = 25;
const WRITES: usize = 12;
const PATH: &str = "/app/leader";
const EPOCH: &str = "/app/epoch";
const LOG: &str = "/log";

enum Candidate {
    Fair(Election),
    Race(Race),
}

impl Candidate {
    async fn campaign(&self) -> Leadership {
        match self {
            Candidate::Fair(election) => election.campaign().await.unwrap(),
            Candidate::Race(race) => race.campaign().await.unwrap(),
        }
    }

    /// Leads repeatedly. A term is some writes to the log, without any check: the fence has to find out whether the
    /// leadership was lost meanwhile.
    async fn serve(self, terms: Arc<AtomicUsize>) {
        loop {
            let leadership = self.campaign().await;
            let entry = format!("{} {}", leadership.epoch().unwrap(), leadership.token());
            let fenced = leadership.fenced();
            for _ in 0..WRITES {
                let op = Op::create(&format!("{LOG}/e-"), entry.clone()).sequential();
                // Rejected, or lost with the connection: the log shows what was written.
                let _ = fenced.transaction([op]).await;
            }
            let _ = leadership.resign().await;
            terms.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Member {
    proxy: TestProxy,
    client: Client,
    terms: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

struct Members(Vec<Member>);

impl Members {
    async fn start(server: &TestServer, candidate: fn(&Client, &str) -> Candidate) -> Self {
        let mut members = Vec::new();
        for id in 0..CANDIDATES {
            let proxy = TestProxy::start(server.address());
            let client = client_behind(&proxy).await;
            let terms = Arc::<AtomicUsize>::default();
            let serving = candidate(&client, &id.to_string()).serve(terms.clone());
            members.push(Member { proxy, client, terms, task: tokio::spawn(serving) });
        }
        Members(members)
    }

    /// Waits until there were more terms than `before`.
    async fn until_led_after(&self, before: usize) {
        within(async {
            while self.terms() <= before {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn terms(&self) -> usize {
        self.0.iter().map(|member| member.terms.load(Ordering::Relaxed)).sum()
    }
}

async fn inject_fault(rng: &mut Rng, server: &mut TestServer, members: &Members, admin: &Client) {
    let member = &members.0[rng.usize(0..CANDIDATES)];
    let rules = [Fault::CutBeforeRequest, Fault::CutBeforeReply];
    match rng.u8(0..8) {
        0 => member.proxy.cut(),
        1 => member.proxy.reset(),
        2 => server.expire_session(member.client.session().id()),
        3 => {
            member.proxy.partition();
            server.expire_session(member.client.session().id());
            member.proxy.cut();
            member.proxy.heal();
        }
        4 | 5 => {
            let rule = Rule::new(rules[rng.usize(0..2)]).skip(rng.usize(0..6)).times(2);
            drop(member.proxy.add_rule(rule));
        }
        6 => {
            server.kill();
            server.start_again();
        }
        _ => {
            let sessions = members.0.iter().map(|member| member.client.session().id());
            let nodes: Vec<_> = sessions.flat_map(|session| server.ephemerals(session)).collect();
            for path in nodes {
                // By hand, while the owners' sessions live on; it may have been deleted already.
                let _ = admin.delete(&path).await;
            }
        }
    }
}

/// Returns the writes that were applied, in their order: the epoch and token of each.
async fn history(zk: &Client) -> Vec<(u64, u64)> {
    let mut names = zk.children(LOG).await.unwrap().names;
    names.sort();
    let mut entries = Vec::new();
    for name in names {
        let node = zk.get(&format!("{LOG}/{name}")).await.unwrap();
        let text = String::from_utf8(node.data.to_vec()).unwrap();
        let (epoch, token) = text.split_once(' ').unwrap();
        entries.push((epoch.parse().unwrap(), token.parse().unwrap()));
    }
    entries
}

async fn check(seed: u64, candidate: fn(&Client, &str) -> Candidate) {
    let mut rng = Rng::with_seed(seed);
    let mut server = TestServer::start();
    let admin = client(&server).await;
    admin.create(LOG, "").await.unwrap();
    let members = Members::start(&server, candidate).await;
    for _ in 0..FAULTS {
        let before = members.terms();
        inject_fault(&mut rng, &mut server, &members, &admin).await;
        members.until_led_after(before).await;
    }
    for member in &members.0 {
        member.proxy.clear_rules();
        let before = member.terms.load(Ordering::Relaxed);
        within(async {
            while member.terms.load(Ordering::Relaxed) <= before {
                tokio::task::yield_now().await;
            }
        })
        .await;
        member.task.abort();
    }
    let written = history(&admin).await;
    assert!(written.len() > FAULTS, "seed {seed}: {} writes", written.len());
    assert!(written.is_sorted(), "seed {seed}: a former leader wrote: {written:?}");
    let terms = written.chunk_by(|a, b| a.0 == b.0);
    let are_one_leaders = terms.clone().all(|term| term.iter().all(|entry| entry.1 == term[0].1));
    assert!(are_one_leaders, "seed {seed}: two leaders of one epoch: {written:?}");
}

#[tokio::test]
async fn fair_elections_never_have_two_effective_leaders() {
    for seed in 0..3 {
        check(seed, |zk, id| {
            Candidate::Fair(Election::new(zk, PATH, id).unwrap().with_epoch(EPOCH).unwrap())
        })
        .await;
    }
}

#[tokio::test]
async fn races_never_have_two_effective_leaders() {
    for seed in 0..3 {
        check(seed, |zk, id| Candidate::Race(Race::new(zk, PATH, id).unwrap())).await;
    }
}
