//! Asks the pipeline, and whoever it needs: an embedding model, a language model.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Hub, check_text, lock};
use crate::app::AppProfile;
use crate::app::matcher::Meaning;
use crate::app::message::{AppNotice, Decision, MessageReport, Scored, Stage};
use crate::app::route::{Answer, Question};
use crate::error::{BoardError, ErrorKind};
use crate::id::MessageId;

/// An embedding that takes longer is done without.
const EMBED_PATIENCE: Duration = Duration::from_secs(3);
/// Descriptions whose vectors are remembered.
const MAX_MEANINGS: usize = 2000;

/// What routing a message depends on besides its text, at one moment.
#[derive(Debug)]
pub(crate) struct View {
    /// Connected and not yet tried.
    pub(crate) open: Vec<Arc<AppProfile>>,
    /// They had it and refused it.
    refused: Vec<Arc<AppProfile>>,
    pub(crate) absent: Vec<Arc<AppProfile>>,
    away: Vec<Arc<AppProfile>>,
    follow_up: Option<Arc<str>>,
}

/// Where a message goes.
#[derive(Debug)]
pub(crate) enum Routed {
    To(Decision),
    WaitFor(Arc<str>, Decision),
    /// Nobody clearly fits.
    Nobody(Decision),
    /// The model that would decide cannot be asked now.
    NoModel(BoardError),
}

impl View {
    /// All that a message is compared with, in the order of [`Question`].
    fn ranked(&self) -> impl Iterator<Item = &Arc<AppProfile>> {
        self.open.iter().chain(&self.refused)
    }
}

impl Hub {
    pub(crate) fn view(&self, report: &MessageReport) -> View {
        let user = user_of(&report.utterance.surface, &report.utterance.principal);
        // What was said before the question was asked is no answer to it.
        let is_fresh = report.decisions.is_empty();
        let asked = lock(&self.0.follow_ups).open(&user, self.0.started.elapsed());
        let follow_up = asked.filter(|_| is_fresh);
        let now = self.0.clock.now();
        let roster = self.roster();
        let untried = roster.connected().iter().filter(|app| !report.has_tried(&app.profile.name));
        let open: Vec<Arc<AppProfile>> = untried.map(|app| app.profile.clone()).collect();
        let away = roster.away();
        let connected = roster.connected().iter().map(|app| &app.profile);
        let named = |name: &str| connected.clone().chain(&away).find(|known| known.name.eq_ignore_ascii_case(name));
        // Whoever went away and is back may have it again.
        let is_open = |name: &str| open.iter().any(|profile| profile.name.eq_ignore_ascii_case(name));
        let refusals = report.refusals();
        let refused = refusals.iter().filter(|(app, _)| !is_open(app)).map(|(app, _)| {
            let gone =
                || AppProfile { name: app.clone(), description: "".into(), version: None, capabilities: Vec::new() };
            named(app).cloned().unwrap_or_else(|| Arc::new(gone()))
        });
        let refused = refused.collect();
        View { open, refused, absent: roster.absent(now), away, follow_up }
    }

    /// Only the stages that need nobody else; `None` when they do not know.
    pub(crate) fn route_here(&self, text: &str, report: &MessageReport, view: &View) -> Result<Routed, Vec<Scored>> {
        let question = question(text, report, view);
        match self.0.pipeline.route(&question, &self.matcher()) {
            Answer::Go(decision) => Ok(Routed::To(decision)),
            Answer::WaitFor(app, decision) => Ok(Routed::WaitFor(app, decision)),
            Answer::Unsure(closest) => Err(closest),
        }
    }

    /// Can anybody be asked whom the message is for?
    pub(crate) fn can_ask(&self, view: &View) -> bool {
        !view.open.is_empty() && (self.0.embedder.is_some() || self.0.router.is_some())
    }

    /// The stages that ask somebody else, and what is left when they do not know either.
    pub(crate) async fn route_on(
        &self,
        report: &MessageReport,
        view: &View,
        mut closest: Vec<Scored>,
        stop: &CancellationToken,
    ) -> Routed {
        let text = &report.utterance.text;
        let meaning = self.meaning(text, view, stop).await;
        if let Some(meaning) = &meaning {
            let question = Question { meaning: Some(meaning), ..question(text, report, view) };
            match self.0.pipeline.route(&question, &self.matcher()) {
                Answer::Go(decision) => return Routed::To(decision),
                Answer::WaitFor(app, decision) => return Routed::WaitFor(app, decision),
                Answer::Unsure(by_meaning) => closest = by_meaning,
            }
        }
        if let Some(router) = self.0.router.as_ref().filter(|_| !view.open.is_empty()) {
            match router.ask(text, &view.open, &report.refusals(), stop).await {
                Ok(choice) => {
                    let question = question(text, report, view);
                    if let Some(decision) = self.0.pipeline.by_model(&question, &choice, &closest) {
                        return Routed::To(decision);
                    }
                }
                Err(error) => return Routed::NoModel(error),
            }
        }
        self.last_resort(report, view, closest)
    }

    pub(crate) fn last_resort(&self, report: &MessageReport, view: &View, closest: Vec<Scored>) -> Routed {
        let question = question(&report.utterance.text, report, view);
        match self.0.pipeline.last_resort(&question, &closest) {
            Some(decision) => Routed::To(decision),
            None => Routed::Nobody(nobody(view, closest)),
        }
    }

