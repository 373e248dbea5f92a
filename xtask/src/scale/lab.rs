//! Shared by the parts: directories, servers, the limit on descriptors, and a meter for a server's memory
//! and processor time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::sizes::Sizes;
use crate::bench::lab;
use crate::server::{Jvm, Program, Server, Spec};

/// Java's heap: several million znodes, or a hundred thousand connections.
pub const HEAP_MIB: u32 = 6000;
/// Longer than any part: sessions that stay open need no pings.
pub const STAYING_MS: i32 = 3_600_000;
/// Descriptors of this program besides its sessions.
const OTHER_FILES: usize = 200;
/// A server reserves a quarter of its descriptors, but not more than this.
const RESERVE_MAX: usize = 1024;
/// The maximum size of a znode with 100 bytes of data: in memory; in the log and a snapshot, with room for
/// a part of another snapshot.
const MEMORY_EACH: u64 = 300;
const DISK_EACH: u64 = 500;
/// The type of a file system in memory.
const TMPFS: i64 = 0x0102_1994;
/// Pause after a large operation, before memory is measured.
const SETTLE: Duration = Duration::from_secs(2);

/// Provides servers to the parts.
pub struct Lab {
    /// The sizes.
    pub sizes: Sizes,
    /// Clients that can be connected to one server at the same time.
    pub connections_max: usize,
    /// Larger sizes are skipped.
    pub largest: Option<usize>,
    work: PathBuf,
}

impl Lab {
    /// Creates an empty directory for data directories, and raises the limit on descriptors, which servers
    /// inherit.
    pub fn open(work: &Path, sizes: Sizes, largest: Option<usize>) -> Result<Lab> {
        let descriptors = raise_descriptors()?;
        let reserve = (descriptors / 4).min(RESERVE_MAX);
        let connections_max = descriptors.saturating_sub(reserve + OTHER_FILES);
        let lab = Lab { sizes, connections_max, largest, work: work.to_path_buf() };
        remove(work)?;
        fs::create_dir_all(work).with_context(|| format!("creating {}", work.display()))?;
        Ok(lab)
    }

    /// The directory with all data directories.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Creates an empty directory.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let dir = self.work.join(name);
        remove(&dir)?;
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }

    /// Starts a new server with an empty tree. Snapshots are taken only on request.
    pub fn start(&self, program: Program, name: &str) -> Result<Server> {
        self.spec(program, name)?.start()
    }

    /// The settings of [`Lab::start`].
    pub fn spec(&self, program: Program, name: &str) -> Result<Spec> {
        let spec = lab::spec(program, &self.fresh(name)?.join("data"));
        let mut spec = spec
            .property("zookeeper.snapCount", "1000000000")
            .property("zookeeper.snapSizeLimitInKb", "-1");
        spec.settings.push(format!("maxSessionTimeout={STAYING_MS}"));
        Ok(Spec { jvm: Jvm::Usual { heap_mib: HEAP_MIB }, ..spec })
    }

    /// Fails if the machine has less memory or disk space than servers with this many znodes in total need,
    /// including their logs and snapshots.
    pub fn ensure_room(&self, znodes: usize) -> Result<()> {
        let (memory, disk) = (znodes as u64 * MEMORY_EACH, znodes as u64 * DISK_EACH);
        let place = rustix::fs::statfs(&self.work)?;
        let memory = if place.f_type == TMPFS { memory + disk } else { memory };
        let free = place.f_bavail * u64::try_from(place.f_bsize)?;
        for (what, needed, spare) in [("memory", memory, available_memory()?), ("disk", disk, free)]
        {
            let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
            ensure!(
                spare >= needed,
                "{znodes} znodes in total need about {:.1} GiB of {what}, {:.1} GiB are available; --largest skips \
                 large sizes",
                gib(needed),
                gib(spare)
            );
        }
        Ok(())
    }

    /// The sizes up to the requested limit.
    pub fn wanted(&self, sizes: &[usize]) -> Vec<usize> {
        let largest = self.largest.unwrap_or(usize::MAX);
        sizes.iter().copied().filter(|size| *size <= largest).collect()
    }

    /// The requested sizes for which a server and this program have descriptors, with `beside` other
    /// connections; a size that does not fit is replaced by the largest that does.
    pub fn connectable(&self, sizes: &[usize], beside: usize) -> Vec<usize> {
        let most = self.connections_max.saturating_sub(beside);
        let wanted = self.wanted(sizes);
        let fitting = fitting(&wanted, most);
        if let Some(largest) = wanted.iter().find(|size| **size > most) {
            println!(
                "{largest} connections need {} descriptors in each of two processes; the hard limit is {}, so \
                 the largest size is {}; raise the limit (`ulimit -Hn`) for more",
                largest + beside + RESERVE_MAX + OTHER_FILES,
                self.connections_max + RESERVE_MAX + OTHER_FILES,
                fitting.last().copied().unwrap_or(0)
            );
        }
        fitting
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Gigabytes that are no longer needed; leftovers are removed by the next run.
        let _ = remove(&self.work);
    }
}

