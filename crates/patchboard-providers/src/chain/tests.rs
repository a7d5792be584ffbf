use std::sync::Mutex;

use futures_util::stream;
use patchboard_core::model::{ModelMessage, StopReason, TokenCount};

use super::*;
use crate::tests::fixture::request;

/// What one attempt does: takes a while, then fails, or answers with these events.
struct Act {
    takes: Duration,
    outcome: Result<Vec<Result<ModelEvent, ModelError>>, UpstreamFailure>,
}

/// Plays its acts in order, again and again the last one, and notes when it was asked for what.
#[derive(Clone)]
struct Scripted {
    name: &'static str,
    acts: Arc<Mutex<VecDeque<Act>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    began: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    at: Duration,
    model: String,
    connect_within: Duration,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Scripted {
    fn new(name: &'static str, acts: impl IntoIterator<Item = Act>) -> Self {
        let acts = Arc::new(Mutex::new(acts.into_iter().collect()));
        Self { name, acts, asked: Arc::default(), began: Instant::now() }
    }

    fn link(&self) -> ChainLink {
        ChainLink::new(Arc::new(self.clone()), ModelOverride::Requested)
    }

    /// Milliseconds after the start at which it was asked.
    fn times(&self) -> Vec<u128> {
        self.asked.lock().unwrap().iter().map(|asked| asked.at.as_millis()).collect()
    }
}

impl Upstream for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        match self.acts.lock().unwrap().is_empty() {
            true => Err(ModelError::NotConfigured(format!("{} has no key", self.name))),
            false => Ok(()),
        }
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        _stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(Asked {
                at: self.began.elapsed(),
                model: request.model.to_string(),
                connect_within: limits.connect_within,
            });
            let act = {
                let mut acts = self.acts.lock().unwrap();
                let act = acts.pop_front().unwrap();
                if acts.is_empty() {
                    acts.push_back(Act { takes: act.takes, outcome: act.outcome.clone() });
                }
                act
            };
            let takes = match &act.outcome {
                Err(UpstreamFailure { delivery: RequestDelivery::NotReceived, .. }) => {
                    act.takes.min(limits.connect_within)
                }
                Ok(_) | Err(_) => act.takes,
            };
            tokio::time::sleep(takes).await;
            let stream: ModelStream = Box::pin(stream::iter(act.outcome?));
            Ok(stream)
        })
    }
}

fn answering(name: &str) -> ModelEvent {
    ModelEvent::ModelSelected { provider: name.into(), model: "test-model".into() }
}

