//! Attacks that need only a connection: floods, silent connections, garbage.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::attack::AttackState;
use super::site::Target;
use crate::wire::{EPHEMERAL, Op, SEQUENTIAL, Session, Ticket};

const THREADS: usize = 4;
/// Connections open at the same time, over all threads.
const CROWD: usize = 800;
/// Time limit of an attacker's operations.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Abandoned sessions expire during the attack and soon after it.
const SHORT_TIMEOUT_MS: i32 = 1_000;
/// Sessions of the flood last as long as the longest attack in CI.
const LONG_TIMEOUT_MS: i32 = 10_000;
/// Leaves some of the machine to the others.
const PAUSE: Duration = Duration::from_millis(1);

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address.parse()?, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Keeps many connections open: each one that the server closes is replaced.
fn keep_crowd<T: Send>(
    attack_state: &AttackState,
    open: impl Fn(usize) -> Result<T> + Sync,
    is_open: impl Fn(&mut T) -> bool + Sync,
    leave: impl Fn(T) + Sync,
) {
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut crowd: Vec<T> = Vec::new();
                let mut number = 0;
                while !attack_state.is_over() {
                    crowd.retain_mut(&is_open);
                    while crowd.len() < CROWD / THREADS && !attack_state.is_over() {
                        number += 1;
                        attack_state.note(1);
                        crowd.extend(open(number).ok());
                        std::thread::sleep(PAUSE);
                    }
                    std::thread::sleep(10 * PAUSE);
                }
                crowd.into_iter().for_each(&leave);
            });
        }
    });
}

/// Opens connections with sessions, more than the server has descriptors for.
pub fn flood(target: &Target, attack_state: &AttackState) {
    let open = |_| {
        let ticket = Ticket::new(LONG_TIMEOUT_MS);
        Session::open(&target.address, &ticket, TIMEOUT)?.context("no session")
    };
    // Their sessions would stay open for long.
    let leave = |mut session: Session| _ = session.send(&Op::CloseSession);
    keep_crowd(attack_state, open, |session| session.is_connected(), leave);
}

/// Connections that send the start of something and then nothing.
pub fn stay_half_open(target: &Target, attack_state: &AttackState) {
    let open = |number: usize| {
        let mut stream = connect(&target.address)?;
        stream.set_nonblocking(false)?;
        match number % 4 {
            0 => {}
            1 => stream.write_all(&[0, 0])?,
            // An incomplete connect request.
            2 => stream.write_all(&[&44_i32.to_be_bytes()[..], &[0; 20]].concat())?,
            // The longest first frame that is allowed, without its last byte.
            _ => stream.write_all(&[&4096_i32.to_be_bytes()[..], &[0; 4095]].concat())?,
        }
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    let is_open = |stream: &mut TcpStream| match stream.read(&mut [0; 64]) {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    keep_crowd(attack_state, open, is_open, drop);
}

/// Bytes that no client would send.
fn nonsense(number: usize) -> Vec<u8> {
    let noise = |bytes: usize| -> Vec<u8> {
        let mix = |i: usize| ((i + number).wrapping_mul(2_654_435_761) >> 11) as u8;
        (0..bytes).map(mix).collect()
    };
    match number % 6 {
        0 => noise(2000),
        1 => [&i32::MAX.to_be_bytes()[..], &noise(100)].concat(),
        2 => (-1_i32).to_be_bytes().to_vec(),
        3 => b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
        4 => [&44_i32.to_be_bytes()[..], &noise(44)].concat(),
        _ => vec![0; 4],
    }
}

/// Sends garbage on new connections, and in sessions.
pub fn send_garbage(target: &Target, attack_state: &AttackState) {
    let numbers = std::sync::atomic::AtomicUsize::new(0);
    attack_state.repeat(THREADS, |thread| {
        let number = numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        attack_state.note(1);
        std::thread::sleep(PAUSE);
        let bytes = nonsense(number);
        if thread % 2 == 0 {
            let mut stream = connect(&target.address)?;
            stream.write_all(&bytes)?;
            return Ok(_ = stream.read(&mut [0; 4096])?);
        }
        let ticket = Ticket::new(SHORT_TIMEOUT_MS);
        let Some(mut session) = Session::open(&target.address, &ticket, TIMEOUT)? else {
            return Ok(());
        };
        session.send_raw(&bytes)?;
        session.close()
    });
}

/// Sends four-letter words, and more data after them.
pub fn ask_without_end(target: &Target, attack_state: &AttackState) {
    let more = vec![b'm'; 4 << 20];
    let words = ["mntr", "cons", "dump", "wchp", "stat", "srvr"];
    attack_state.repeat(2 * THREADS, |thread| {
        attack_state.note(1);
        let mut stream = connect(&target.address)?;
        let word = words[(attack_state.sent() % words.len() as u64) as usize];
        stream.write_all(word.as_bytes())?;
        if thread > 0 {
            // In large chunks, so that this costs less here than at the server.
            let deadline = Instant::now() + 2 * TIMEOUT;
            while Instant::now() < deadline && !attack_state.is_over() {
                stream.write_all(&more)?;
            }
            return Ok(());
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        std::thread::sleep(PAUSE);
        Ok(())
    });
}

/// Opens sessions and abandons them.
pub fn open_sessions(target: &Target, attack_state: &AttackState) {
    attack_state.repeat(THREADS, |_| {
        let ticket = Ticket::new(SHORT_TIMEOUT_MS);
        let Some(mut session) = Session::open(&target.address, &ticket, TIMEOUT)? else {
            return Ok(());
        };
        session.ok(&Op::create("/left-", None, EPHEMERAL | SEQUENTIAL))?;
        attack_state.note(1);
        Ok(())
    });
}
