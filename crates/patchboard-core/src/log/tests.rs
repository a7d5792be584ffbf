use futures_util::{FutureExt, StreamExt, future};
use proptest::prelude::*;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::*;
use crate::event::{Event, RunOutcome};
use crate::faulty::{FaultyStore, contains_event};
use crate::id::{RunId, SessionKey};
use crate::run_spec::StrategyKind;
use crate::scripted::ManualClock;
use crate::store::{RunRequests, RunRow};

type Followed = BoxStream<Result<Arc<Envelope>, BoardError>>;

fn topic(number: u128) -> Topic {
    Topic::Run(RunId(Uuid::from_u128(number)))
}

fn log_on(store: &Arc<FaultyStore>) -> Arc<EventLog> {
    Arc::new(EventLog::new(store.clone(), Arc::new(ManualClock::default())))
}

fn text(pieces: &[&str]) -> Event {
    Event::AnswerText(pieces.iter().copied().collect())
}

fn wide(pieces: usize) -> Event {
    Event::AnswerText(std::iter::repeat_n("x", pieces).collect())
}

fn last() -> Event {
    Event::RunEnded { outcome: RunOutcome::Completed }
}

async fn append(writer: &TopicWriter, events: Vec<Event>) {
    writer.append(events, vec![], Durability::Delta).await.unwrap();
}

/// What each number stands for, in short.
fn numbers(record: &Envelope) -> Vec<(u64, String)> {
    let words: Vec<String> = if let Event::AnswerText(pieces) = &record.event {
        pieces.iter().map(str::to_owned).collect()
    } else {
        vec![if record.event.ends_topic() { "end".to_owned() } else { format!("{:?}", record.event) }]
    };
    (record.seq.0..).zip(words).collect()
}

async fn read_all(followed: Followed) -> Vec<(u64, String)> {
    followed.flat_map(|record| futures_util::stream::iter(numbers(&record.unwrap()))).collect().await
}

fn now(followed: &mut Followed) -> Option<Vec<(u64, String)>> {
    followed.next().now_or_never().map(|record| record.map_or_else(Vec::new, |record| numbers(&record.unwrap())))
}

fn assert_gapless(read: &[(u64, String)], from: u64, to: u64) {
    let numbers: Vec<u64> = read.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (from..=to).collect::<Vec<u64>>());
}

#[tokio::test]
async fn every_piece_has_its_number_and_any_number_can_be_followed_from() {
    let store = FaultyStore::new();
    let log = log_on(&store);
    let writer = log.open(topic(1), Seq::FIRST);
    append(&writer, vec![text(&["a", "b", "c"]), Event::RunFailed { message: "m".into() }]).await;
    assert_eq!(writer.next_seq().await, Seq(5));
    append(&writer, vec![text(&["d", "e"])]).await;
    append(&writer, vec![last()]).await;
    let whole = read_all(log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced)).await;
    let words: Vec<&str> = whole.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(words, ["a", "b", "c", r#"RunFailed { message: "m" }"#, "d", "e", "end"]);
    assert_gapless(&whole, 1, 7);
    for place in ["tail", "store"] {
        for from in 1..=8 {
            let read = read_all(log.follow(&topic(1), Seq(from), FollowerPacing::Unpaced)).await;
            assert_eq!(read, whole[from as usize - 1..], "from {from} in the {place}");
        }
        if place == "tail" {
            assert_eq!(store.replays(), 0, "whoever keeps up does not cost the store a read");
            log.close(&writer.live);
        }
    }
    drop(writer);
    assert_eq!(
        read_all(log.follow(&topic(2), Seq::FIRST, FollowerPacing::Unpaced)).await,
        [],
        "an unknown topic is empty"
    );
}

#[tokio::test]
async fn a_dropped_writer_does_not_close_its_successor() {
    let log = log_on(&FaultyStore::new());
    let first = log.open(topic(1), Seq::FIRST);
    append(&first, vec![text(&["a"])]).await;
    let second = log.open(topic(1), Seq(2));
    drop(first);
    let followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&second, vec![text(&["b"]), last()]).await;
    assert_gapless(&read_all(followed).await, 1, 3);
}

