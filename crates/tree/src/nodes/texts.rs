//! Names and data of all znodes, packed in rows of a few sizes.
//!
//! A general allocator would round each text up, and after values of other sizes were freed it
//! would keep the holes. Here the last row of a size moves to a row that becomes free, so there are no
//! holes, and memory that is not needed is freed. That is why each row begins with the id of its
//! znode: the znode whose row was moved must be updated.

use std::num::NonZeroU32;
use std::ops::Range;

use super::NodeId;

/// The number of a row among those of its size. Never 0, so that a free slot of the arena needs no
/// separate mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowId(NonZeroU32);

/// A row that was moved: the text of its znode has another row number now.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct MovedRow {
    pub owner: NodeId,
    pub to: RowId,
}

/// Bytes of a row before its text: the owner's id.
const OWNER: usize = size_of::<u32>();

/// Row sizes up to this one are multiples of 8. Larger ones have eight sizes up to the next power of 2,
/// so at most an eighth of them is wasted.
const FINE_MAX: usize = 256;
const FINE_STEP: usize = 8;
const STEPS_PER_DOUBLING: usize = 8;

/// Rows larger than this have a separate chunk. Only a very long name needs one: large data is
/// not stored here.
const ROW_BYTES_MAX: usize = 8192;
/// A chunk has as many rows as fit into this size, rounded to a power of 2.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

const FINE_SIZES: usize = FINE_MAX / FINE_STEP;
const SIZES: usize =
    FINE_SIZES + (ROW_BYTES_MAX / FINE_MAX).ilog2() as usize * STEPS_PER_DOUBLING + 1;

/// All texts.
#[derive(Debug)]
pub(super) struct Texts {
    sizes: Box<[Rows; SIZES]>,
}

impl Texts {
    pub(super) fn new() -> Self {
        Texts { sizes: Box::new(std::array::from_fn(Rows::new)) }
    }

    /// A part of the text of this length in a row. Called for each step of each path.
    #[inline(always)]
    pub(super) fn get(&self, place: RowId, bytes: usize, part: Range<usize>) -> &[u8] {
        let rows = &self.sizes[size_of_text(bytes)];
        let (chunk, start) = rows.position(place);
        &rows.chunks[chunk][start + OWNER + part.start..start + OWNER + part.end]
    }

    /// Adds a text of two parts.
    pub(super) fn insert(&mut self, owner: NodeId, name: &[u8], data: &[u8]) -> RowId {
        let bytes = name.len() + data.len();
        let row = self.sizes[size_of_text(bytes)].push(OWNER + bytes);
        let (head, text) = row.split_at_mut(OWNER);
        head.copy_from_slice(&owner.0.to_ne_bytes());
        text[..name.len()].copy_from_slice(name);
        text[name.len()..bytes].copy_from_slice(data);
        self.sizes[size_of_text(bytes)].last()
    }

    /// Removes the text of this length from a row.
    pub(super) fn remove(&mut self, place: RowId, bytes: usize) -> Option<MovedRow> {
        self.sizes[size_of_text(bytes)].remove(place)
    }

    /// Overwrites the end of a text, after its first `kept` bytes, if the new one fits into its row.
    pub(super) fn overwrite(
        &mut self,
        place: RowId,
        bytes: usize,
        kept: usize,
        end: &[u8],
    ) -> Result<(), DoesNotFit> {
        let size = size_of_text(bytes);
        let rows = &mut self.sizes[size];
        if size != size_of_text(kept + end.len()) || (rows.is_single() && bytes != kept + end.len())
        {
            return Err(DoesNotFit);
        }
        let (chunk, start) = rows.position(place);
        let start = start + OWNER + kept;
        rows.chunks[chunk][start..start + end.len()].copy_from_slice(end);
        Ok(())
    }
}

/// A text needs a row of another size.
#[derive(Debug)]
pub(super) struct DoesNotFit;

/// Rows of one size.
#[derive(Debug)]
struct Rows {
    /// 0 if each row has a chunk of its own, as large as it needs.
    row_bytes: u32,
    /// Rows of a chunk, as a power of 2.
    rows_log2: u32,
    len: u32,
    chunks: Vec<Box<[u8]>>,
}

impl Rows {
    fn new(size: usize) -> Self {
        let row_bytes = row_bytes(size);
        let rows_log2 = CHUNK_BYTES_MAX.checked_div(row_bytes).map_or(0, usize::ilog2);
        Rows { row_bytes: row_bytes as u32, rows_log2, len: 0, chunks: Vec::new() }
    }

    fn is_single(&self) -> bool {
        self.row_bytes == 0
    }

    /// Which chunk, and where in it the row begins.
    #[inline]
    fn position(&self, place: RowId) -> (usize, usize) {
        let row = place.0.get() - 1;
        let in_chunk = row & ((1 << self.rows_log2) - 1);
        ((row >> self.rows_log2) as usize, in_chunk as usize * self.row_bytes as usize)
    }

    fn last(&self) -> RowId {
        RowId(NonZeroU32::new(self.len).expect("there is a row"))
    }

