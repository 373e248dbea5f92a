//! The first frame: a connect request, or a four-letter word in its place.

use std::sync::Arc;

use herdsman_node::Input;
use herdsman_proto::{ConnectRequest, SessionId};
use tracing::{debug, warn};

use super::{Connection, Ended, Stage};
use crate::words;

impl Connection {
    pub(super) fn handshake(&mut self) -> Result<(), Ended> {
        let Some(word) = self.intake.word() else { return Ok(()) };
        if let Some(command) = words::Command::of(word) {
            return self.answer_word(command);
        }
        let Some(payload) = self.intake.peek()? else { return Ok(()) };
        let bytes = payload.len();
        self.note_received();
        let request =
            ConnectRequest::decode(payload).map_err(|_| Ended::Undecodable("connect request"))?;
        if !self
            .shared
            .connection_throttle
            .admits(self.shared.core.clock.monotonic_ms(), request.session)
        {
            self.shared.core.stats.connections_rejected.add(1);
            return Err(Ended::Refused(
                "too many new sessions at once (connection_throttle_tokens)",
            ));
        }
        let stats = &self.shared.core.stats;
        stats.connection_requests.add(1);
        if request.session != SessionId::NONE {
            stats.connection_revalidations.add(1);
        }
        self.stage = Stage::AwaitingSession;
        let ids = Arc::clone(&self.ids);
        self.shared.core.step(Input::Connect { conn: self.client.id, request, ids });
        self.intake.consume(bytes);
        self.deadline = None;
        self.take_outbox();
        Ok(())
    }

    fn answer_word(&mut self, command: words::Command) -> Result<(), Ended> {
        if command == words::Command::SetTraceMask && self.intake.after_word().len() < 8 {
            return Ok(());
        }
        let name = command.name();
        if self.shared.config.four_letter_words.allows(name) {
            debug!(peer = %self.client.peer, "four-letter word {name}");
            let text = words::answer(&self.shared, command, self.intake.after_word());
            self.output.extend_from_slice(text.as_bytes());
        } else {
            warn!(peer = %self.client.peer, "four-letter word {name} is not in 4lw.commands.whitelist");
            let refusal = format!("{name} is not executed because it is not in the whitelist.\n");
            self.output.extend_from_slice(refusal.as_bytes());
        }
        Err(Ended::Word)
    }
}
