//! The first frame: a connect request, or a four-letter word in its place.

use std::sync::Arc;

use herdsman_node::Input;
use herdsman_node::io::CloseReason;
use herdsman_proto::{ConnectRequest, SessionId};
use tracing::debug;

use super::{Connection, EndReason, Stage};
use crate::clients::intake::BadLength;
use crate::clients::outbox::CloseCause;
use crate::operators::words;

impl Connection {
    pub(super) fn handshake(&mut self) -> Result<(), EndReason> {
        let Some(word) = self.intake.word() else { return Ok(()) };
        if let Some(command) = words::Command::of(word) {
            return self.answer_word(command);
        }
        let first = self.intake.peek();
        let first = first.map_err(|BadLength(length)| EndReason::NoConnectRequest(length))?;
        let Some(payload) = first else { return Ok(()) };
        self.note_received();
        let request = ConnectRequest::decode(payload)
            .map_err(|_| EndReason::Undecodable("connect request"))?;
        if !self
            .shared
            .connection_throttle
            .admits(self.shared.core.clock.monotonic_ms(), request.session)
        {
            return Err(EndReason::TooManySessions);
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
        self.stage = Stage::AwaitingRole;
        Ok(())
    }

    /// Passes the connect request to the core. While the server looks for a leader the request waits for the outcome,
    /// up to a tick: many clients take a closed connection for a failed server, and fail the pending operations when
    /// all servers have failed. Apache closes the connection at once.
    ///
    /// The request stays in the intake until there is a session, because the server may lose its leader before that.
    /// No further limit is needed: a client may also delay sending this request.
    pub(super) fn connect(&mut self) -> Result<(), EndReason> {
        let Ok(Some(payload)) = self.intake.peek() else { return Ok(()) };
        let request = ConnectRequest::decode(payload)
            .map_err(|_| EndReason::Undecodable("connect request"))?;
        let core = &self.shared.core;
        // Before the core is asked, so that later changes are noticed.
        let role_changes = core.role_changes();
        let connect = Input::Connect { conn: self.client.id, request, ids: Arc::clone(&self.ids) };
        let wait_ms_max = self.shared.settings.role_wait_ms_max;
        match core.connect_in_turn(self.client.thread, connect, wait_ms_max) {
            Some(wait) => {
                self.role_changes = Some(role_changes);
                self.deadline = Some(Box::pin(tokio::time::sleep(wait)));
            }
            None => {
                self.stage = Stage::AwaitingSession;
                self.role_changes = None;
                self.deadline = None;
            }
        }
        self.intake.rest();
        Ok(())
    }

    /// Whether a connection that the core wants to close may try again: it has no session yet, and the server has
    /// just lost its leader.
    pub(super) fn may_connect_again(&self, why: CloseCause) -> bool {
        let core = &self.shared.core;
        let wait_ms_max = self.shared.settings.role_wait_ms_max;
        matches!(self.stage, Stage::AwaitingRole | Stage::AwaitingSession)
            && why == CloseCause::Core(CloseReason::NotServing)
            && core.may_wait_for_role(core.clock.now(), wait_ms_max).is_some()
    }

    /// Drops the connect request, which has led to a session.
    pub(super) fn consume_connect_request(&mut self) {
        if let Ok(Some(payload)) = self.intake.peek() {
            let bytes = payload.len();
            self.intake.consume(bytes);
        }
    }

    fn answer_word(&mut self, command: words::Command) -> Result<(), EndReason> {
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
        Err(EndReason::Word)
    }
}
