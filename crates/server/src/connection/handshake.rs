//! The first frame: a connect request, or a four-letter word in its place.

use std::sync::Arc;

use herdsman_node::Input;
use herdsman_proto::{ConnectRequest, SessionId};
use tracing::debug;

use super::{Connection, Ended, Stage};
use crate::intake::BadLength;
use crate::words;

impl Connection {
    pub(super) fn handshake(&mut self) -> Result<(), Ended> {
        let Some(word) = self.intake.word() else { return Ok(()) };
        if let Some(command) = words::Command::of(word) {
            return self.answer_word(command);
        }
        let first = self.intake.peek();
        let first = first.map_err(|BadLength(length)| Ended::NoConnectRequest(length))?;
        let Some(payload) = first else { return Ok(()) };
        let bytes = payload.len();
        self.note_received();
        let request =
            ConnectRequest::decode(payload).map_err(|_| Ended::Undecodable("connect request"))?;
        if !self
            .shared
            .connection_throttle
            .admits(self.shared.core.clock.monotonic_ms(), request.session)
        {
            return Err(Ended::TooManySessions);
        }
        let core = &self.shared.core;
        core.stats.connection_token_deficit.add(self.shared.connection_throttle.deficit());
        core.stats.connection_requests.add(1);
        if request.session == SessionId::NONE {
            let now_ms = core.clock.monotonic_ms();
            self.client.stats.lock().opening_since_ms = Some(now_ms);
        } else {
            core.stats.connection_revalidations.add(1);
        }
        self.stage = Stage::AwaitingSession;
        let ids = Arc::clone(&self.ids);
        let connect = Input::Connect { conn: self.client.id, request, ids };
        self.shared.core.step_all_in_turn(self.client.thread, std::iter::once(connect));
        self.intake.consume(bytes);
        self.deadline = None;
        self.take_outbox();
        Ok(())
    }

    fn answer_word(&mut self, command: words::Command) -> Result<(), Ended> {
        let name = command.name();
        let allowed = self.shared.config.four_letter_words.allows(name);
        if allowed && self.intake.after_word().len() < command.operand_bytes() {
            return Ok(());
        }
        self.note_received();
        self.client.stats.lock().asked_word = true;
        let text = if allowed {
            debug!(peer = %self.client.peer, "four-letter word {name}");
            words::answer(&self.shared, command, self.intake.after_word())
        } else {
            self.shared.limit_reports.words.warn(format_args!(
                "four-letter word {name} from {} is not in 4lw.commands.whitelist",
                self.client.peer
            ));
            format!("{name} is not executed because it is not in the whitelist.\n")
        };
        self.shared.core.stats.packets_sent.add(words::packets(&text));
        self.output.extend_from_slice(text.as_bytes());
        Err(Ended::Word)
    }
}