#[tokio::test]
async fn from_before_the_first_is_from_the_first() {
    let log = log_on(&FaultyStore::new());
    let writer = log.open(topic(1), Seq::FIRST);
    let early = log.follow(&topic(1), Seq(0), FollowerPacing::Unpaced);
    append(&writer, vec![text(&["a"]), last()]).await;
    let late = log.follow(&topic(1), Seq(0), FollowerPacing::Unpaced);
    assert_gapless(&read_all(early).await, 1, 2);
    assert_gapless(&read_all(late).await, 1, 2);
}

#[tokio::test]
async fn from_a_number_not_yet_given_waits_for_it() {
    let log = log_on(&FaultyStore::new());
    let writer = log.open(topic(1), Seq::FIRST);
    let mut ahead = log.follow(&topic(1), Seq(4), FollowerPacing::Unpaced);
    let mut beyond = log.follow(&topic(1), Seq(90), FollowerPacing::Unpaced);
    assert_eq!((now(&mut ahead), now(&mut beyond)), (None, None));
    append(&writer, vec![text(&["a", "b"])]).await;
    assert_eq!(now(&mut ahead), None);
    append(&writer, vec![text(&["c", "d", "e"]), last()]).await;
    assert_eq!(now(&mut ahead), Some(vec![(4, "d".into()), (5, "e".into())]));
    assert_eq!(read_all(beyond).await, [], "it ends with the run");
}

#[tokio::test]
async fn a_topic_opened_again_goes_on_where_it_stopped() {
    let store = FaultyStore::new();
    let log = log_on(&store);
    append(&log.open(topic(1), Seq::FIRST), vec![text(&["a", "b"])]).await;
    let writer = log.open(topic(1), Seq(3));
    let followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![last()]).await;
    assert_gapless(&read_all(followed).await, 1, 3);
}

#[tokio::test]
async fn a_follower_far_behind_reads_the_store_and_then_the_tail_again() {
    let store = FaultyStore::new();
    let log = log_on(&store);
    let writer = log.open(topic(1), Seq::FIRST);
    let mut slow = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![text(&["first"])]).await;
    assert_eq!(now(&mut slow), Some(vec![(1, "first".into())]));
    let records = (TAIL_RECORDS + REPLAY_RECORDS) as u64 * 2;
    for _ in 0..records {
        append(&writer, vec![text(&["x", "y"])]).await;
    }
    assert_eq!(lock_unpoisoned(&writer.live.tail).records.len(), TAIL_RECORDS, "the tail is bounded");
    append(&writer, vec![last()]).await;
    assert_gapless(&read_all(slow).await, 2, records * 2 + 2);
    let from_store = records as usize + 1 - TAIL_RECORDS;
    assert_eq!(store.replays(), from_store.div_ceil(REPLAY_RECORDS));
}

#[tokio::test]
async fn a_failed_commit_takes_no_number_and_is_not_published() {
    let store = FaultyStore::new();
    let log = log_on(&store);
    let writer = log.open(topic(1), Seq::FIRST);
    let mut followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![text(&["a"])]).await;
    assert!(now(&mut followed).is_some());
    store.fail(|batch| contains_event(batch, |event| matches!(event, Event::AnswerText(_))));
    let error = writer.append(vec![text(&["lost", "lost"])], vec![], Durability::Delta).await.unwrap_err();
    assert_eq!(error.message, "storage: failed to commit a batch");
    assert_eq!(now(&mut followed), None);
    assert_eq!(writer.next_seq().await, Seq(2));
    append(&writer, vec![last()]).await;
    assert_eq!(read_all(followed).await, [(2, "end".into())]);
}

#[tokio::test]
async fn nothing_is_published_before_it_is_stored() {
    let store = FaultyStore::new();
    let log = log_on(&store);
    let writer = log.open(topic(1), Seq::FIRST);
    let mut followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    let gate = store.block_commits();
    let mut append = std::pin::pin!(writer.append(vec![last()], vec![], Durability::Boundary));
    assert!((&mut append).now_or_never().is_none());
    assert_eq!(now(&mut followed), None);
    gate.add_permits(1);
    append.await.unwrap();
    assert_eq!(now(&mut followed), Some(vec![(1, "end".into())]));
}

