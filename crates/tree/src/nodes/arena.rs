//! The slots of znodes, in blocks that never move, so that growth causes no long pause.

use super::NodeId;
use super::znode::Slot;

const BLOCK: usize = 4096;

/// The slots. Free ones are reused before new ones are added.
#[derive(Debug, Default)]
pub(super) struct Arena {
    blocks: Vec<Vec<Option<Slot>>>,
    free: Vec<NodeId>,
    count: usize,
}

impl Arena {
    /// The number of slots in use.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The znode in a slot, if it is in use.
    #[inline]
    pub(super) fn get(&self, id: NodeId) -> Option<&Slot> {
        self.blocks.get(id.0 as usize / BLOCK)?.get(id.0 as usize % BLOCK)?.as_ref()
    }

    /// The same, to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Slot> {
        self.blocks.get_mut(id.0 as usize / BLOCK)?.get_mut(id.0 as usize % BLOCK)?.as_mut()
    }

    /// The slot that [`Arena::put`] uses next.
    pub(super) fn next_id(&self) -> NodeId {
        let fresh = || {
            let id =
                self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len());
            NodeId(u32::try_from(id).expect("fewer than 2^32 znodes"))
        };
        self.free.last().copied().unwrap_or_else(fresh)
    }

    /// Puts a znode into a slot.
    pub(super) fn put(&mut self, slot: Slot) -> NodeId {
        let id = self.next_id();
        self.count += 1;
        if self.free.pop().is_some() {
            self.blocks[id.0 as usize / BLOCK][id.0 as usize % BLOCK] = Some(slot);
            return id;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks.last_mut().expect("a block was just ensured").push(Some(slot));
        id
    }

    /// Removes a znode from its slot.
    pub(super) fn take(&mut self, id: NodeId) -> Option<Slot> {
        let slot = self.blocks.get_mut(id.0 as usize / BLOCK)?.get_mut(id.0 as usize % BLOCK)?;
        let taken = slot.take()?;
        self.free.push(id);
        self.count -= 1;
        Some(taken)
    }
}