    /// Adds a row. Returns everything from its beginning on.
    fn push(&mut self, needed: usize) -> &mut [u8] {
        self.len = self.len.checked_add(1).expect("fewer than 2^32 znodes");
        let (chunk, start) = self.position(self.last());
        if chunk == self.chunks.len() {
            let bytes = (self.row_bytes as usize) << self.rows_log2;
            self.chunks.push(vec![0; bytes.max(needed)].into_boxed_slice());
        }
        &mut self.chunks[chunk][start..]
    }

    /// Removes a row and moves the last one there.
    fn remove(&mut self, place: RowId) -> Option<MovedRow> {
        let last = self.last();
        let ((to, to_start), (from, from_start)) = (self.position(place), self.position(last));
        self.len -= 1;
        if self.is_single() {
            self.chunks.swap_remove(to);
        } else {
            let row = from_start..from_start + self.row_bytes as usize;
            match self.chunks.get_disjoint_mut([to, from]) {
                Ok([to, from]) => to[to_start..][..row.len()].copy_from_slice(&from[row]),
                Err(_) => self.chunks[to].copy_within(row, to_start),
            }
            // A chunk that becomes empty stays, so that a size that grows and shrinks by one row does not reallocate.
            self.chunks.truncate(from + 1);
        }
        (place != last).then(|| MovedRow { owner: self.owner(to, to_start), to: place })
    }

    fn owner(&self, chunk: usize, start: usize) -> NodeId {
        let head = self.chunks[chunk][start..].first_chunk().expect("a row begins with its owner");
        NodeId(u32::from_ne_bytes(*head))
    }
}

/// The size of the rows for texts of this length.
#[inline]
fn size_of_text(bytes: usize) -> usize {
    let needed = bytes + OWNER;
    if needed <= FINE_MAX {
        return needed.div_ceil(FINE_STEP) - 1;
    }
    if needed > ROW_BYTES_MAX {
        return SIZES - 1;
    }
    let doubling = (needed - 1).ilog2() - FINE_MAX.ilog2();
    let step = (FINE_MAX / STEPS_PER_DOUBLING) << doubling;
    let steps = (needed - (FINE_MAX << doubling)).div_ceil(step);
    FINE_SIZES + doubling as usize * STEPS_PER_DOUBLING + steps - 1
}

/// Bytes of a row of this size; 0 if each row has its own length.
fn row_bytes(size: usize) -> usize {
    if size < FINE_SIZES {
        return (size + 1) * FINE_STEP;
    }
    if size == SIZES - 1 {
        return 0;
    }
    let (doubling, steps) =
        ((size - FINE_SIZES) / STEPS_PER_DOUBLING, (size - FINE_SIZES) % STEPS_PER_DOUBLING + 1);
    (FINE_MAX << doubling) + ((FINE_MAX / STEPS_PER_DOUBLING) << doubling) * steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_fits_into_its_row_and_wastes_little() {
        for bytes in 0..=ROW_BYTES_MAX - OWNER {
            let row = row_bytes(size_of_text(bytes));
            let needed = bytes + OWNER;
            let waste_max = if needed <= FINE_MAX { FINE_STEP - 1 } else { needed / 8 };
            assert!((needed..=needed + waste_max).contains(&row), "{bytes} in {row}");
        }
        assert_eq!(row_bytes(size_of_text(ROW_BYTES_MAX)), 0);
    }

    #[test]
    fn the_last_row_moves_to_a_free_one() {
        let mut texts = Texts::new();
        let name = |number: u32| format!("a name of some length, {number:08}").into_bytes();
        let places: Vec<_> =
            (0..5000).map(|number| texts.insert(NodeId(number), &name(number), b"x")).collect();
        let text = [name(7), b"x".to_vec()].concat();
        assert_eq!(texts.get(places[7], text.len(), 0..text.len()), text);
        let moved = texts.remove(places[7], text.len());
        assert_eq!(moved, Some(MovedRow { owner: NodeId(4999), to: places[7] }));
        assert_eq!(
            texts.get(places[7], text.len(), 0..text.len()),
            [name(4999), b"x".to_vec()].concat()
        );
        for number in (8..4999).rev() {
            assert_eq!(texts.remove(places[number], text.len()), None, "the last row is removed");
        }
        let rows = &texts.sizes[size_of_text(text.len())];
        assert_eq!((rows.len, rows.chunks.len()), (8, 1));
    }

    #[test]
    fn very_long_texts_have_separate_chunks() {
        let mut texts = Texts::new();
        let long = |byte, bytes| vec![byte; bytes];
        let (a, b) = (long(1, 10_000), long(2, 1_000_000));
        let place_a = texts.insert(NodeId(1), &a, &[]);
        let place_b = texts.insert(NodeId(2), &b, &[]);
        assert!(texts.overwrite(place_a, a.len(), a.len(), b"longer").is_err());
        assert!(texts.overwrite(place_a, a.len(), 9_999, &[3]).is_ok());
        assert_eq!(texts.get(place_a, a.len(), 0..a.len())[9_999], 3);
        let moved = texts.remove(place_a, a.len());
        assert_eq!(moved, Some(MovedRow { owner: NodeId(2), to: place_a }));
        assert_eq!(texts.get(place_a, b.len(), 0..b.len()), b);
        let _ = place_b;
    }
}
