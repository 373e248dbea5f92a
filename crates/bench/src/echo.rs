//! The echo server: a server that implements the framing of the client protocol and does nothing else.
//!
//! In: connections of any ZooKeeper client. Out: for each request a reply as long as a real server's, made of
//! valid records. There is no tree, no session table, no log, no watch and no timeout: its throughput is that of
//! a server whose own work costs nothing, and so it is "the limit" in reports.
//!
//! It must be fast, because a slow limit would make every server look good: one `epoll` per thread,
//! edge-triggered; one read and one write for all that a connection has sent; replies copied from templates; no
//! allocation for a request, and nothing passed between threads after a connection was accepted.
//!
//! It runs as a separate process, like a real server, and ends when its standard input ends, so also when its
//! parent process dies.

mod acceptor;
mod connection;
mod replies;
mod worker;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mio::Waker;

use acceptor::Acceptor;
use replies::Replies;
use worker::{Worker, WorkerHandle};

pub use replies::{VALUE_BYTE, child_name};

/// The largest reply: ten times the default limit of servers.
const REPLY_BYTES_MAX: usize = 10 << 20;
/// More threads than this are a mistake.
const THREADS_MAX: usize = 1024;

/// The replies of the echo server, and its number of threads.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct EchoArgs {
    /// Port on 127.0.0.1; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Bytes of the value in the reply to a getData
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Names in the reply to a getChildren
    #[arg(long, default_value_t = 10)]
    pub children: usize,
    /// Number of threads; by default the number of cores
    #[arg(long, default_value_t = cores(), hide_default_value = true)]
    pub threads: usize,
}

impl Default for EchoArgs {
    fn default() -> Self {
        EchoArgs { port: 0, value_bytes: 100, children: 10, threads: cores() }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Serves until standard input ends. The first line on standard output is `port N`.
pub fn run_echo(args: &EchoArgs) -> Result<()> {
    serve_until_eof(args, io::stdin(), &mut io::stdout())
}

fn serve_until_eof(
    args: &EchoArgs,
    input: impl Read + Send + 'static,
    output: &mut impl Write,
) -> Result<()> {
    let server = EchoServer::bind(args)?;
    writeln!(output, "port {}", server.address().port())
        .and_then(|()| output.flush())
        .context("cannot print the port of the echo server")?;
    let stop = server.stop_handle();
    // Not joined: if accepting fails, the end of the input does not matter.
    thread::spawn(move || {
        wait_for_eof(input);
        stop.stop();
    });
    server.run()
}

fn wait_for_eof(mut input: impl Read) {
    let mut ignored = [0; 256];
    loop {
        match input.read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// A bound server that is not running yet: call [`EchoServer::run`].
pub struct EchoServer {
    address: SocketAddr,
    acceptor: Acceptor,
    workers: Vec<Worker>,
    stop: StopHandle,
}

/// Stops a server from another thread.
#[derive(Clone)]
pub struct StopHandle {
    stopped: Arc<AtomicBool>,
    wakers: Arc<[Waker]>,
}

impl StopHandle {
    /// Closes all connections and lets [`EchoServer::run`] return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        for waker in &*self.wakers {
            // Fails only if the thread has already left its loop.
            let _ = waker.wake();
        }
    }
}

impl EchoServer {
    /// Binds the port; connections wait in the backlog until the server runs.
    pub fn bind(args: &EchoArgs) -> Result<Self> {
        ensure!(
            (1..=THREADS_MAX).contains(&args.threads),
            "--threads must be from 1 to {THREADS_MAX}, not {}",
            args.threads
        );
        let replies = Arc::new(Replies::new(args.value_bytes, args.children)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let workers = (0..args.threads)
            .map(|_| Worker::new(Arc::clone(&replies), Arc::clone(&stopped)))
            .collect::<io::Result<Vec<Worker>>>()
            .context("cannot create a poll")?;
        let handles: Vec<WorkerHandle> =
            workers.iter().map(Worker::handle).collect::<io::Result<_>>()?;
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let acceptor = Acceptor::bind(wanted, handles, Arc::clone(&stopped))
            .with_context(|| format!("cannot listen on {wanted}; --port 0 selects a free port"))?;
        let mut wakers = vec![acceptor.waker()?];
        for worker in &workers {
            wakers.push(worker.waker()?);
        }
        let address = acceptor.address()?;
        let stop = StopHandle { stopped, wakers: wakers.into() };
        Ok(EchoServer { address, acceptor, workers, stop })
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves until it is stopped, on this thread (which accepts) and one more for each worker.
    pub fn run(self) -> Result<()> {
        let EchoServer { mut acceptor, workers, stop, .. } = self;
        thread::scope(|scope| {
            let running: Vec<_> = workers
                .into_iter()
                .map(|mut worker| {
                    let stop = stop.clone();
                    scope.spawn(move || {
                        let result = worker.run().context("cannot wait for requests");
                        stop.stop();
                        result
                    })
                })
                .collect();
            let accepted = acceptor.run().context(
                "cannot accept connections; is the limit of open files (ulimit -n) high enough?",
            );
            stop.stop();
            for worker in running {
                worker.join().expect("a worker does not panic")?;
            }
            accepted
        })
    }
}

#[cfg(test)]
mod tests;
