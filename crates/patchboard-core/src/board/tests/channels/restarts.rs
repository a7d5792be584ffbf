//! Whatever ends a process, the next one goes on with what is on record.

use super::*;
use crate::board::AdoptionReport;

fn is_delivery(batch: &WriteBatch, wanted: DeliveryState) -> bool {
    batch.writes.iter().any(|write| matches!(write, StoreWrite::Delivery(row) if row.state == wanted))
}

#[tokio::test(start_paused = true)]
async fn cut_anywhere_it_ends_the_same() {
    let whole = office([two_lines()]);
    whole.accept("1", "hi").await;
    whole.done().await;
    let journal = whole.bench.store.journal();
    let begun =
        journal.iter().position(|batch| matches!(batch.writes[..], [_, StoreWrite::OpenRun(_), ..])).unwrap() + 1;
    let said = journal
        .iter()
        .position(|batch| batch.writes.iter().any(|write| matches!(write, StoreWrite::CloseRun { .. })))
        .unwrap()
        + 1;
    let answered = journal.iter().position(|batch| is_delivery(batch, DeliveryState::Answered)).unwrap() + 1;
    assert!(1 < begun && begun < said && said < answered && answered + 1 < journal.len());
    for kept in 1..=journal.len() {
        let next = next_office(after(&journal[..kept]).await, 1_000_000, [two_lines()]);
        let AdoptionReport { deliveries, .. } = next.bench.board.adopt().await.unwrap();
        next.done().await;
        assert_eq!(deliveries, usize::from(kept < journal.len()), "cut after {kept}");
        assert_eq!(next.asked().len(), usize::from(kept < said), "asked only if nothing was answered: {kept}");
        let expected: &[&str] = match kept {
            kept if kept == journal.len() => &[],
            // One was out and on record.
            kept if kept > answered => &["two"],
            _ => &["one", "two"],
        };
        assert_eq!(next.host.sent(), expected, "cut after {kept}");
        assert_eq!(next.state("1").await, (DeliveryState::Sent, None), "cut after {kept}");
        assert_eq!(next.post(&from_ann("1", "hi")).await.unwrap(), WebhookOutcome::Duplicate);
        let turns = next.bench.store.turns(turns_of_ann()).await.unwrap().items;
        assert_eq!(turns.len(), 1, "said once, whatever happened: {kept}");
    }
}

