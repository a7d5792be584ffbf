//! A person at the terminal: lines are typed, commands are done, the rest is said to the agent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use patchboard_core::port::Clock;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::ChatArgs;
use super::conversation::{Conversation, Ended};
use super::editor::{Input, LineEditor};
use super::lists::{self, Known, text};
use super::slash::{self, Slash, Typed};
use crate::cli::failure::Failure;
use crate::cli::output::{self, Page, Role, Stream, colour, paint};
use crate::cli::run::terminal::Terminal;
use crate::system::SystemClock;

/// The name of the history in the data directory.
const HISTORY: &str = "chat_history";
/// How long the first prompt waits to know the model's name.
const FIRST_STATUS: Duration = Duration::from_millis(400);

enum After {
    Goes,
    Leaves,
    /// By a second Ctrl-C.
    IsInterrupted,
}

/// As shells count a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

struct Person<'a> {
    conversation: &'a mut Conversation,
    args: &'a ChatArgs,
    known: Known,
    began: jiff::Timestamp,
    background: TaskTracker,
}

/// Until the person leaves.
pub(super) async fn talk(
    conversation: &mut Conversation,
    args: &ChatArgs,
    has_editor: bool,
) -> Result<ExitCode, Failure> {
    let known = Known::default();
    let editor = match has_editor {
        true => Some(LineEditor::start(history(args), known.clone(), colour(Stream::Out))?),
        false => None,
    };
    let began = SystemClock.now();
    let mut person = Person { conversation, args, known, began, background: TaskTracker::new() };
    output::error("Say something. /help shows what else can be typed, Ctrl-D leaves.");
    let first = person.look_around();
    drop(tokio::time::timeout(FIRST_STATUS, first).await);
    let mut wants_to_leave = false;
    loop {
        person.say_status();
        let input = match &editor {
            Some(editor) => editor.read().await,
            None => {
                output::part("> ");
                person.conversation.line().await.map_or(Input::End, Input::Line)
            }
        };
        match input {
            Input::Line(line) => {
                wants_to_leave = false;
                match person.typed(&line).await? {
                    After::Goes => {}
                    After::Leaves => return Ok(ExitCode::SUCCESS),
                    After::IsInterrupted => return Ok(ExitCode::from(INTERRUPTED)),
                }
            }
            Input::Interrupted { was_empty: true } if wants_to_leave => return Ok(ExitCode::from(INTERRUPTED)),
            Input::Interrupted { was_empty } => {
                wants_to_leave = was_empty;
                if was_empty {
                    output::error("Ctrl-C again, Ctrl-D or /quit leaves.");
                }
            }
            Input::End => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// In the data directory, which is its owner's only; where there is none, the history lasts as long as the chat.
fn history(args: &ChatArgs) -> Option<PathBuf> {
    let folder = args.target.place.load().ok()?.config.data_dir;
    folder.is_dir().then(|| folder.join(HISTORY))
}

impl Person<'_> {
    async fn typed(&mut self, line: &str) -> Result<After, Failure> {
        match slash::read(line) {
            Typed::Nothing => {}
            Typed::Mistaken(why) => output::error(&output::plain(&why)),
            Typed::Slash(Slash::Quit) => return Ok(After::Leaves),
            Typed::Slash(slash) => {
                if !self.is_connected().await {
                    return Ok(After::Goes);
                }
                match self.command(slash).await {
                    Ok(lines) => lines.iter().for_each(|line| output::line(line)),
                    Err(error) => output::error(&output::plain(&format!("error: {error:#}"))),
                }
                drop(self.look_around());
            }
            Typed::Message(message) => {
                // Asked first, so that nothing is said twice to find out.
                if !self.is_connected().await {
                    return Ok(After::Goes);
                }
                match self.conversation.turn(&message).await? {
                    Ended::Well | Ended::Badly | Ended::Cancelled => {}
                    Ended::Left => return Ok(After::IsInterrupted),
                    Ended::Lost(failure) => {
                        failure.hint(self.what_to_do()).report();
                    }
                }
                drop(tokio::time::timeout(FIRST_STATUS, self.look_around()).await);
            }
        }
        Ok(After::Goes)
    }

    async fn command(&mut self, slash: Slash) -> anyhow::Result<Vec<String>> {
        let talk = self.conversation.talk.clone();
        let done = |text: String| vec![output::one_line(&text)];
        Ok(match slash {
            Slash::Help => slash::help(Terminal::columns()),
            Slash::Quit => Vec::new(),
            Slash::Model(wanted) => {
                let agent = talk.agent.clone().or_else(|| self.known.facts().agent.clone());
                let report = self.conversation.ask("models.list", json!({ "agent": agent })).await?;
                match wanted {
                    None => lists::models(&report, &talk),
                    Some(wanted) => match lists::find_model(&report, &wanted) {
                        Ok(model) => {
                            self.conversation.talk.model = Some(model.clone());
                            done(format!("{model} answers from now on"))
                        }
                        Err(problem) => anyhow::bail!(problem),
                    },
                }
            }
            Slash::Agent(wanted) => {
                let agents = self.conversation.list("agent.list", json!({})).await?;
                let names: Vec<String> = agents.iter().filter_map(|agent| text(agent, "name")).collect();
                match wanted {
                    None => self.agents(&agents),
                    Some(wanted) if names.contains(&wanted) => {
                        self.conversation.talk.agent = Some(wanted.clone());
                        self.conversation.talk.model = None;
                        done(format!("{wanted} answers from now on; it has conversations of its own"))
                    }
                    Some(wanted) => anyhow::bail!(lists::unknown("agent", &wanted, &names)),
                }
            }
            Slash::New(wanted) => {
                let peer = wanted.unwrap_or_else(|| {
                    let id = uuid::Uuid::new_v4().simple().to_string();
                    format!("chat-{}", id.get(..6).unwrap_or(&id))
                });
                self.conversation.talk.peer.clone_from(&peer);
                done(format!("a new conversation, {peer}; /sessions goes back to {}", talk.peer))
            }
            Slash::Sessions(wanted) => self.sessions(wanted).await?,
            Slash::Tools(wanted) => {
                let tools = self.conversation.list("tool.list", json!({ "limit": 500 })).await?;
                let shown = lists::tools(&tools, wanted.as_deref(), Terminal::columns());
                shown.map_err(|problem| anyhow::anyhow!(problem))?
            }
            Slash::Usage => {
                let agent = self.known.facts().agent.clone().unwrap_or_default();
                let budget = self.conversation.ask("budget.status", json!({ "session": talk.key(&agent) })).await?;
                lists::usage(&self.known.facts(), &budget)
            }
        })
    }

    async fn sessions(&mut self, wanted: Option<String>) -> anyhow::Result<Vec<String>> {
        let talk = self.conversation.talk.clone();
        let items = self.conversation.list("session.list", talk.owner()).await?;
        let Some(wanted) = wanted else {
            if items.is_empty() {
                return Ok(vec!["no conversations yet".to_owned()]);
            }
            return Ok(lists::sessions(&items, &talk, Page::of_stdout()));
        };
        let is_wanted = |item: &&Value| {
            text(item, "peer").as_deref() == Some(&wanted) || text(item, "session").as_deref() == Some(&wanted)
        };
        let Some(found) = items.iter().find(is_wanted) else {
            let names: Vec<String> = items.iter().filter_map(|item| text(item, "peer")).collect();
            let problem = lists::unknown("conversation", &wanted, &names);
            anyhow::bail!("{problem}\nhint: /new {wanted} begins one of that name");
        };
        self.conversation.talk.peer = text(found, "peer").unwrap_or(wanted);
        self.conversation.talk.agent = text(found, "agent");
        let turns = found.get("turns").map(ToString::to_string).unwrap_or_default();
        let peer = &self.conversation.talk.peer;
        Ok(vec![output::one_line(&format!("on with {peer}, {turns} turns so far"))])
    }

    fn agents(&self, agents: &[Value]) -> Vec<String> {
        let used = self.conversation.talk.agent.clone().or_else(|| self.known.facts().agent.clone());
        let line = |agent: &Value| {
            let name = text(agent, "name").unwrap_or_default();
            let mark = if used.as_ref() == Some(&name) { "*" } else { " " };
            let about = text(agent, "description").map(|about| format!("  {about}")).unwrap_or_default();
            output::one_line(&format!("{mark} {name}{about}"))
        };
        agents.iter().map(line).collect()
    }

    /// Asks the server what there is, beside the conversation; what comes is there for the next prompt.
    fn look_around(&self) -> tokio::task::JoinHandle<()> {
        let (address, talk) = (self.conversation.address.clone(), self.conversation.talk.clone());
        self.background.spawn(self.known.clone().refresh(address, talk, self.began))
    }

    fn say_status(&self) {
        let line = lists::status(&self.known.facts(), &self.conversation.talk, Terminal::columns());
        output::error(&paint(&line, Role::Faint, colour(Stream::Err)));
    }

    /// A server that is gone is looked for once more: it may have been started again.
    async fn is_connected(&mut self) -> bool {
        if self.conversation.is_alive().await {
            return true;
        }
        let again = match self.args.target.find() {
            Ok(Some(address)) => self.conversation.reconnect(address).await,
            Ok(None) => Err(Failure::unreachable("the server is gone")),
            Err(failure) => Err(failure),
        };
        match again {
            Ok(()) => {
                output::error("(connected again)");
                true
            }
            Err(failure) => {
                failure.hint(self.what_to_do()).report();
                false
            }
        }
    }

    fn what_to_do(&self) -> &'static str {
        match self.args.target.is_by_address() {
            true => "what was said is kept; once the server is back, what you say next goes there",
            false => "start it again with `patchboard serve`; what was said is kept, and what you say next goes there",
        }
    }
}