    /// How a text would be routed now.
    pub(crate) async fn explain(&self, text: &Arc<str>, stop: &CancellationToken) -> Result<Decision, BoardError> {
        check_text(text)?;
        let utterance = crate::app::message::Utterance {
            text: text.clone(),
            input: crate::app::InputMethod::Text,
            confidence: None,
            only: None,
            principal: "".into(),
            surface: "hub".into(),
            expires_at: self.0.clock.now(),
        };
        let report = MessageReport::new(MessageId(self.0.ids.next()), Arc::new(utterance), self.0.clock.now());
        let view = self.view(&report);
        let routed = match self.route_here(text, &report, &view) {
            Ok(routed) => routed,
            Err(closest) => {
                // What a model call costs is settled, whether or not the asker stays to hear the answer.
                let hub = self.clone();
                let stop = stop.child_token();
                let withdrawn = stop.clone().drop_guard();
                let asking = self.0.tracker.spawn(async move { hub.route_on(&report, &view, closest, &stop).await });
                let routed = asking.await;
                drop(withdrawn);
                routed.map_err(|_| BoardError::new(ErrorKind::Internal, "routing failed inside"))?
            }
        };
        match routed {
            Routed::To(decision) | Routed::WaitFor(_, decision) | Routed::Nobody(decision) => Ok(decision),
            Routed::NoModel(error) => Err(error),
        }
    }

    /// An app told the user something about a message.
    pub(crate) fn noticed(&self, report: &MessageReport, app: &Arc<str>, notice: &AppNotice) {
        let user = user_of(&report.utterance.surface, &report.utterance.principal);
        lock(&self.0.follow_ups).noticed(&user, app, notice, self.0.started.elapsed());
    }

    /// A message went where an open question came from.
    pub(crate) fn followed_up(&self, report: &MessageReport) {
        lock(&self.0.follow_ups).answered(&user_of(&report.utterance.surface, &report.utterance.principal));
    }

    async fn meaning(&self, text: &str, view: &View, stop: &CancellationToken) -> Option<Meaning> {
        let embedder = self.0.embedder.as_ref()?;
        let words: Vec<Arc<str>> = view.ranked().map(|profile| profile.description.clone()).collect();
        let unknown: Vec<Arc<str>> = {
            let meanings = lock(&self.0.meanings);
            words.iter().filter(|words| !meanings.contains_key(*words)).cloned().collect()
        };
        let mut texts = vec![text.to_owned()];
        texts.extend(unknown.iter().map(|words| words.to_string()));
        let vectors = tokio::time::timeout(EMBED_PATIENCE, embedder.embed(texts, stop.clone())).await;
        let mut vectors = match vectors {
            Ok(Ok(vectors)) if vectors.len() == unknown.len() + 1 => vectors,
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => {
                tracing::debug!(%error, "routing without meanings");
                return None;
            }
            Err(_elapsed) => return None,
        };
        let described = vectors.split_off(1);
        let asked = vectors.pop()?;
        let mut meanings = lock(&self.0.meanings);
        if meanings.len() + unknown.len() > MAX_MEANINGS {
            meanings.clear();
        }
        meanings.extend(unknown.into_iter().zip(described.into_iter().map(Arc::from)));
        let similarity = |words: &Arc<str>| meanings.get(words).map_or(0.0, |vector| cosine(&asked, vector));
        Some(Meaning { similarity: words.iter().map(similarity).collect() })
    }
}

fn question<'a>(text: &'a str, report: &'a MessageReport, view: &'a View) -> Question<'a> {
    Question {
        text,
        words: report.words().map(|words| &**words),
        open: &view.open,
        absent: &view.absent,
        away: &view.away,
        follow_up: view.follow_up.as_deref(),
        refused: &view.refused,
        meaning: None,
    }
}

/// Whoever comes at least a little closer than the next; where all are alike, none is worth a name.
pub(crate) fn ahead(candidates: &[Scored]) -> Option<&Scored> {
    const A_LITTLE: f32 = 0.02;
    let next = candidates.get(1).map_or(0.0, |next| next.confidence);
    candidates.first().filter(|best| best.confidence - next > A_LITTLE)
}

fn nobody(view: &View, candidates: Vec<Scored>) -> Decision {
    let reason = match (view.open.is_empty(), ahead(&candidates)) {
        (true, _) => "no app that could take it is connected".to_owned(),
        (false, None) => "no connected app clearly fits".to_owned(),
        (false, Some(best)) => format!("no connected app clearly fits; {} comes closest", best.app),
    };
    Decision { stage: Stage::Nobody, apps: Vec::new(), text: None, reason: reason.into(), candidates }
}

/// On the hub itself everybody is the one user of this machine, by whatever program.
fn user_of(surface: &str, principal: &Arc<str>) -> Arc<str> {
    if surface == "hub" || surface == "cli" { "user".into() } else { principal.clone() }
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot: f32 = left.iter().zip(right).map(|(left, right)| left * right).sum();
    let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    let lengths = length(left) * length(right);
    if lengths > 0.0 { (dot / lengths).clamp(0.0, 1.0) } else { 0.0 }
}