fn word(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

const END: ModelEvent = ModelEvent::Stop(StopReason::EndOfTurn);

fn answers(name: &str) -> Act {
    answers_after(name, Duration::ZERO)
}

fn answers_after(name: &str, takes: Duration) -> Act {
    Act { takes, outcome: Ok(vec![Ok(answering(name)), Ok(word("hello")), Ok(END)]) }
}

fn breaks_off(events: Vec<ModelEvent>, error: ModelError) -> Act {
    let events = events.into_iter().map(Ok).chain([Err(error)]).collect();
    Act { takes: Duration::ZERO, outcome: Ok(events) }
}

fn fails(again: RetryAdvice) -> Act {
    fails_after(Duration::ZERO, again, RequestDelivery::Received)
}

fn fails_after(takes: Duration, again: RetryAdvice, reached: RequestDelivery) -> Act {
    let error = ModelError::Unavailable("503 Service Unavailable".to_owned());
    Act { takes, outcome: Err(UpstreamFailure { error, retry: again, delivery: reached }) }
}

const HERE: RetryAdvice = RetryAdvice::SameProvider { after: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn chain(links: &[&Scripted]) -> Chain {
    let (first, rest) = links.split_first().unwrap();
    // Waits of 400, 800 and 1600 ms.
    let options = ChainOptions { jitter: Jitter::from_fn(|| 1.0), ..ChainOptions::default() };
    Chain::new(first.link(), rest.iter().map(|link| link.link()).collect(), options)
}

async fn ask(chain: &Chain) -> Result<Vec<Result<ModelEvent, ModelError>>, ModelError> {
    let stream = chain.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await?;
    Ok(stream.collect().await)
}

fn whole(name: &str) -> Result<Vec<Result<ModelEvent, ModelError>>, ModelError> {
    Ok(vec![Ok(answering(name)), Ok(word("hello")), Ok(END)])
}

#[tokio::test(start_paused = true)]
async fn it_tries_again_with_growing_waits() {
    let one = Scripted::new("one", [fails(HERE), fails(HERE), fails(HERE), answers("one")]);
    assert_eq!(ask(&chain(&[&one])).await, whole("one"));
    assert_eq!(one.times(), [0, 400, 1200, 2800]);
}

#[tokio::test(start_paused = true)]
async fn chance_takes_up_to_half_of_a_wait() {
    let one = Scripted::new("one", [fails(HERE), answers("one")]);
    let mut chain = chain(&[&one]);
    chain.options.jitter = Jitter::from_fn(|| 0.0);
    assert_eq!(ask(&chain).await, whole("one"));
    assert_eq!(one.times(), [0, 200]);
    let random = Jitter::random();
    for _ in 0..100 {
        assert!((0.0..1.0).contains(&(random.0)()));
    }
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_within_its_patience() {
    let one = Scripted::new("one", [fails_after(Duration::from_millis(1500), HERE, RequestDelivery::Received)]);
    let began = Instant::now();
    assert_eq!(ask(&chain(&[&one])).await, Err(ModelError::Unavailable("503 Service Unavailable".to_owned())));
    assert_eq!(one.times(), [0, 1900, 4200]);
    assert!(began.elapsed() < seconds(8));
}

#[tokio::test(start_paused = true)]
async fn it_waits_as_long_as_the_provider_asks() {
    let one = Scripted::new("one", [fails(RetryAdvice::SameProvider { after: Some(seconds(5)) }), answers("one")]);
    assert_eq!(ask(&chain(&[&one])).await, whole("one"));
    assert_eq!(one.times(), [0, 5000]);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_what_comes_too_late() {
    let one = Scripted::new("one", [fails(RetryAdvice::SameProvider { after: Some(seconds(7)) })]);
    let two = Scripted::new("two", [answers("two")]);
    assert_eq!(ask(&chain(&[&one, &two])).await, whole("two"));
    assert_eq!((one.times(), two.times()), (vec![0], vec![0]));
}

#[tokio::test(start_paused = true)]
async fn one_retry_then_the_next_provider() {
    let one = Scripted::new("one", [fails(HERE)]);
    let two = Scripted::new("two", [answers("two")]);
    assert_eq!(ask(&chain(&[&one, &two])).await, whole("two"));
    assert_eq!((one.times(), two.times()), (vec![0, 400], vec![400]));
}

#[tokio::test(start_paused = true)]
async fn what_another_may_do_better_goes_there_at_once() {
    let one = Scripted::new("one", [fails(RetryAdvice::OtherProvider)]);
    let two = Scripted::new("two", [answers("two")]);
    assert_eq!(ask(&chain(&[&one, &two])).await, whole("two"));
    assert_eq!(two.times(), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_everywhere_is_not_tried_elsewhere() {
    let one = Scripted::new("one", [fails(RetryAdvice::Never)]);
    let two = Scripted::new("two", [answers("two")]);
    assert_eq!(ask(&chain(&[&one, &two])).await, Err(ModelError::Unavailable("503 Service Unavailable".to_owned())));
    assert!(two.times().is_empty());
}

#[tokio::test(start_paused = true)]
async fn all_failures_are_told() {
    let one = Scripted::new("one", [fails(HERE)]);
    let two = Scripted::new("two", [breaks_off(vec![], ModelError::Timeout("provider request timed out".into()))]);
    let expected = "one: 503 Service Unavailable; two: provider request timed out".to_owned();
    assert_eq!(ask(&chain(&[&one, &two])).await, Err(ModelError::Timeout(expected)));
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_is_never_cut() {
    let one = Scripted::new("one", [fails(HERE), answers_after("one", seconds(40))]);
    assert_eq!(ask(&chain(&[&one])).await, whole("one"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_kept_silent_leaves_time_for_the_next() {
    let one = Scripted::new("one", [fails_after(seconds(45), RetryAdvice::OtherProvider, RequestDelivery::Received)]);
    let two = Scripted::new("two", [fails(HERE), answers("two")]);
    let three = Scripted::new("three", [answers("three")]);
    assert_eq!(ask(&chain(&[&one, &two, &three])).await, whole("three"));
    // The call is too old for a retry, not for a provider that has not been asked.
    assert_eq!((two.times(), three.times()), (vec![45_000], vec![45_000]));
}

#[tokio::test(start_paused = true)]
async fn time_lost_connecting_is_lost() {
    let one = Scripted::new("one", [fails_after(seconds(5), HERE, RequestDelivery::NotReceived)]);
    let two = Scripted::new("two", [fails_after(seconds(5), HERE, RequestDelivery::NotReceived)]);
    let three = Scripted::new("three", [answers("three")]);
    let chain = chain(&[&one, &two, &three]);
    let began = Instant::now();
    assert!(ask(&chain).await.is_err());
    assert_eq!(began.elapsed(), seconds(8));
    let asked = |scripted: &Scripted| scripted.asked.lock().unwrap().first().map(|asked| asked.connect_within);
    assert_eq!((asked(&one), asked(&two), asked(&three)), (Some(seconds(8)), Some(seconds(3)), None));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_before_its_first_word_is_tried_again() {
    let figures = |input| ModelEvent::Usage(TokenCount { input, output: 0 });
    let cut = || ModelError::Truncated("cut".to_owned());
    let one = Scripted::new(
        "one",
        [
            breaks_off(vec![answering("one"), figures(1)], cut()),
            Act { takes: Duration::ZERO, outcome: Ok(vec![]) },
            Act {
                takes: Duration::ZERO,
                outcome: Ok(vec![Ok(answering("one")), Ok(figures(2)), Ok(figures(3)), Ok(word("hello")), Ok(END)]),
            },
        ],
    );
    let expected = vec![Ok(answering("one")), Ok(figures(3)), Ok(word("hello")), Ok(END)];
    assert_eq!(ask(&chain(&[&one])).await, Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_later_is_not() {
    let piece = ModelEvent::ToolCallChunk { index: 0, name: "weather".into(), text: String::new() };
    for first in [word("hel"), ModelEvent::Thought("hm".to_owned()), piece] {
        let cut = ModelError::Truncated("cut".to_owned());
        let one =
            Scripted::new("one", [breaks_off(vec![answering("one"), first.clone()], cut.clone()), answers("one")]);
        let two = Scripted::new("two", [answers("two")]);
        assert_eq!(ask(&chain(&[&one, &two])).await, Ok(vec![Ok(answering("one")), Ok(first), Err(cut)]));
        assert_eq!((one.times().len(), two.times().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_an_answer() {
    let one = Scripted::new("one", [Act { takes: Duration::ZERO, outcome: Ok(vec![Ok(answering("one")), Ok(END)]) }]);
    assert_eq!(ask(&chain(&[&one])).await, Ok(vec![Ok(answering("one")), Ok(END)]));
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_a_key_is_passed_over() {
    let keyless = Scripted::new("one", []);
    let two = Scripted::new("two", [answers("two")]);
    let missing = ModelError::NotConfigured("one has no key".to_owned());

    let both = chain(&[&keyless, &two]);
    assert_eq!((both.name(), both.check()), ("one", Ok(())));
    assert_eq!(ask(&both).await, whole("two"));

    let alone = chain(&[&keyless]);
    assert_eq!((alone.check(), ask(&alone).await), (Err(missing.clone()), Err(missing)));
}

#[tokio::test(start_paused = true)]
async fn each_link_has_its_model() {
    let scripted = Scripted::new("one", [fails(RetryAdvice::OtherProvider)]);
    let link = |model| ChainLink { model, ..scripted.link() };
    let fallbacks = vec![
        link(ModelOverride::ProviderDefault),
        link(ModelOverride::Named("other".into())),
        link(ModelOverride::Requested),
    ];
    let chain = Chain::new(link(ModelOverride::Requested), fallbacks, ChainOptions::default());
    assert!(ask(&chain).await.is_err());
    let models: Vec<String> = scripted.asked.lock().unwrap().iter().map(|asked| asked.model.clone()).collect();
    assert_eq!(models, ["test-model", "", "other", "test-model"]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_waits_and_attempts() {
    for act in [fails(HERE), answers_after("one", seconds(1000))] {
        let one = Scripted::new("one", [act]);
        let chain = chain(&[&one]);
        let stop = CancellationToken::new();
        let asking = chain.stream(request(vec![ModelMessage::user("hello")]), stop.clone());
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            stop.cancel();
        };
        let began = Instant::now();
        let (asked, ()) = tokio::join!(asking, cancelling);
        assert_eq!(asked.err(), Some(ModelError::Cancelled));
        assert_eq!(began.elapsed(), Duration::from_millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn any_provider_can_be_a_link() {
    let inner = chain(&[&Scripted::new("inner", [answers("inner")])]);
    let link = ChainLink::new(Arc::new(crate::ProviderUpstream(Arc::new(inner))), ModelOverride::Requested);
    let outer = Chain::new(link, vec![], ChainOptions::default());
    assert_eq!((outer.name(), ask(&outer).await), ("inner", whole("inner")));
}
