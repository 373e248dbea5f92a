//! From the tree to directories, a guard at a time.

use herdsman_proto::{ErrorCode, Id, SessionId, path};
use herdsman_recipes::lock::Contender;
use herdsman_server::ServerHandle;
use herdsman_tree::{StepLimit, TreeWalk, VisitedZnode, WalkAction};

use super::assemble::{Lines, Peers, assemble};
use super::classify::{Finding, classify};
use super::deadlocks;
use super::model::Recipes;
use super::node::{Child, Directory};

/// Znodes that are looked at, at most.
const SCANNED_MAX: usize = 200_000;
/// Znodes that are looked at under one guard.
const PER_GUARD: StepLimit = StepLimit { znodes: 256, bytes: 1 << 20 };

/// All recipes at a path and below it, as these ids may see them. Takes a while: not for a thread that
/// others wait for.
///
/// # Errors
/// There is no such path, or it may not be read.
pub fn look(server: &ServerHandle, ids: &[Id], top: &str) -> Result<Recipes, ErrorCode> {
    let core = server.core();
    let (mut walk, generation) = {
        let tree = core.tree();
        let sight = tree.visible_to(ids);
        sight.znode(top)?;
        (TreeWalk::start(sight, top)?, core.tree_generation())
    };
    let mut gathering = Gathering::default();
    let mut is_complete = false;
    while gathering.scanned < SCANNED_MAX && !server.is_stopping() {
        walk.settle();
        let tree = core.tree();
        // Another tree has taken the place of this one, and places mean something else in it. What was
        // seen so far was there.
        if core.tree_generation() != generation {
            break;
        }
        let more = walk.step(tree.visible_to(ids), PER_GUARD, &mut |visit| gathering.visit(visit));
        drop(tree);
        gathering.classify_closed();
        if !more {
            is_complete = true;
            break;
        }
    }
    let scanned = gathering.scanned;
    let (mut recipes, lines) = assemble(gathering.finish(), &peers(server));
    recipes.deadlocks = deadlocks::find(&lines, |again| keep_present(server, ids, again));
    recipes.scanned = scanned;
    recipes.truncated |= !is_complete;
    Ok(recipes)
}

/// Where the clients of this server's sessions come from.
fn peers(server: &ServerHandle) -> Peers {
    let clients = server.core().clients.all().into_iter();
    let with_session = clients.map(|client| (client.stats.lock().session, client.peer));
    with_session.filter(|(session, _)| *session != SessionId::NONE).collect()
}

/// Takes out whoever is not there any more, all at one moment.
fn keep_present(server: &ServerHandle, ids: &[Id], lines: &mut Lines) {
    let tree = server.core().tree();
    let sight = tree.visible_to(ids);
    for (path, line) in lines {
        line.retain(|Contender { name, token, .. }| {
            let znode = sight.znode(&format!("{}/{name}", path.trim_end_matches('/')));
            znode.is_ok_and(|znode| u64::try_from(znode.stat().czxid.0) == Ok(*token))
        });
    }
}

/// The directories on the way of a walk. A walk goes down before it goes on, so the children of a
/// directory come with all that is below them in between.
#[derive(Default)]
struct Gathering {
    /// Directories whose children are still coming, each below the one before it.
    open: Vec<Directory>,
    /// Directories whose children have all come.
    closed: Vec<Directory>,
    found: Vec<Finding>,
    scanned: usize,
}

impl Gathering {
    fn visit(&mut self, visit: VisitedZnode<'_>) -> WalkAction {
        self.scanned += 1;
        let Some(znode) = visit.znode.filter(|_| visit.path != path::ZOOKEEPER) else {
            return WalkAction::SkipSubtree;
        };
        let parent = path::split(visit.path).map_or("", |(parent, _)| parent);
        let parent = if parent.is_empty() { path::ROOT } else { parent };
        while let Some(done) = self.open.pop_if(|directory| directory.path != parent) {
            self.close(done);
        }
        if let Some(directory) = self.open.last_mut().filter(|_| visit.path != path::ROOT) {
            directory.children.push(Child::read(znode));
        }
        if znode.stat().num_children > 0 {
            self.open.push(Directory::read(visit.path, znode));
        }
        WalkAction::Descend
    }

    fn close(&mut self, directory: Directory) {
        if !directory.children.is_empty() {
            self.closed.push(directory);
        }
    }

    /// Not under a guard.
    fn classify_closed(&mut self) {
        self.found.extend(self.closed.drain(..).flat_map(classify));
    }

    fn finish(mut self) -> Vec<Finding> {
        while let Some(directory) = self.open.pop() {
            self.close(directory);
        }
        self.classify_closed();
        self.found
    }
}
