//! `cargo xtask hostile`: runs attacks by hostile clients, and measures good clients meanwhile.
//!
//! In: which attacks, and how long. Out: a table with a row for each attack, and exit code 1 if an attack
//! succeeded. Each attack runs against new servers. Good clients are measured without the attack and during
//! it, alternating twice, because the load of the machine varies: they must get no error, and the latency
//! of their slow requests must stay within a multiple of that without the attack. The server must survive,
//! keep its memory within a stated bound, and release the resources of the attack (descriptors,
//! connections, sessions).
//!
//! The bounds are generous: attackers, servers and good clients share the cores of one machine. What they catch is a
//! server that stalls, uses much more memory or refuses its good clients.
//! Not here: hostile servers (`crates/server/tests/server/hostile_servers.rs`), and single malformed requests
//! (`crates/server/tests/server/hostile.rs`).

mod attack;
mod connections;
mod good;
mod requests;
mod site;
mod tls;
mod trees;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::server::Program;
use attack::{ATTACKS, Attack, AttackState};
use good::{GoodClients, Times};
use site::Site;

/// Slow requests of good clients may take this many times as long during an attack, or `Attack::p99_free` if that is
/// more.
const RATIO_MAX: u32 = 10;
/// Turns without the attack and with it.
const TURNS: usize = 2;
/// Time before the measurement starts.
const WARM_UP: Duration = Duration::from_millis(200);

/// What to run.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask hostile                                  all attacks, 3 s for each of four turns
  cargo xtask hostile --seconds 0.5                    what `cargo xtask test` runs
  cargo xtask hostile --attack acls --attack garbage   only these
  HERDSMAN=target/debug/herdsman cargo xtask hostile   against another build of the server")]
pub struct Options {
    /// Run only this attack (may be given several times).
    #[arg(long = "attack", value_name = "NAME")]
    attacks: Vec<String>,
    /// How long good clients are measured in each turn; there are two turns with the attack and two turns without it.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Show the attacks, and run nothing.
    #[arg(long)]
    list: bool,
}

fn seconds(text: &str) -> Result<f64> {
    let seconds: f64 = text.parse()?;
    ensure!((0.1..=600.0).contains(&seconds), "between 0.1 and 600 seconds");
    Ok(seconds)
}

/// Runs the chosen attacks; fails if one of them succeeded.
pub fn run(options: &Options) -> Result<()> {
    let chosen = chosen(&options.attacks)?;
    if options.list {
        for attack in chosen {
            println!("{:14} {}", attack.name, attack.about);
        }
        return Ok(());
    }
    Program::Herdsman.ensure_here()?;
    let turn = Duration::from_secs_f64(options.seconds);
    let mut failed = Vec::new();
    print_row([
        "attack",
        "sent",
        "p99 without",
        "p99 with",
        "ratio",
        "requests",
        "errors",
        "peak",
        "result",
    ]);
    for attack in chosen {
        let result = withstand(attack, turn).with_context(|| format!("during {}", attack.name));
        let found = match result {
            Ok(found) => found,
            Err(error) => {
                println!("{:14} FAILED: {error:#}", attack.name);
                failed.push(attack.name);
                continue;
            }
        };
        let faults = found.faults(attack);
        print_found(attack, &found, &faults);
        if !faults.is_empty() {
            failed.push(attack.name);
        }
    }
    ensure!(failed.is_empty(), "these attacks succeeded: {}", failed.join(", "));
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Attack>> {
    for name in names {
        let is_known = ATTACKS.iter().any(|attack| attack.name == name);
        ensure!(is_known, "no attack is called `{name}`; `cargo xtask hostile --list` shows them");
    }
    let is_wanted = |attack: &&Attack| names.is_empty() || names.iter().any(|n| n == attack.name);
    Ok(ATTACKS.iter().filter(is_wanted).collect())
}

/// The effect of an attack on good clients and the server.
struct Found {
    sent: u64,
    without: Times,
    with: Times,
    peak_bytes: u64,
}

impl Found {
    /// The conditions that do not hold.
    fn faults(&self, attack: &Attack) -> Vec<String> {
        let mut faults = Vec::new();
        faults.extend(self.without.errors.iter().map(|error| format!("without attack: {error}")));
        faults.extend(self.with.errors.iter().map(|error| format!("a good client: {error}")));
        let p99_max = (self.without.p99() * RATIO_MAX).max(attack.p99_free);
        if self.with.p99() > p99_max {
            faults.push(format!("p99 above {} ms", p99_max.as_millis()));
        }
        let peak_mib = self.peak_bytes >> 20;
        if peak_mib > attack.memory_mib_max {
            faults.push(format!("{peak_mib} MiB of memory, {} allowed", attack.memory_mib_max));
        }
        if self.sent < attack.sent_min {
            faults.push(format!("the attack was too weak: {} of {}", self.sent, attack.sent_min));
        }
        if self.with.len() == 0 || self.without.len() == 0 {
            faults.push("good clients did nothing".to_owned());
        }
        faults
    }
}

/// Runs one attack on new servers.
fn withstand(attack: &Attack, turn: Duration) -> Result<Found> {
    let mut site = Site::start(attack)?;
    (attack.prepare)(&site).context("preparing the attack")?;
    let mut good = GoodClients::open(site.address())?;
    good.measure(WARM_UP);
    let before = site.levels()?;
    let mut found =
        Found { sent: 0, without: Times::default(), with: Times::default(), peak_bytes: 0 };
    for _ in 0..TURNS {
        found.without.add(good.measure(turn));
        let (with, sent) = measure_beside(attack, &site, &mut good, turn);
        found.with.add(with);
        found.sent += sent;
        site.ensure_alive()?;
        found.peak_bytes = site.peak_bytes()?;
        if !found.with.errors.is_empty() {
            return Ok(found);
        }
        site.await_levels(before, || good.keep_alive())?;
    }
    site.stop()?;
    Ok(found)
}

/// Measures good clients during the attack.
fn measure_beside(
    attack: &Attack,
    site: &Site,
    good: &mut GoodClients,
    turn: Duration,
) -> (Times, u64) {
    let attack_state = AttackState::default();
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| (attack.run)(site.target(), &attack_state));
        attack_state.await_begin();
        let times = good.measure(turn);
        attack_state.end();
        // Attackers expect errors; the amount sent shows whether they could attack at all.
        _ = attacker.join();
        (times, attack_state.sent())
    })
}

