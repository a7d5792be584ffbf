//! The notifier with sinks, on paused time.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::*;
use crate::app::NoticePriority;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// A sink that shows as often as a permit is given, and fails on demand.
#[derive(Debug)]
struct TestSink {
    name: &'static str,
    seen: Mutex<Vec<String>>,
    allowed: Semaphore,
    failing: Mutex<bool>,
}

impl TestSink {
    fn new(name: &'static str, allowed: usize) -> Arc<Self> {
        let allowed = Semaphore::new(allowed);
        Arc::new(Self { name, seen: Mutex::default(), allowed, failing: Mutex::default() })
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl NoticeSink for TestSink {
    fn name(&self) -> &'static str {
        self.name
    }

    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            tokio::select! {
                permit = self.allowed.acquire() => permit.unwrap().forget(),
                () = stop.cancelled() => return Err("stopped".to_owned()),
            }
            if *self.failing.lock().unwrap() {
                return Err("it is broken".to_owned());
            }
            self.seen.lock().unwrap().push(format!("{}: {}", notice.title, notice.body));
            Ok(())
        })
    }
}

fn note(body: &str, priority: NoticePriority) -> UserNotice {
    let at = Timestamp::UNIX_EPOCH;
    UserNotice { app: Some("a".into()), title: "a".into(), body: body.into(), priority, message: None, at }
}

struct Running {
    desktop: Arc<Notifier>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    fn start(options: NoticeOptions, sinks: Vec<Arc<dyn NoticeSink>>) -> Self {
        let desktop = Arc::new(Notifier::new(options, sinks, Arc::new(FixedClock)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (running, until) = (desktop.clone(), stop.clone());
        tasks.spawn(async move { running.run(until).await });
        Self { desktop, stop, tasks }
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Time is paused: it advances when all tasks wait, so after this everything due by then has happened.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn busy() -> NoticeOptions {
    NoticeOptions { per_minute: 1000, ..NoticeOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_holds_up_no_other() {
    let (slow, quick) = (TestSink::new("webhook", 0), TestSink::new("console", 1000));
    let running = Running::start(busy(), vec![slow.clone(), quick.clone()]);
    for number in 1..=3 {
        running.desktop.post(note(&number.to_string(), NoticePriority::Normal));
    }
    pass(1).await;
    assert_eq!(quick.seen(), ["a: 1", "a: 2", "a: 3"]);
    assert!(slow.seen().is_empty());
    slow.allowed.add_permits(10);
    pass(1).await;
    assert_eq!(slow.seen(), quick.seen());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_due_later_comes_by_itself() {
    let sink = TestSink::new("console", 1000);
    let running = Running::start(NoticeOptions::default(), vec![sink.clone()]);
    running.desktop.post(note("low", NoticePriority::Low));
    running.desktop.post(note("same", NoticePriority::High));
    running.desktop.post(note("same", NoticePriority::High));
    pass(4).await;
    assert_eq!(sink.seen(), ["a: same"]);
    pass(2).await;
    assert_eq!(sink.seen(), ["a: same", "a: same (once more)"]);
    pass(25).await;
    assert_eq!(sink.seen(), ["a: same", "a: same (once more)", "a: low"]);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn more_than_a_sink_can_queue_is_counted_and_told() {
    let slow = TestSink::new("webhook", 0);
    let running = Running::start(busy(), vec![slow.clone()]);
    let posted = sink_worker::MAX_QUEUED + 40;
    for number in 0..posted {
        running.desktop.post(note(&number.to_string(), NoticePriority::Normal));
        tokio::task::yield_now().await;
    }
    pass(1).await;
    slow.allowed.add_permits(10_000);
    pass(1).await;
    let seen = slow.seen();
    let (missed_text, shown) = seen.split_last().unwrap();
    // One was being shown, the rest were queued.
    assert_eq!(shown.len(), sink_worker::MAX_QUEUED + 1);
    assert_eq!(
        missed_text,
        "39 notices missing here: 39 notices could not be shown here; see `patchboard hub messages`"
    );
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_failed_says_so_when_it_is_back() {
    let sink = TestSink::new("desktop", 1000);
    let running = Running::start(busy(), vec![sink.clone()]);
    *sink.failing.lock().unwrap() = true;
    running.desktop.post(note("1", NoticePriority::Normal));
    running.desktop.post(note("2", NoticePriority::Normal));
    pass(1).await;
    *sink.failing.lock().unwrap() = false;
    pass(100).await;
    assert!(sink.seen().is_empty());
    running.desktop.post(note("3", NoticePriority::Normal));
    pass(1).await;
    let missed_text = "2 notices missing here: 2 notices could not be shown here; see `patchboard hub messages`";
    assert_eq!(sink.seen(), ["a: 3", missed_text]);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_shows_what_waits_and_lets_nobody_hang() {
    let (stuck, quick) = (TestSink::new("webhook", 0), TestSink::new("console", 1000));
    let running = Running::start(NoticeOptions::default(), vec![stuck.clone(), quick.clone()]);
    running.desktop.post(note("low", NoticePriority::Low));
    pass(1).await;
    assert!(quick.seen().is_empty());
    let before = Instant::now();
    running.end().await;
    assert_eq!((quick.seen(), stuck.seen().len()), (vec!["a: low".to_owned()], 0));
    assert_eq!(before.elapsed(), SHUTDOWN_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn with_quick_sinks_the_end_is_quick() {
    let sink = TestSink::new("console", 1000);
    let running = Running::start(NoticeOptions::default(), vec![sink.clone()]);
    running.desktop.post(note("last", NoticePriority::Normal));
    let before = Instant::now();
    running.end().await;
    assert_eq!((sink.seen(), before.elapsed()), (vec!["a: last".to_owned()], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn what_is_posted_before_the_start_is_shown() {
    let sink = TestSink::new("console", 1000);
    let desktop = Notifier::new(NoticeOptions::default(), vec![sink.clone()], Arc::new(FixedClock));
    desktop.post(note("early", NoticePriority::Normal));
    let stop = CancellationToken::new();
    stop.cancel();
    desktop.run(stop).await;
    assert_eq!(sink.seen(), ["a: early"]);
}
