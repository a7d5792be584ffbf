use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_core::future::BoxFuture;

use super::*;
use crate::agent::AgentTable;
use crate::budget::BudgetLimits;
use crate::error::ErrorKind;
use crate::model::{ModelEvent, ModelRequest};
use crate::port::BoxStream;
use crate::run_spec::StrategyKind;

/// A provider whose listing is scripted, or never completes.
#[derive(Debug)]
struct Lister {
    name: &'static str,
    listing: Mutex<Option<Result<Vec<&'static str>, ModelError>>>,
    request_count: AtomicU32,
}

fn lister(name: &'static str, listing: Option<Result<Vec<&'static str>, ModelError>>) -> Arc<Lister> {
    Arc::new(Lister { name, listing: Mutex::new(listing), request_count: AtomicU32::new(0) })
}

fn refusing(name: &'static str) -> Arc<Lister> {
    lister(name, Some(Err(ModelError::Rejected("provider refused the request (404)".to_owned()))))
}

impl ModelProvider for Lister {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        _request: ModelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Cancelled)))
    }

    fn models(&self, _stop: CancellationToken) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        self.request_count.fetch_add(1, Ordering::Relaxed);
        let listing = self.listing.lock().unwrap().clone();
        let listed = |ids: Vec<&'static str>| ids.into_iter().map(|id| ListedModel { id: id.into(), name: None });
        Box::pin(async move {
            match listing {
                Some(listing) => listing.map(|ids| listed(ids).collect()),
                None => std::future::pending().await,
            }
        })
    }
}

fn agent(provider: &Arc<Lister>, model: &str) -> AgentSpec {
    AgentSpec {
        name: AgentTable::DEFAULT.into(),
        provider: provider.clone(),
        model: model.into(),
        strategy: StrategyKind::React,
        reasoning: crate::run_spec::reasoning::ReasoningOptions::default(),
        source: crate::run_spec::AgentSource::User,
        description: None,
        max_tokens: 100,
        temperature: None,
        system_prompt: None,
        tools: None,
        budget: BudgetLimits::default(),
        max_run_tokens: None,
        run_timeout: Duration::from_secs(1800),
        context_window: 8192,
    }
}

fn catalogue(agent: &AgentSpec, extra_providers: &[&Arc<Lister>]) -> ModelCatalogue {
    let extra_providers = extra_providers.iter().map(|provider| -> Arc<dyn ModelProvider> { (*provider).clone() });
    ModelCatalogue::new(&[Arc::new(agent.clone())], extra_providers.collect(), Some(|name| name.len() as u32))
}

/// The provider and model chosen, or what is wrong with the name.
async fn chosen(catalogue: &ModelCatalogue, agent: &AgentSpec, named: &str) -> Result<(String, String), String> {
    let stop = CancellationToken::new();
    let selected = catalogue.select(agent, named).map_err(|error| error.message)?;
    catalogue.check_available(&selected, &stop).await.map_err(|error| {
        assert_eq!(error.kind, ErrorKind::Invalid);
        error.message
    })?;
    Ok((selected.provider.name().to_owned(), selected.model.to_string()))
}

#[tokio::test(start_paused = true)]
async fn names_are_divided_at_the_first_slash_and_bare_ones_are_the_agents() {
    let (main, hub) = (lister("main", Some(Ok(vec!["m-1", "m-2"]))), lister("hub", Some(Ok(vec!["org/x", "m-1"]))));
    let agent = agent(&main, "m-1");
    let catalogue = catalogue(&agent, &[&hub]);
    for (named, provider, model) in
        [("m-2", "main", "m-2"), ("main/m-2", "main", "m-2"), ("hub/m-1", "hub", "m-1"), ("hub/org/x", "hub", "org/x")]
    {
        assert_eq!(chosen(&catalogue, &agent, named).await, Ok((provider.to_owned(), model.to_owned())), "{named}");
    }
    for (named, problem) in [
        ("m-3", "unknown model `m-3`: provider `main` does not offer it; did you mean `main/m-1`?"),
        ("hub/zebra", "unknown model `zebra`: provider `hub` does not offer it; `patchboard models` lists them"),
        ("mian/m-1", "unknown model `mian/m-1`: no provider is named `mian`; did you mean `main`?"),
        (
            "org/x",
            "unknown model `org/x`: no provider is named `org`; there are `hub`, `main`; a model of `main` with a `/` \
             in its name is written `main/org/x`",
        ),
        ("main/", "`main/` names no model: write `PROVIDER/MODEL`, or `MODEL` for one of `main`"),
        ("/m-1", "`/m-1` names no model: write `PROVIDER/MODEL`, or `MODEL` for one of `main`"),
    ] {
        assert_eq!(chosen(&catalogue, &agent, named).await, Err(problem.to_owned()), "{named}");
    }
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    assert!(chosen(&catalogue, &agent, &long).await.unwrap_err().contains("longer than 256 bytes"));
}

