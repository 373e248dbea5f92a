//! Watches: some clients change nodes, others watch them, over many connections.
//!
//! A client gets the event of a change before any reply that shows the change; each event belongs to a
//! watch and a change; and after a reconnect with setWatches no change is missed. Two
//! clients set one-shot watches (data, exists, children), a third a persistent recursive one,
//! which reports each change once, in order, while the connection lasts.

mod check;

pub use check::check;

use super::Worker;
use super::client::Client;
use crate::wire::Op;

const NODES: usize = 4;
const WRITERS: usize = 2;
const ONE_SHOT: usize = 2;

struct Writer(Vec<String>);

struct OneShot {
    root: String,
    nodes: Vec<String>,
}

struct Recursive {
    root: String,
    nodes: Vec<String>,
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let nodes: Vec<_> = (0..NODES).map(|number| format!("{root}/n{number}")).collect();
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for _ in 0..WRITERS {
        workers.push(Box::new(Writer(nodes.clone())));
    }
    for _ in 0..ONE_SHOT {
        workers.push(Box::new(OneShot { root: root.into(), nodes: nodes.clone() }));
    }
    workers.push(Box::new(Recursive { root: root.into(), nodes }));
    workers
}

impl Worker for Writer {
    fn step(&mut self, client: &mut Client) {
        let path = client.rng.pick(&self.0).clone();
        let value = client.unique();
        let op = match client.rng.below(4) {
            0 => Op::create(&path, Some(value.as_bytes()), 0),
            1 => Op::delete(&path, -1),
            _ => Op::set_data(&path, Some(value.as_bytes()), -1),
        };
        client.call(op);
    }
}

impl Worker for OneShot {
    fn step(&mut self, client: &mut Client) {
        let path = client.rng.pick(&self.nodes).clone();
        let op = match client.rng.below(5) {
            0 => Op::list(&self.root).watched(),
            1 => Op::exists(&path).watched(),
            2 | 3 => Op::get_data(&path).watched(),
            _ => Op::get_data(&path),
        };
        client.call(op);
    }
}

impl Worker for Recursive {
    fn step(&mut self, client: &mut Client) {
        if client.watches().recursive.is_empty() {
            client.call(Op::AddWatch { path: self.root.clone() });
        }
        let path = client.rng.pick(&self.nodes).clone();
        client.calls(vec![Op::get_data(&path), Op::list(&self.root)]);
    }
}
