//! Servers of both programs that log in to each other with Kerberos, and servers that must be rejected.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::clients;
use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::interop::mixed::exchange;
use crate::server::Program;

const TICK_MS: u32 = 2000;
const SYNC_LIMIT: u32 = 5;
const LEADER: usize = 3;
const REFUSAL_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Sections of the JAAS file: name, key table, principal.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("QuorumServer", "quorum.keytab", "zkquorum/127.0.0.1"),
    ("QuorumLearner", "learner.keytab", "learner/127.0.0.1"),
    ("NoHost", "no-host.keytab", "learner"),
    ("Untrusted", "untrusted.keytab", "learner/elsewhere"),
];

/// All of it.
pub fn run(program: Program, work: &Path, realm: &Path) -> Result<()> {
    let file = work.join("quorum-jaas.conf");
    fs::write(&file, clients::jaas(realm, SECTIONS))?;
    let settings = settings(&file, realm);
    let orders = [[Program::Apache, program, program], [program, Program::Apache, Program::Apache]];
    for (index, [leader, first, second]) in orders.into_iter().enumerate() {
        let start = Instant::now();
        let title = format!("Kerberos between servers, led by {}", leader.name());
        let servers = [first, second, leader].map(|program| (program, Role::Participant));
        let folder = work.join(format!("quorum-{index}"));
        let mut ensemble = Ensemble::new(&folder, &servers, &settings, Network::Loopback)?;
        ensemble.start_all_led_by(LEADER).with_context(|| title.clone())?;
        exchange::everything(&ensemble).with_context(|| title.clone())?;
        println!("ok      {title} ({:.1} s)", start.elapsed().as_secs_f64());
    }
    for section in ["NoHost", "Untrusted"] {
        is_rejected(program, work, &settings, section)
            .with_context(|| format!("a server with section {section}"))?;
        println!("ok      a server that logs in with the name of {section} is rejected");
    }
    Ok(())
}

fn settings(jaas: &Path, realm: &Path) -> Settings {
    let lines = [
        "quorum.auth.enableSasl=true",
        "quorum.auth.learnerRequireSasl=true",
        "quorum.auth.serverRequireSasl=true",
        "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST",
    ];
    let settings = Settings::new(TICK_MS, SYNC_LIMIT)
        .property("java.security.auth.login.config", &jaas.display().to_string())
        .property("java.security.krb5.conf", &realm.join("krb5.conf").display().to_string());
    Settings { lines: lines.map(Into::into).to_vec(), ..settings }
}

/// Two of the three servers form a quorum, and the third is rejected (CVE-2023-44981).
fn is_rejected(program: Program, work: &Path, settings: &Settings, section: &str) -> Result<()> {
    let servers = [program; 3].map(|program| (program, Role::Participant));
    let folder = work.join(format!("quorum-{section}"));
    let mut ensemble = Ensemble::new(&folder, &servers, settings, Network::Loopback)?;
    let odd = format!("quorum.auth.learner.saslLoginContext={section}");
    ensemble.member(LEADER).configure(&[&settings.lines[..], &[odd]].concat())?;
    for id in [1, 2] {
        ensemble.member_mut(id).launch()?;
    }
    ensemble.await_serving()?;
    ensemble.member_mut(LEADER).launch()?;
    ensemble.member_mut(LEADER).await_up()?;
    let refusal = match program {
        Program::Herdsman => "is not a member",
        Program::Apache | Program::Apache38 => "is not authorized to connect",
    };
    let deadline = Instant::now() + REFUSAL_MAX;
    let says_so = |id: usize| ensemble.member(id).log().is_ok_and(|log| log.contains(refusal));
    while ![1, 2].into_iter().any(says_so) {
        ensure!(Instant::now() < deadline, "no server logged that it was rejected");
        std::thread::sleep(POLL);
    }
    ensure!(ensemble.member(LEADER).mode().is_none(), "it joined the ensemble");
    Ok(())
}