fn print_row(cells: [&str; 9]) {
    let [attack, sent, without, with, ratio, requests, errors, peak, result] = cells;
    println!(
        "{attack:14} {sent:>30} {without:>12} {with:>10} {ratio:>6} {requests:>9} {errors:>6} {peak:>8}  {result}"
    );
}

fn print_found(attack: &Attack, found: &Found, faults: &[String]) {
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let (without, with) = (found.without.p99(), found.with.p99());
    let ratio = with.as_secs_f64() / without.as_secs_f64().max(1e-6);
    let result = if faults.is_empty() {
        "ok".to_owned()
    } else {
        "FAILED: ".to_owned() + &faults.join("; ")
    };
    print_row([
        attack.name,
        &format!("{} {}", found.sent, attack.unit),
        &ms(without),
        &ms(with),
        &format!("{ratio:.1}"),
        &found.with.len().to_string(),
        &(found.with.errors.len() + found.without.errors.len()).to_string(),
        &format!("{} MiB", found.peak_bytes >> 20),
        &result,
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: u64, errors: &[&str]) -> Times {
        let errors = errors.iter().map(ToString::to_string).collect();
        Times { times: vec![Duration::from_millis(ms); 100], errors }
    }

    fn faults(without_ms: u64, with: Times, sent: u64, peak_mib: u64) -> Vec<String> {
        let attack = &ATTACKS[0];
        let sent = sent * attack.sent_min;
        let peak_bytes = peak_mib << 20;
        Found { sent, without: times(without_ms, &[]), with, peak_bytes }.faults(attack)
    }

    #[test]
    fn each_bound_can_be_exceeded() {
        assert_eq!(faults(5, times(200, &[]), 1, 10), [""; 0]);
        assert_eq!(faults(50, times(400, &[]), 1, 10), [""; 0]);
        assert_eq!(faults(5, times(300, &[]), 1, 10), ["p99 above 250 ms"]);
        assert_eq!(faults(50, times(600, &[]), 1, 10), ["p99 above 500 ms"]);
        assert_eq!(faults(5, times(5, &["closed"]), 1, 10), ["a good client: closed"]);
        assert!(faults(5, times(5, &[]), 1, 10_000)[0].contains("10000 MiB of memory"));
        assert!(faults(5, times(5, &[]), 0, 10)[0].contains("too weak"));
        let nothing = Times::default();
        assert_eq!(faults(5, nothing, 1, 10), ["good clients did nothing"]);
    }

    #[test]
    fn attacks_are_chosen_by_name() {
        let names: Vec<_> = ATTACKS.iter().map(|attack| attack.name.to_owned()).collect();
        assert_eq!(chosen(&names[1..2]).unwrap().len(), 1);
        assert_eq!(chosen(&[]).unwrap().len(), ATTACKS.len());
        assert!(chosen(&["nothing".to_owned()]).is_err());
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("0.5").is_ok());
    }
}
