//! The line editor on a separate thread.
//!
//! In: requests to read a line, one at a time. Out: the typed lines. A request carries the channel for
//! its answer; if the receiver is gone, the answer is dropped.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor, ExternalPrinter};
use tokio::sync::oneshot;

use super::assistant::Assistant;
use super::history_file;
use crate::ask::Ask;
use crate::failure::Failure;

/// The result of reading a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C: the line is discarded.
    Interrupted,
    /// Ctrl-D.
    End,
    /// The terminal failed.
    Failed(String),
}

/// A handle to the editor's thread; clones share it. The thread ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct LineEditor {
    requests: mpsc::Sender<Request>,
    printer: Arc<Mutex<Option<Printer>>>,
}

type Printer = Box<dyn FnMut(String) + Send>;
type TerminalEditor = Editor<Assistant, DefaultHistory>;

enum Request {
    Read { prompt: String, to: oneshot::Sender<Typed> },
    Remember(String),
}

/// Lines kept in the history file.
const HISTORY_LINES_MAX: usize = 5000;
/// The editor asks before it lists more candidates than this.
const CANDIDATES_UNASKED_MAX: usize = 200;

impl LineEditor {
    /// Starts the thread, with the history of earlier shells.
    pub(crate) fn start(assistant: Assistant) -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_prompt_limit(CANDIDATES_UNASKED_MAX)
            .max_history_size(HISTORY_LINES_MAX)?
            .history_ignore_space(true)
            .build();
        let mut editor: TerminalEditor = Editor::with_config(config)?;
        editor.set_helper(Some(assistant));
        let printer = editor.create_external_printer().ok().map(|mut printer| {
            let print = move |text| {
                // An event that cannot be shown must not end the shell.
                let _ = printer.print(text);
            };
            Box::new(print) as Printer
        });
        let history = history_file::open();
        if let Some(file) = &history {
            // If it is missing or damaged, start with an empty history.
            let _ = editor.load_history(file);
        }
        let (requests, received) = mpsc::channel();
        thread::spawn(move || serve(editor, history.as_deref(), &received));
        Ok(LineEditor { requests, printer: Arc::new(Mutex::new(printer)) })
    }

    /// The function that prints above the line that is being typed. Only the first caller gets it.
    pub(crate) fn printer(&self) -> Option<Printer> {
        self.printer.lock().ok()?.take()
    }

    /// Reads a line.
    pub(crate) async fn read_line(&self, prompt: String) -> Typed {
        let (to, typed) = oneshot::channel();
        let gone = || Typed::Failed("the line editor has ended".to_owned());
        if self.requests.send(Request::Read { prompt, to }).is_err() {
            return gone();
        }
        typed.await.unwrap_or_else(|_| gone())
    }

    /// Puts a line into the history, unless it holds a secret.
    pub(crate) fn remember(&self, line: &str) {
        if history_file::may_keep(line) {
            // Without a thread there is no history either.
            let _ = self.requests.send(Request::Remember(line.to_owned()));
        }
    }
}

impl Ask for LineEditor {
    fn ask(&mut self, question: String) -> BoxFuture<'_, Result<String, Failure>> {
        async move {
            match self.read_line(question).await {
                Typed::Line(answer) => Ok(answer),
                Typed::Interrupted | Typed::End => Ok(String::new()),
                Typed::Failed(text) => Err(Failure::failed(text)),
            }
        }
        .boxed()
    }
}

fn serve(mut editor: TerminalEditor, file: Option<&Path>, requests: &mpsc::Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Read { prompt, to } => {
                let typed = read(&mut editor, &prompt);
                // The receiver is gone if the caller was interrupted.
                let _ = to.send(typed);
            }
            Request::Remember(line) => {
                let is_new = editor.add_history_entry(line).unwrap_or(false);
                if let Some(file) = file.filter(|_| is_new) {
                    // A full disk does not end the shell.
                    let _ = editor.append_history(file);
                }
            }
        }
    }
}

fn read(editor: &mut TerminalEditor, prompt: &str) -> Typed {
    match editor.readline(prompt) {
        Ok(line) => Typed::Line(line),
        Err(ReadlineError::Interrupted) => Typed::Interrupted,
        Err(ReadlineError::Eof) => Typed::End,
        Err(error) => Typed::Failed(format!("reading from the terminal: {error}")),
    }
}