fn turns_of_ann() -> crate::store::TurnQuery {
    let session = SessionKey::conversation("default", "tg", "ann", "room");
    crate::store::TurnQuery { session, limit: 10, before: None }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_ends_its_process_twice_is_not_tried_a_third_time() {
    let first = office([vec![closed_gate().1]]);
    first.accept("1", "hi").await;
    let_others_run().await;
    let second = next_office(after(&first.bench.store.journal()).await, 1_000_000, [vec![closed_gate().1]]);
    second.bench.board.adopt().await.unwrap();
    let_others_run().await;
    assert_eq!(second.asked(), ["hi"]);
    let third = next_office(after(&second.bench.store.journal()).await, 2_000_000, []);
    third.bench.board.adopt().await.unwrap();
    third.done().await;
    assert_eq!(third.asked(), [""; 0]);
    assert_eq!(third.replies(), ["! The answer was interrupted; please ask again."]);
    assert_eq!(third.state("1").await, (DeliveryState::Sent, None));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_before_is_told_and_not_asked_again() {
    let fails = vec![answering(), ScriptStep::Fail(ModelError::Unavailable("connection refused".into()))];
    let first = office([fails]);
    first.bench.store.fail(|batch| is_delivery(batch, DeliveryState::Answered));
    first.accept("1", "hi").await;
    first.done().await;
    let next = next_office(after(&first.bench.store.journal()).await, 1_000_000, []);
    next.bench.board.adopt().await.unwrap();
    next.done().await;
    let told = "! The language model cannot be reached at the moment; please try again later.";
    assert_eq!((next.asked().len(), next.replies()), (0, vec![told.to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_keeps_its_order() {
    let first = office([vec![closed_gate().1]]);
    for content in ["a", "b", "c"] {
        first.accept(content, content).await;
    }
    let_others_run().await;
    let next = next_office(after(&first.bench.store.journal()).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 3);
    next.done().await;
    assert_eq!(next.asked(), ["a", "b", "c"]);
    assert_eq!(next.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_what_is_under_way_end() {
    let (gate, wait) = closed_gate();
    let office = office([say_and_wait(&["said"], wait)]);
    office.accept("1", "a").await;
    office.accept("2", "b").await;
    let_others_run().await;
    let drain = office.bench.board.drain(Duration::from_secs(10));
    let (drained, refused) = tokio::join!(drain, async {
        let refused = office.post(&from_ann("3", "c")).await;
        gate.add_permits(1);
        refused
    });
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(drained.unwrap(), DrainReport { cancelled: 0, suspended: 0 });
    assert_eq!(office.host.sent(), ["said"]);
    let next = next_office(after(&office.bench.store.journal()).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 1);
    next.done().await;
    assert_eq!((next.asked(), next.host.sent()), (vec!["b".to_owned()], vec!["ok".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_goes_on_at_the_next_start() {
    let office = office([vec![closed_gate().1]]);
    office.accept("1", "thinking").await;
    let others = |peer: &str| json!({"id": peer, "peer": peer, "content": peer});
    let_others_run().await;
    // One waits for a better time, one for an answer to its request.
    office.host.results.lock().unwrap().push_back(PluginHost::answering(503, &[]));
    accepted(office.post(&others("later")).await);
    let_others_run().await;
    *office.host.gate.lock().unwrap() = Some(Arc::new(Semaphore::new(0)));
    accepted(office.post(&others("hanging")).await);
    let_others_run().await;
    let start = tokio::time::Instant::now();
    let drained = office.bench.board.drain(Duration::from_secs(10)).await.unwrap();
    assert_eq!((drained, start.elapsed()), (DrainReport { cancelled: 1, suspended: 0 }, Duration::from_secs(10)));
    assert_eq!((office.replies(), office.host.sent().len()), (vec!["ok".to_owned(); 2], 2), "nobody is told of it");

    let next = next_office(after(&office.bench.store.journal()).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 3);
    next.done().await;
    assert_eq!(next.asked(), ["thinking"]);
    assert_eq!(next.host.sent(), ["ok", "ok", "ok"]);
    for id in ["1", "later", "hanging"] {
        assert_eq!(next.state(id).await, (DeliveryState::Sent, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_with_a_hundred_of_them_ends_in_time_and_loses_none() {
    let office = office((0..64).map(|_| vec![closed_gate().1]));
    for number in 0..100 {
        let text = number.to_string();
        // Some wait behind others of their conversation.
        accepted(office.post(&json!({"id": text, "peer": (number % 80).to_string(), "content": text})).await);
    }
    let_others_run().await;
    assert_eq!((office.open(), office.bench.live_runs()), (100, 64));
    let start = tokio::time::Instant::now();
    let drained = office.bench.board.drain(Duration::from_secs(10)).await.unwrap();
    assert_eq!((drained.cancelled, start.elapsed()), (64, Duration::from_secs(10)));
    assert_eq!((office.replies().len(), office.open()), (0, 0), "nobody is told of it");

    let next = next_office(after(&office.bench.store.journal()).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 100);
    next.done().await;
    let mut asked: Vec<u32> = next.asked().iter().map(|text| text.parse().unwrap()).collect();
    asked.sort_unstable();
    assert_eq!(asked, (0..100).collect::<Vec<_>>());
    assert_eq!(next.replies(), vec!["ok".to_owned(); 100]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_while_the_server_goes_down_knows_that_it_is_on_record() {
    let office = office_with([vec![closed_gate().1]], |setup| setup.channels = vec![waited_for(600)]);
    let post = office.bench.ask(&from_channel(), webhook(&from_ann("1", "hi")));
    let drain = async {
        let_others_run().await;
        office.bench.board.drain(Duration::from_secs(1)).await.unwrap()
    };
    let (reply, _) = tokio::join!(post, drain);
    accepted(reply);
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_channel_that_is_gone_wait_a_day_for_it() {
    let first = office([vec![closed_gate().1]]);
    first.accept("1", "hi").await;
    let journal = after(&first.bench.store.journal()[..1]).await;
    let without = |hours: i64| {
        let bench = office_with([], |setup| {
            setup.store = journal.clone();
            setup.channels = Vec::new();
        });
        bench.bench.clock.advance_seconds(hours * 3600);
        bench
    };
    for (hours, state, problem) in [
        (23, DeliveryState::Received, None),
        (24, DeliveryState::Failed, Some("the channel is not configured any more".to_owned())),
    ] {
        let office = without(hours);
        assert_eq!(office.bench.board.adopt().await.unwrap().deliveries, 0);
        assert_eq!(office.state("1").await, (state, problem));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_back_keeps_no_other_from_going_on() {
    let first = office([vec![closed_gate().1]]);
    first.accept("1", "a").await;
    first.accept("2", "b").await;
    let mut journal = first.bench.store.journal();
    journal.retain(|batch| is_delivery(batch, DeliveryState::Received));
    let StoreWrite::Delivery(row) = &mut journal[0].writes[0] else { panic!() };
    row.body = b"{\"v9\":{}}".to_vec();
    let next = next_office(after(&journal).await, 1_000_000, []);
    assert_eq!(next.bench.board.adopt().await.unwrap().deliveries, 1);
    next.done().await;
    assert_eq!(next.asked(), ["b"]);
    assert_eq!(next.row("id:1").await.body, b"{\"v9\":{}}", "it is left as it is");
}
