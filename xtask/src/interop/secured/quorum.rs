//! Ensembles whose servers speak TLS and log in to each other, of both kinds of server.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::stores::Stores;
use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::interop::mixed::exchange;
use crate::server::Program;

const TICK_MS: u32 = 2000;
const SYNC_LIMIT: u32 = 5;
const LEADER: usize = 3;

/// Who leads, who follows.
fn combinations(program: Program) -> [[Program; 3]; 2] {
    [[Program::Apache, program, program], [program, Program::Apache, Program::Apache]]
}

pub fn run(program: Program, work: &Path, stores: &Stores) -> Result<()> {
    for (index, [leader, first, second]) in combinations(program).into_iter().enumerate() {
        for (name, settings) in [("tls", with_tls(stores)), ("logins", with_logins(stores))] {
            let start = Instant::now();
            let title = format!("{name} between servers, led by {}", leader.name());
            let folder = work.join(format!("{name}-{index}"));
            let servers = [first, second, leader].map(|program| (program, Role::Participant));
            let mut ensemble = Ensemble::new(&folder, &servers, &settings, Network::Loopback)?;
            ensemble.start_all_led_by(LEADER).with_context(|| title.clone())?;
            exchange::everything(&ensemble).with_context(|| title.clone())?;
            println!("ok      {title} ({:.1} s)", start.elapsed().as_secs_f64());
        }
    }
    switch_to_tls(program, work, stores).context("from plain to TLS, one by one")?;
    strangers(program, work, stores).context("servers that must be refused")
}

fn settings() -> Settings {
    Settings::new(TICK_MS, SYNC_LIMIT)
}

/// Keys and certificates for the ports between servers, whatever they speak.
fn with_stores(stores: &Stores) -> Settings {
    let mut settings = settings();
    for (name, value) in stores.settings("zookeeper.ssl.quorum.", "server.jks") {
        settings = settings.property(&name, &value);
    }
    settings
}

fn with_tls(stores: &Stores) -> Settings {
    Settings { lines: vec!["sslQuorum=true".to_owned()], ..with_stores(stores) }
}

fn with_logins(stores: &Stores) -> Settings {
    let lines = [
        "quorum.auth.enableSasl=true",
        "quorum.auth.learnerRequireSasl=true",
        "quorum.auth.serverRequireSasl=true",
    ];
    let settings = settings()
        .property(
            "java.security.auth.login.config",
            &stores.path("jaas.conf").display().to_string(),
        )
        // Apache's learner does not speak DIGEST-MD5 otherwise.
        .property("zookeeper.fips-mode", "false");
    Settings { lines: lines.map(Into::into).to_vec(), ..settings }
}

/// The way that Apache's documentation describes: first all understand both, then all speak TLS, then
/// nothing else is understood. The ensemble serves all the time.
fn switch_to_tls(program: Program, work: &Path, stores: &Stores) -> Result<()> {
    let start = Instant::now();
    let servers = [program, Program::Apache, program].map(|program| (program, Role::Participant));
    let folder = work.join("switch");
    let mut ensemble = Ensemble::new(&folder, &servers, &with_stores(stores), Network::Loopback)?;
    ensemble.start_all()?;
    for lines in [
        &["portUnification=true"][..],
        &["portUnification=true", "sslQuorum=true"],
        &["sslQuorum=true"],
    ] {
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        for id in ensemble.ids() {
            ensemble.member_mut(id).stop()?;
            ensemble.await_serving().with_context(|| format!("without server {id}, {lines:?}"))?;
            ensemble.member(id).configure(&lines)?;
            ensemble.start(id).with_context(|| format!("with server {id}, {lines:?}"))?;
        }
    }
    exchange::everything(&ensemble)?;
    println!("ok      from plain to TLS, one by one ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(())
}

/// With two of three that belong there is a quorum, and the third does not get in.
fn strangers(program: Program, work: &Path, stores: &Stores) -> Result<()> {
    for (name, settings, odd) in [
        ("without TLS", with_tls(stores), vec![]),
        ("without a login", with_logins(stores), vec![]),
        (
            "with a wrong password",
            with_logins(stores),
            [
                &with_logins(stores).lines[..],
                &["quorum.auth.learner.saslLoginContext=WrongLearner".to_owned()],
            ]
            .concat(),
        ),
    ] {
        let folder = work.join(name.replace(' ', "-"));
        let servers =
            [program, program, Program::Apache].map(|program| (program, Role::Participant));
        let mut ensemble = Ensemble::new(&folder, &servers, &settings, Network::Loopback)?;
        ensemble.member(LEADER).configure(&odd)?;
        for id in [1, 2] {
            ensemble.member_mut(id).launch()?;
        }
        ensemble.await_serving()?;
        ensemble.member_mut(LEADER).launch()?;
        ensemble.member_mut(LEADER).await_up()?;
        let refused = |ensemble: &Ensemble| {
            [1, 2].iter().any(|id| {
                let log = ensemble.member(*id).log().unwrap_or_default();
                log.contains("does not use TLS")
                    || log.contains("not TLS")
                    || log.contains("did not log in")
                    || log.contains("login failed")
            })
        };
        let deadline = Instant::now() + std::time::Duration::from_secs(30);
        while program == Program::Herdsman && !refused(&ensemble) {
            ensure!(Instant::now() < deadline, "{name}: no log says that it was refused");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        ensure!(ensemble.member(LEADER).mode().is_none(), "a server {name} was accepted");
        println!("ok      a server {name} is refused");
    }
    Ok(())
}
