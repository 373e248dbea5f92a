//! Deletes what a run has created: lists parents and deletes leaves as fast as the server accepts requests.
//!
//! Leaves are recognized by their level, so that millions of them are deleted without listing their children. The
//! znodes above them are deleted afterwards, from the bottom up.

use std::collections::VecDeque;

use anyhow::Result;
use herdsman_proto::{ErrorCode, JuteReader, ReadRequest, Request};

use crate::load::{Checked, Load, Outcome, Reply, RequestTag};
use crate::names::LEAF_LEVEL;
use crate::progress::Progress;
use crate::script::{Script, run_to_end};
use crate::stop::Stop;
use crate::target::Target;
use crate::template::append_frame;
use crate::workload::delete::delete_request;

/// What to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The leaves; their parents are kept for the next round.
    Leaves,
    /// Everything, including the top.
    All,
}

/// Deletes below `tops`, which are `level` levels below the root.
pub(crate) fn sweep(
    target: &Target,
    tops: Vec<String>,
    level: usize,
    extent: Extent,
    progress: Progress,
) -> Result<()> {
    let what = format!("deleting znodes of {}", target.name());
    if extent == Extent::All {
        progress.announce(&what);
    }
    let meter = progress.counting(&what, 0);
    // Cleaning up is not stopped by the first Ctrl-C; a second one ends the process.
    let stop = Stop::never();
    let done = run_to_end(target, Sweep::new(tops, level), &meter, &stop)?;
    if extent == Extent::Leaves {
        return Ok(());
    }
    for paths in done.inner.into_iter().rev() {
        run_to_end(target, deletes(paths), &meter, &stop)?;
    }
    Ok(())
}

fn deletes(paths: Vec<String>) -> impl Load + Send {
    Script::new(paths, ErrorCode::NoNode, delete_request)
}

enum Job {
    List { path: String, level: usize },
    Delete { path: String },
}

struct Sweep {
    /// Taken from the end: the leaves of one parent are deleted before the next parent is listed, so that the list
    /// stays short.
    jobs: Vec<Job>,
    /// The requests of each lane, in order.
    sent: Vec<VecDeque<Job>>,
    idle: Vec<usize>,
    /// The znodes above the leaves, by level.
    inner: [Vec<String>; LEAF_LEVEL],
}

impl Sweep {
    fn new(tops: Vec<String>, level: usize) -> Self {
        let jobs = tops.into_iter().map(|path| Job::List { path, level }).collect();
        Sweep { jobs, sent: Vec::new(), idle: Vec::new(), inner: Default::default() }
    }

    fn take_list(&mut self, path: String, level: usize, reply: &Reply<'_>) -> Checked<()> {
        if reply.error == ErrorCode::NoNode.code() {
            return Ok(());
        }
        reply.must_succeed().map_err(|wrong| wrong.during(format_args!("list {path}")))?;
        let names = JuteReader::new(reply.body).vector(JuteReader::required_string)?;
        for name in names {
            let path = format!("{}/{name}", path.trim_end_matches('/'));
            let level = level + 1;
            self.jobs.push(match level < LEAF_LEVEL {
                true => Job::List { path, level },
                false => Job::Delete { path },
            });
        }
        self.inner[level].push(path);
        Ok(())
    }
}

impl Load for Sweep {
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag> {
        let Some(job) = self.jobs.pop() else {
            self.idle.push(lane);
            return None;
        };
        match &job {
            Job::List { path, .. } => {
                let (path, watch) = (path.as_str().into(), false);
                let list = ReadRequest::GetChildren { path, watch, with_stat: false };
                append_frame(xid, &Request::Read(list), out);
            }
            Job::Delete { path } => append_frame(xid, &delete_request(path), out),
        }
        if self.sent.len() <= lane {
            self.sent.resize_with(lane + 1, VecDeque::new);
        }
        self.sent[lane].push_back(job);
        Some(RequestTag(0))
    }

    fn check_reply(
        &mut self,
        lane: usize,
        _ticket: RequestTag,
        reply: &Reply<'_>,
    ) -> Checked<Outcome> {
        match self.sent[lane].pop_front() {
            Some(Job::List { path, level }) => {
                self.take_list(path, level, reply)?;
                Ok(Outcome::Step)
            }
            Some(Job::Delete { path }) if reply.error != ErrorCode::NoNode.code() => {
                reply
                    .must_succeed()
                    .map_err(|wrong| wrong.during(format_args!("delete {path}")))?;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Step),
        }
    }

    fn next_woken(&mut self) -> Option<usize> {
        if self.jobs.is_empty() { None } else { self.idle.pop() }
    }
}