fn fitting(sizes: &[usize], most: usize) -> Vec<usize> {
    let rounded = most - most % 500;
    let mut fitting: Vec<usize> = sizes.iter().map(|size| (*size).min(rounded)).collect();
    fitting.dedup();
    fitting
}

fn raise_descriptors() -> Result<usize> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("raising the limit on open files")?;
    Ok(usize::try_from(maximum.unwrap_or(1 << 20))?)
}

fn available_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).context("no MemAvailable")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Waits until a server has settled after a large operation; returns its memory.
pub fn settled_bytes(server: &Server) -> Result<f64> {
    std::thread::sleep(SETTLE);
    Ok(server.resident_bytes()? as f64)
}

/// Measures processor time of a server, and elapsed time, since it was started.
pub struct Meter<'a> {
    server: &'a Server,
    cpu_s: f64,
    begun: Instant,
}

/// The result of a [`Meter`].
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// The server's processor time.
    pub cpu_s: f64,
    /// Elapsed time.
    pub wall_s: f64,
}

impl<'a> Meter<'a> {
    /// Starts to measure.
    pub fn start(server: &'a Server) -> Result<Meter<'a>> {
        Ok(Meter { server, cpu_s: server.cpu_seconds()?, begun: Instant::now() })
    }

    /// The amount used so far.
    pub fn read(&self) -> Result<Used> {
        let cpu_s = self.server.cpu_seconds()? - self.cpu_s;
        Ok(Used { cpu_s, wall_s: self.begun.elapsed().as_secs_f64() })
    }
}

impl Used {
    /// The server's processor time in microseconds for each of this many.
    pub fn cpu_us_each(&self, count: usize) -> f64 {
        self.cpu_s * 1e6 / count.max(1) as f64
    }

    /// The elapsed time in microseconds for each of this many.
    pub fn wall_us_each(&self, count: usize) -> f64 {
        self.wall_s * 1e6 / count.max(1) as f64
    }

    /// The same without the server's idle usage, measured in another interval.
    pub fn without(&self, usual: &Used) -> Used {
        let cpu_s = (self.cpu_s - usual.cpu_s * self.wall_s / usual.wall_s).max(0.0);
        Used { cpu_s, wall_s: self.wall_s }
    }
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_become_the_largest_that_does() {
        assert_eq!(fitting(&[10, 30_000, 100_000], 18_776), [10, 18_500]);
        assert_eq!(fitting(&[1000, 5000], 18_776), [1000, 5000]);
    }

    #[test]
    fn the_idle_usage_of_a_server_is_subtracted() {
        let usual = Used { cpu_s: 1.0, wall_s: 10.0 };
        let busy = Used { cpu_s: 5.0, wall_s: 20.0 };
        assert_eq!(busy.without(&usual).cpu_us_each(1_000_000), 3.0);
        assert_eq!(busy.wall_us_each(10), 2e6);
    }
}
