//! What a server sends to a learner in pieces: its tree, and parts of its log. Both go on changing meanwhile.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use herdsman_proto::{QuorumPacket, Zxid};
use herdsman_store::{LogRange, PrecedingTxn, WireSnapshot};
use herdsman_tree::Tree;
use herdsman_zab::{Input, LinkId};

use super::links::{End, Message};
use super::{Event, Mirror, ServerIndex, World};

/// A tree is sent in about this many pieces.
const TREE_PIECES: usize = 10;
/// Txns of the log in one piece.
const TXNS_PER_PIECE: u64 = 20;

/// Something that is being sent in pieces.
pub(super) struct Sending {
    source: Source,
    /// What waits behind it.
    pub(super) held: VecDeque<Message>,
}

enum Source {
    /// A tree, and what its sender had logged.
    Tree(WireSnapshot, Mirror),
    /// A part of the log. DIFF goes first if nothing was sent before.
    Log { after: Zxid, to: Zxid, diff: Option<Zxid>, range: Option<LogRange> },
}

/// What came of a piece.
enum Piece {
    More(Vec<Message>),
    Last(Vec<Message>, Input),
    /// It cannot be had any more.
    Broken,
}

impl World {
    pub(super) fn send_snapshot(
        &mut self,
        place: ServerIndex,
        link: LinkId,
        zxid: Zxid,
        tree: &Tree,
    ) {
        self.send_packet(place, link, &QuorumPacket::Snap { zxid });
        let mirror = self.servers[place].mirror.until(zxid);
        self.begin_sending(place, link, Source::Tree(WireSnapshot::start(tree), mirror));
    }

    pub(super) fn send_log(
        &mut self,
        place: ServerIndex,
        link: LinkId,
        (after, to): (Zxid, Zxid),
        diff: Option<Zxid>,
    ) {
        self.begin_sending(place, link, Source::Log { after, to, diff, range: None });
    }

    fn begin_sending(&mut self, place: ServerIndex, link: LinkId, source: Source) {
        if let Some(entry) = self.links.get_mut(&link) {
            assert_eq!(entry.ends[1].place, place, "a leader was called, it does not call");
            entry.sending = Some(Sending { source, held: VecDeque::new() });
            self.later(1, Event::SendPiece { link });
        }
    }

    /// The next piece.
    pub(super) fn send_piece(&mut self, link: LinkId) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let End { place, life, open, .. } = entry.ends[1];
        let lives = open && self.servers[place].life == life;
        let Some(mut sending) = entry.sending.take().filter(|_| lives) else { return };
        match self.next_piece(place, link, &mut sending.source) {
            Some(Piece::More(messages)) => {
                self.put_all(link, messages);
                let is_tree = matches!(sending.source, Source::Tree(..));
                if let Some(entry) = self.links.get_mut(&link) {
                    entry.sending = Some(sending);
                }
                let delay_ms =
                    if is_tree { self.random.between(1, self.plan.tree_piece_ms) } else { 1 };
                self.later(delay_ms, Event::SendPiece { link });
            }
            Some(Piece::Last(messages, input)) => {
                self.put_all(link, messages);
                self.put_all(link, sending.held);
                self.step_peer(place, input);
            }
            Some(Piece::Broken) => {
                self.note(|| format!("{place} cannot send its log on link {}", link.0));
                self.break_link(link);
            }
            None => {}
        }
    }

    fn put_all(&mut self, link: LinkId, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            self.put(link, 1, message);
        }
    }

    fn next_piece(
        &mut self,
        place: ServerIndex,
        link: LinkId,
        source: &mut Source,
    ) -> Option<Piece> {
        let tree = &self.servers[place].process.as_ref()?.tree;
        match source {
            Source::Tree(snapshot, mirror) => {
                let mut piece = Vec::new();
                let nodes = tree.node_count() / TREE_PIECES + 2;
                if snapshot.step(tree, nodes, &mut piece) {
                    return Some(Piece::More(vec![Message::Tree(piece)]));
                }
                let last = Message::TreeEnd(piece, std::mem::take(mirror));
                Some(Piece::Last(vec![last], Input::SnapshotSent { link }))
            }
            Source::Log { after, to, diff, range } => {
                let (after, to, diff) = (*after, *to, *diff);
                let mut messages = Vec::new();
                let range = match range {
                    Some(range) => range,
                    none => {
                        let Some(opened) = self.open_log(place, (after, to), diff) else {
                            return Some(match diff {
                                Some(_) => Piece::Last(messages, Input::LogMissed { link }),
                                None => Piece::Broken,
                            });
                        };
                        if let Some(zxid) = diff {
                            self.counts.plans[0] += 1;
                            messages.push(packet(&QuorumPacket::Diff { zxid }));
                        }
                        none.insert(opened)
                    }
                };
                Some(match read_txns(range, &mut messages) {
                    Ok(true) => Piece::More(messages),
                    Ok(false) => Piece::Last(messages, Input::LogSent { link, to }),
                    Err(()) => Piece::Broken,
                })
            }
        }
    }

    /// A part of a log that holds all that is wanted, and not too much.
    fn open_log(
        &mut self,
        place: ServerIndex,
        (after, to): (Zxid, Zxid),
        diff: Option<Zxid>,
    ) -> Option<LogRange> {
        let storage = &self.servers[place].storage;
        let mut position = None;
        if diff.is_some() {
            let range = storage.log_range((after, PrecedingTxn::MustBeOurs), to).ok()?;
            let bytes_max = self.plan.log_bytes_max;
            position = Some(range.fits(bytes_max, &mut || ControlFlow::Continue(())).ok()??);
            self.counts.logs_sent += 1;
        }
        storage.log_range_at(position, after, to).ok()
    }
}

fn packet(packet: &QuorumPacket) -> Message {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes);
    Message::Packet(bytes)
}

/// Whether there may be more.
fn read_txns(range: &mut LogRange, messages: &mut Vec<Message>) -> Result<bool, ()> {
    for _ in 0..TXNS_PER_PIECE {
        let Some((zxid, payload)) = range.next_txn().map_err(|_| ())? else { return Ok(false) };
        messages.push(packet(&QuorumPacket::Proposal { zxid, payload }));
        messages.push(packet(&QuorumPacket::Commit { zxid }));
    }
    Ok(true)
}