#[tokio::test(start_paused = true)]
async fn the_window_is_that_of_the_chosen_model() {
    let main = lister("main", Some(Ok(vec!["m-1", "m-22"])));
    let agent = agent(&main, "m-1");
    let catalogue = catalogue(&agent, &[]);
    assert_eq!(catalogue.select(&agent, "m-1").unwrap().context_window, agent.context_window);
    assert_eq!(catalogue.select(&agent, "m-22").unwrap().context_window, 4);
}

#[tokio::test(start_paused = true)]
async fn models_of_a_provider_that_cannot_list_are_accepted_within_two_seconds() {
    let (hangs, refuses) = (lister("hangs", None), refusing("refuses"));
    let agent = agent(&hangs, "own");
    let catalogue = catalogue(&agent, &[&refuses]);
    let began = Instant::now();
    assert!(chosen(&catalogue, &agent, "anything").await.is_ok());
    assert!(chosen(&catalogue, &agent, "refuses/anything").await.is_ok());
    assert_eq!(began.elapsed(), LISTING_TIMEOUT);
    // Neither is asked again at once, however often a model of it is named.
    for _ in 0..10 {
        assert!(chosen(&catalogue, &agent, "another").await.is_ok());
    }
    assert_eq!(began.elapsed(), LISTING_TIMEOUT);
    assert_eq!(hangs.request_count.load(Ordering::Relaxed), 1);
    tokio::time::advance(FAILED_LISTING_TTL).await;
    assert!(chosen(&catalogue, &agent, "another").await.is_ok());
    assert_eq!(hangs.request_count.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn providers_are_asked_concurrently_and_lists_cached_for_five_minutes() {
    let (main, hangs) = (lister("main", Some(Ok(vec!["m-1:latest", "m-2"]))), lister("hangs", None));
    let also_hangs = lister("also", None);
    let agent = agent(&main, "m-1");
    let catalogue = catalogue(&agent, &[&hangs, &also_hangs]);
    let stop = CancellationToken::new();
    let began = Instant::now();
    let report = catalogue.list(&agent, &stop).await;
    assert_eq!(began.elapsed(), LISTING_TIMEOUT);
    let summary = |id: &str, is_default| ModelSummary {
        id: format!("main/{id}").into(),
        name: id.into(),
        provider: "main".into(),
        is_default,
    };
    let silent = |name: &str| UnlistedProvider { provider: name.into(), reason: "did not answer within 2 s".into() };
    let expected = ModelReport {
        models: vec![summary("m-1:latest", true), summary("m-2", false)],
        unavailable: vec![silent("hangs"), silent("also")],
    };
    assert_eq!(report, expected);
    *main.listing.lock().unwrap() = Some(Ok(vec!["m-1", "m-3"]));
    assert_eq!(catalogue.list(&agent, &stop).await, expected, "kept");
    tokio::time::advance(LISTING_TTL).await;
    let later = catalogue.list(&agent, &stop).await;
    assert_eq!(later.models, [summary("m-1", true), summary("m-3", false)]);
    assert_eq!(main.request_count.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_configured_model_is_shown_and_may_be_chosen_whatever_its_provider_says() {
    let refuses = refusing("refuses");
    let agent = agent(&refuses, "own");
    let catalogue = catalogue(&agent, &[]);
    let report = catalogue.list(&agent, &CancellationToken::new()).await;
    let expected =
        ModelSummary { id: "refuses/own".into(), name: "own".into(), provider: "refuses".into(), is_default: true };
    assert_eq!(report.models, [expected]);
    assert_eq!(&*report.unavailable[0].reason, "provider refused the request (404)");
    *refuses.listing.lock().unwrap() = Some(Ok(vec!["other"]));
    tokio::time::advance(FAILED_LISTING_TTL).await;
    assert!(chosen(&catalogue, &agent, "own").await.is_ok());
    assert!(chosen(&catalogue, &agent, "strange").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_ask_the_provider_once() {
    let main = lister("main", Some(Ok(vec!["m-1", "m-2"])));
    let agent = agent(&main, "m-1");
    let catalogue = catalogue(&agent, &[]);
    let request_count = (0..20).map(|_| chosen(&catalogue, &agent, "m-2"));
    assert!(join_all(request_count).await.iter().all(Result::is_ok));
    assert_eq!(main.request_count.load(Ordering::Relaxed), 1);
}

#[test]
fn short_names_mean_the_listed_model() {
    for (listed, requested, same) in [
        ("m", "m", true),
        ("llama3.2:latest", "llama3.2", true),
        ("llama3.2:1b", "llama3.2", false),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", true),
        ("claude-3-5-haiku-20241022", "claude-3-5-haiku-latest", true),
        ("claude-sonnet-4-5-2025092", "claude-sonnet-4-5", false),
        ("gpt-4o-mini", "gpt-4o", false),
        ("gpt-4o", "gpt-4", false),
    ] {
        assert_eq!(matches_listed_id(listed, requested), same, "{listed} {requested}");
    }
}