#[tokio::test]
async fn a_writer_that_goes_away_ends_its_followers() {
    let log = log_on(&FaultyStore::new());
    let writer = log.open(topic(1), Seq::FIRST);
    let waiting = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    let behind = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    let mut waiting = waiting.peekable();
    append(&writer, vec![text(&["a"])]).await;
    assert!(waiting.next().await.is_some());
    let mut next = std::pin::pin!(waiting.next());
    assert!((&mut next).now_or_never().is_none());
    drop(writer);
    assert!(next.await.is_none(), "nobody waits for ever");
    assert_gapless(&read_all(behind).await, 1, 1);
    assert!(lock_unpoisoned(&log.live).is_empty(), "a topic nobody writes to takes no memory");
}

async fn open_run(store: &Arc<FaultyStore>) {
    let row = RunRow {
        run: RunId(Uuid::from_u128(1)),
        session: SessionKey::conversation("default", "web", "a", "main"),
        principal: "local".into(),
        client_id: "1".into(),
        surface: "gateway".into(),
        agent: "default".into(),
        strategy: StrategyKind::React,
        started_at: Timestamp::UNIX_EPOCH,
        input: "hi".into(),
        state: RunState::Running,
        requests: RunRequests::default(),
    };
    store.commit(WriteBatch::boundary(vec![StoreWrite::OpenRun(row)])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn followers_of_a_run_whose_end_could_not_be_stored_do_not_wait_for_it() {
    let store = FaultyStore::new();
    open_run(&store).await;
    let log = log_on(&store);
    let writer = log.open(topic(1), Seq::FIRST);
    let mut followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![text(&["a"])]).await;
    assert!(followed.next().await.is_some());
    drop(writer);
    assert!(timeout(Duration::from_secs(60), followed.next()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn followers_of_a_run_that_another_process_took_over_read_on() {
    let store = FaultyStore::new();
    open_run(&store).await;
    let (log, other) = (log_on(&store), log_on(&store));
    let writer = log.open(topic(1), Seq::FIRST);
    let mut followed = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![text(&["a"])]).await;
    assert!(followed.next().await.is_some());
    log.tenure().observe(&StoreError::Fenced);
    drop(writer);
    assert!(timeout(Duration::from_secs(60), followed.next()).await.is_err(), "it is not over yet");
    append(&other.open(topic(1), Seq(2)), vec![last()]).await;
    assert_eq!(numbers(&followed.next().await.unwrap().unwrap()), [(2, "end".to_owned())]);
    assert!(followed.next().await.is_none());
}

/// The writer waits (`true`) or not.
fn waits(writer: &TopicWriter) -> bool {
    writer.wait_for_follower().now_or_never().is_none()
}

#[tokio::test]
async fn only_the_pacing_follower_holds_the_writer_back() {
    let log = log_on(&FaultyStore::new());
    let writer = log.open(topic(1), Seq::FIRST);
    let _idle = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    append(&writer, vec![wide(PACING_LEAD as usize); 3]).await;
    assert!(!waits(&writer), "whoever sets no pace may fall behind");

    let mut pacing = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Paced);
    assert!(waits(&writer));
    let mut room = std::pin::pin!(writer.wait_for_follower());
    assert!((&mut room).now_or_never().is_none());
    now(&mut pacing).unwrap();
    assert!(waits(&writer), "a record that was taken is dealt with when the next one is asked for");
    now(&mut pacing).unwrap();
    assert!(waits(&writer), "two records behind");
    now(&mut pacing).unwrap();
    (&mut room).now_or_never().expect("one record behind is close enough");

    append(&writer, vec![wide(PACING_LEAD as usize)]).await;
    assert!(waits(&writer));
    let mut room = std::pin::pin!(writer.wait_for_follower());
    assert!((&mut room).now_or_never().is_none());
    drop(pacing);
    (&mut room).now_or_never().expect("a follower that is gone paces nobody");
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_orphaned_when_nobody_followed_it_for_the_grace() {
    let grace = Duration::from_secs(60);
    let log = log_on(&FaultyStore::new());
    let writer = log.open(topic(1), Seq::FIRST);

    let start = Instant::now();
    writer.wait_until_unfollowed(grace).await;
    assert_eq!(start.elapsed(), grace, "never followed");

    let first = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Paced);
    let second = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    let mut orphaned = std::pin::pin!(writer.wait_until_unfollowed(grace));
    assert!(timeout(grace * 100, &mut orphaned).await.is_err(), "followed");
    drop(first);
    assert!(timeout(grace * 100, &mut orphaned).await.is_err(), "still followed");
    drop(second);
    assert!(timeout(grace - Duration::from_secs(1), &mut orphaned).await.is_err(), "within the grace");
    let back = log.follow(&topic(1), Seq::FIRST, FollowerPacing::Unpaced);
    assert!(timeout(grace * 100, &mut orphaned).await.is_err(), "followed again");
    let start = Instant::now();
    drop(back);
    timeout(grace * 100, &mut orphaned).await.expect("nobody follows");
    assert_eq!(start.elapsed(), grace, "the grace begins anew");
}

#[derive(Debug, Clone)]
struct Joins {
    after_yields: usize,
    from: u64,
}

fn joins() -> impl Strategy<Value = Joins> {
    (0usize..1500, 1u64..1500).prop_map(|(after_yields, from)| Joins { after_yields, from })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whenever a follower joins and wherever it starts, it reads every number from there on, once.
    #[test]
    fn followers_never_miss_or_repeat(
        batches in proptest::collection::vec(proptest::collection::vec(1usize..4, 1..4), 1..400),
        followers in proptest::collection::vec(joins(), 1..6),
        delay in 0usize..3,
    ) {
        let total: usize = batches.iter().flatten().sum::<usize>() + 1;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = FaultyStore::slow(delay);
        let log = log_on(&store);
        let writer = log.open(topic(1), Seq::FIRST);
        let write = async {
            for batch in &batches {
                append(&writer, batch.iter().map(|&pieces| wide(pieces)).collect()).await;
            }
            append(&writer, vec![last()]).await;
            drop(writer);
        };
        let read = future::join_all(followers.iter().map(|joins| async {
            for _ in 0..joins.after_yields {
                tokio::task::yield_now().await;
            }
            read_all(log.follow(&topic(1), Seq(joins.from), FollowerPacing::Unpaced)).await
        }));
        let ((), read) = runtime.block_on(future::join(write, read));
        for (joins, read) in followers.iter().zip(read) {
            assert_gapless(&read, joins.from, total as u64);
        }
    }
}

/// A follower that sees the end must see everything before it too, on whatever thread it looks.
#[test]
fn the_end_is_never_seen_before_the_last_number() {
    const ROUNDS: u128 = 500;
    let log = log_on(&FaultyStore::new());
    for round in 0..ROUNDS {
        let writer = log.open(topic(round), Seq::FIRST);
        let record = Envelope { topic: topic(round), seq: Seq::FIRST, at: log.clock.now(), node: None, event: last() };
        std::thread::scope(|threads| {
            let live = &writer.live;
            threads.spawn(move || live.publish(vec![Arc::new(record)], Seq(2)));
            let mut follower = TopicFollower {
                log: log.clone(),
                topic: topic(round),
                live: Some(live.clone()),
                head: Some(live.head.subscribe()),
                pace: FollowerPacing::Unpaced,
                next: Seq::FIRST,
                replayed: VecDeque::new(),
                writer_failed: false,
                ended: false,
            };
            loop {
                match follower.locate_next() {
                    NextRecord::Pending => std::hint::spin_loop(),
                    NextRecord::Record(record) => break assert_eq!(record.seq, Seq::FIRST),
                    NextRecord::InStore | NextRecord::Ended | NextRecord::WriterGone | NextRecord::Suspended => {
                        panic!("the last event was lost in round {round}")
                    }
                }
            }
        });
    }
}
