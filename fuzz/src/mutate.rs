//! Deterministic mutations of seeds, for replays without a fuzzer.

/// SplitMix64: the same mutations on every machine.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

/// Numbers that often break decoders.
const EDGES: [u32; 10] =
    [0, 1, 2, 0x7f, 0x80, 0xffff, 0x000f_ffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

impl Mutator {
    /// A mutator for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Mutator(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// A changed copy of one of the seeds, which are not empty.
    pub fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let other = self.below(seeds.len());
            self.change(&mut bytes, &seeds[other]);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.bits() as u8),
            2 if at < bytes.len() => _ = bytes.remove(at),
            3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            4 if at < bytes.len() => bytes[at] = self.bits() as u8,
            5 => {
                let edge = EDGES[self.below(EDGES.len())].to_be_bytes();
                let end = (at + 4).min(bytes.len());
                bytes.splice(at..end, edge);
            }
            6 => {
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let end = (at + self.below(32)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}
