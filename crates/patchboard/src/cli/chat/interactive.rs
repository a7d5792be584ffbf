//! The interactive loop: reads lines, runs slash commands, and sends the rest to the agent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use patchboard_core::port::Clock;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::ChatArgs;
use super::conversation::{Conversation, TurnOutcome};
use super::editor::{EditorInput, LineEditor};
use super::lists::{self, SharedChatFacts, text};
use super::slash::{self, ParsedLine, SlashCommand};
use crate::cli::failure::CommandFailure;
use crate::cli::run::terminal::TerminalWriter;
use crate::output::{self, OutputStream, PageLayout, TextRole, colour, paint};
use crate::system::SystemClock;

/// The history file in the data directory.
const HISTORY: &str = "chat_history";
/// How long the first prompt waits for the model's name.
const FIRST_STATUS: Duration = Duration::from_millis(400);

enum LoopControl {
    Continue,
    Quit,
    /// A second Ctrl-C.
    Interrupted,
}

/// The exit code of shells for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

struct InteractiveChat<'a> {
    conversation: &'a mut Conversation,
    args: &'a ChatArgs,
    facts: SharedChatFacts,
    started_at: jiff::Timestamp,
    background: TaskTracker,
}

/// Runs until the person leaves.
pub(super) async fn run_interactive(
    conversation: &mut Conversation,
    args: &ChatArgs,
    has_editor: bool,
) -> Result<ExitCode, CommandFailure> {
    let facts = SharedChatFacts::default();
    let editor = match has_editor {
        true => Some(LineEditor::start(history(args), facts.clone(), colour(OutputStream::Out))?),
        false => None,
    };
    let started_at = SystemClock.now();
    let mut chat = InteractiveChat { conversation, args, facts, started_at, background: TaskTracker::new() };
    output::eprint_line("Say something. /help shows what else can be typed, Ctrl-D leaves.");
    let first_refresh = chat.refresh_facts();
    drop(tokio::time::timeout(FIRST_STATUS, first_refresh).await);
    let mut wants_to_leave = false;
    loop {
        chat.show_status();
        let input = match &editor {
            Some(editor) => editor.read().await,
            None => {
                output::print("> ");
                chat.conversation.line().await.map_or(EditorInput::End, EditorInput::Line)
            }
        };
        match input {
            EditorInput::Line(line) => {
                wants_to_leave = false;
                match chat.handle_line(&line).await? {
                    LoopControl::Continue => {}
                    LoopControl::Quit => return Ok(ExitCode::SUCCESS),
                    LoopControl::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
                }
            }
            EditorInput::Interrupted { was_empty: true } if wants_to_leave => return Ok(ExitCode::from(INTERRUPTED)),
            EditorInput::Interrupted { was_empty } => {
                wants_to_leave = was_empty;
                if was_empty {
                    output::eprint_line("Ctrl-C again, Ctrl-D or /quit leaves.");
                }
            }
            EditorInput::End => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// The path of the history, in the data directory, which is private to its owner; without one the history is not
/// stored.
fn history(args: &ChatArgs) -> Option<PathBuf> {
    let folder = args.target.place.load().ok()?.config.data_dir;
    folder.is_dir().then(|| folder.join(HISTORY))
}

impl InteractiveChat<'_> {
    async fn handle_line(&mut self, line: &str) -> Result<LoopControl, CommandFailure> {
        match slash::parse_line(line) {
            ParsedLine::Empty => {}
            ParsedLine::Invalid(why) => output::eprint_line(&output::plain(&why)),
            ParsedLine::Command(SlashCommand::Quit) => return Ok(LoopControl::Quit),
            ParsedLine::Command(slash) => {
                if !self.is_connected().await {
                    return Ok(LoopControl::Continue);
                }
                match self.run_command(slash).await {
                    Ok(lines) => lines.iter().for_each(|line| output::print_line(line)),
                    Err(error) => output::eprint_line(&output::plain(&format!("error: {error:#}"))),
                }
                drop(self.refresh_facts());
            }
            ParsedLine::Message(message) => {
                // Checked first, so that no message is sent twice.
                if !self.is_connected().await {
                    return Ok(LoopControl::Continue);
                }
                match self.conversation.turn(&message).await? {
                    TurnOutcome::Completed | TurnOutcome::Failed | TurnOutcome::Cancelled => {}
                    TurnOutcome::Aborted => return Ok(LoopControl::Interrupted),
                    TurnOutcome::Disconnected(failure) => {
                        failure.hint(self.reconnect_hint()).report();
                    }
                }
                drop(tokio::time::timeout(FIRST_STATUS, self.refresh_facts()).await);
            }
        }
        Ok(LoopControl::Continue)
    }

    async fn run_command(&mut self, slash: SlashCommand) -> anyhow::Result<Vec<String>> {
        let context = self.conversation.context.clone();
        let done = |text: String| vec![output::one_line(&text)];
        Ok(match slash {
            SlashCommand::Help => slash::help(TerminalWriter::columns()),
            SlashCommand::Quit => Vec::new(),
            SlashCommand::Model(requested) => {
                let agent = context.agent.clone().or_else(|| self.facts.lock().agent.clone());
                let report = self.conversation.request("models.list", json!({ "agent": agent })).await?;
                match requested {
                    None => lists::models(&report, &context),
                    Some(requested) => match lists::find_model(&report, &requested) {
                        Ok(model) => {
                            self.conversation.context.model = Some(model.clone());
                            done(format!("{model} answers from now on"))
                        }
                        Err(problem) => anyhow::bail!(problem),
                    },
                }
            }
            SlashCommand::Agent(requested) => {
                let agents = self.conversation.list("agent.list", json!({})).await?;
                let names: Vec<String> = agents.iter().filter_map(|agent| text(agent, "name")).collect();
                match requested {
                    None => self.agents(&agents),
                    Some(requested) if names.contains(&requested) => {
                        self.conversation.context.agent = Some(requested.clone());
                        self.conversation.context.model = None;
                        done(format!("{requested} answers from now on; it has conversations of its own"))
                    }
                    Some(requested) => anyhow::bail!(lists::unknown_name("agent", &requested, &names)),
                }
            }
            SlashCommand::New(requested) => {
                let peer = requested.unwrap_or_else(|| {
                    let id = uuid::Uuid::new_v4().simple().to_string();
                    format!("chat-{}", id.get(..6).unwrap_or(&id))
                });
                self.conversation.context.peer.clone_from(&peer);
                done(format!("a new conversation, {peer}; /sessions goes back to {}", context.peer))
            }
            SlashCommand::Sessions(requested) => self.sessions(requested).await?,
            SlashCommand::Tools(requested) => {
                let tools = self.conversation.list("tool.list", json!({ "limit": 500 })).await?;
                let shown = lists::tools(&tools, requested.as_deref(), TerminalWriter::columns());
                shown.map_err(|problem| anyhow::anyhow!(problem))?
            }
            SlashCommand::Usage => {
                let agent = self.facts.lock().agent.clone().unwrap_or_default();
                let budget = self
                    .conversation
                    .request("budget.status", json!({ "session": context.session_key(&agent) }))
                    .await?;
                lists::usage(&self.facts.lock(), &budget)
            }
        })
    }

    async fn sessions(&mut self, requested: Option<String>) -> anyhow::Result<Vec<String>> {
        let context = self.conversation.context.clone();
        let items = self.conversation.list("session.list", context.owner_params()).await?;
        let Some(requested) = requested else {
            if items.is_empty() {
                return Ok(vec!["no conversations yet".to_owned()]);
            }
            return Ok(lists::sessions(&items, &context, PageLayout::of_stdout()));
        };
        let is_wanted = |item: &&Value| {
            text(item, "peer").as_deref() == Some(&requested) || text(item, "session").as_deref() == Some(&requested)
        };
        let Some(found) = items.iter().find(is_wanted) else {
            let names: Vec<String> = items.iter().filter_map(|item| text(item, "peer")).collect();
            let problem = lists::unknown_name("conversation", &requested, &names);
            anyhow::bail!("{problem}\nhint: /new {requested} begins one of that name");
        };
        self.conversation.context.peer = text(found, "peer").unwrap_or(requested);
        self.conversation.context.agent = text(found, "agent");
        let turns = found.get("turns").map(ToString::to_string).unwrap_or_default();
        let peer = &self.conversation.context.peer;
        Ok(vec![output::one_line(&format!("on with {peer}, {turns} turns so far"))])
    }

    fn agents(&self, agents: &[Value]) -> Vec<String> {
        let used = self.conversation.context.agent.clone().or_else(|| self.facts.lock().agent.clone());
        let line = |agent: &Value| {
            let name = text(agent, "name").unwrap_or_default();
            let mark = if used.as_ref() == Some(&name) { "*" } else { " " };
            let about = text(agent, "description").map(|about| format!("  {about}")).unwrap_or_default();
            output::one_line(&format!("{mark} {name}{about}"))
        };
        agents.iter().map(line).collect()
    }

    /// Refreshes the facts in the background; the next prompt shows them.
    fn refresh_facts(&self) -> tokio::task::JoinHandle<()> {
        let (address, context) = (self.conversation.address.clone(), self.conversation.context.clone());
        self.background.spawn(self.facts.clone().refresh(address, context, self.started_at))
    }

    fn show_status(&self) {
        let line = lists::status(&self.facts.lock(), &self.conversation.context, TerminalWriter::columns());
        output::eprint_line(&paint(&line, TextRole::Faint, colour(OutputStream::Err)));
    }

    /// Checks the connection and, if it is lost, looks for the server once more, as it may have been restarted.
    async fn is_connected(&mut self) -> bool {
        if self.conversation.is_alive().await {
            return true;
        }
        let again = match self.args.target.find() {
            Ok(Some(address)) => self.conversation.reconnect(address).await,
            Ok(None) => Err(CommandFailure::unreachable("the server is gone")),
            Err(failure) => Err(failure),
        };
        match again {
            Ok(()) => {
                output::eprint_line("(connected again)");
                true
            }
            Err(failure) => {
                failure.hint(self.reconnect_hint()).report();
                false
            }
        }
    }

    fn reconnect_hint(&self) -> &'static str {
        match self.args.target.is_by_address() {
            true => "what was said is kept; once the server is back, what you say next goes there",
            false => "start it again with `patchboard serve`; what was said is kept, and what you say next goes there",
        }
    }
}
