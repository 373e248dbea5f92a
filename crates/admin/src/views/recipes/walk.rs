//! Reads directories from the tree, in steps.

use herdsman_proto::{ErrorCode, Id, SessionId, path};
use herdsman_recipes::lock::Contender;
use herdsman_server::ServerHandle;
use herdsman_tree::{StepLimit, TreeWalk, VisitedZnode, WalkAction};

use super::assemble::{Lines, Peers, assemble};
use super::classify::{Finding, classify};
use super::deadlocks;
use super::model::Recipes;
use super::node::{Child, Directory};

/// Most znodes that are scanned.
const SCANNED_MAX: usize = 200_000;
/// The size of a step.
const PER_GUARD: StepLimit = StepLimit { znodes: 256, bytes: 1 << 20 };

/// All recipes at a path and below it that these ids may see. Takes a while: must not run on a thread that
/// other requests need.
///
/// # Errors
/// Fails if the path does not exist, or may not be read.
pub fn read_recipes(server: &ServerHandle, ids: &[Id], top: &str) -> Result<Recipes, ErrorCode> {
    let core = server.core();
    let (mut walk, generation) = {
        let tree = core.tree();
        let visible = tree.visible_to(ids);
        visible.znode(top)?;
        (TreeWalk::start(visible, top)?, core.tree_generation())
    };
    let mut gathering = DirectoryCollector::default();
    let mut is_complete = false;
    while gathering.scanned < SCANNED_MAX && !server.is_stopping() {
        walk.settle();
        let tree = core.tree();
        // The tree was replaced, and positions are no longer valid. What was
        // found so far did exist.
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

/// The addresses of the clients of this server's sessions.
fn peers(server: &ServerHandle) -> Peers {
    let clients = server.core().clients.all().into_iter();
    let with_session = clients.map(|client| (client.stats.lock().session, client.peer));
    with_session.filter(|(session, _)| *session != SessionId::NONE).collect()
}

/// Removes contenders that no longer exist, in steps. Those that are left existed when the walk had ended, all at that
/// moment: a token names one znode only, so it existed all the time since it was found.
fn keep_present(server: &ServerHandle, ids: &[Id], lines: &mut Lines) {
    let is_present = |path: &str, Contender { name, token, .. }: &Contender| {
        let path = format!("{}/{name}", path.trim_end_matches('/'));
        let tree = server.core().tree();
        let znode = tree.visible_to(ids).znode(&path);
        znode.is_ok_and(|znode| u64::try_from(znode.stat().czxid.0) == Ok(*token))
    };
    for (path, line) in lines {
        line.retain(|contender| is_present(path, contender));
    }
}

/// Collects directories during a walk. A walk is depth-first, so the children of a
/// directory arrive with everything below them in between.
#[derive(Default)]
struct DirectoryCollector {
    /// Directories with children still to come, each below the one before it.
    open: Vec<Directory>,
    /// Directories whose children have all arrived.
    closed: Vec<Directory>,
    found: Vec<Finding>,
    scanned: usize,
}

impl DirectoryCollector {
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

    /// Classifies complete directories. Must not run while the tree is locked.
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
