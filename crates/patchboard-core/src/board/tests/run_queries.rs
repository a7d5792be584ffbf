//! Finding runs, and what is left of them as they grow old.

use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::command::{
    AnswerInput, DescribeRun, FindRun, InputRef, ListRuns, ReadEvents, RunListFilter, RunStateFilter,
};
use crate::event::RunOutcome;
use crate::reply::{RunReport, RunWait};
use crate::store::RunState;

fn any() -> RunListFilter {
    RunListFilter::default()
}

fn in_state(state: RunStateFilter) -> RunListFilter {
    RunListFilter { state: Some(state), ..any() }
}

impl Bench {
    async fn reports(&self, caller: &Caller, filter: RunListFilter) -> Result<Vec<RunReport>, BoardError> {
        let page = self.ask(caller, ListRuns { filter, page: PageRequest::new(None, None) }).await?;
        assert_eq!(page.next, None);
        Ok(page.items)
    }

    async fn titles(&self, caller: &Caller, filter: RunListFilter) -> Vec<String> {
        let reports = self.reports(caller, filter).await.unwrap();
        reports.iter().map(|report| report.run.title.to_string()).collect()
    }

    /// All events of a run, by pages of so many records.
    async fn read(&self, run: RunId, limit: usize) -> Vec<Arc<Envelope>> {
        let (mut events, mut from) = (Vec::new(), Some(Seq::FIRST));
        while let Some(next) = from {
            let page = self.ask(&caller(1), ReadEvents { run, from: next, limit }).await.unwrap();
            assert!(page.events.len() <= limit);
            assert!(page.events.first().is_none_or(|record| record.seq == next));
            events.extend(page.events);
            from = page.next;
        }
        events
    }
}

/// What each number stands for, whatever record it is in.
fn told(records: &[Arc<Envelope>]) -> Vec<(Seq, Event)> {
    let mut told = Vec::new();
    for record in records {
        for seq in record.seq.0..=record.last_seq().0 {
            let mut event = record.part_from(Seq(seq)).event;
            if let Some(pieces) = event.pieces_mut() {
                *pieces = pieces.iter().take(1).collect();
            }
            told.push((Seq(seq), event));
        }
    }
    told
}

async fn follow_from(bench: &Bench, run: RunId, from: Seq) -> Vec<Arc<Envelope>> {
    let caller = caller(1);
    let followed = bench.board.follow(&caller, Topic::Run(run), from, FollowerPacing::Unpaced).await.unwrap();
    followed.map(Result::unwrap).collect().await
}

#[tokio::test(start_paused = true)]
async fn everybody_finds_their_own_runs_and_the_operator_all() {
    let bench =
        bench([say(&["one"], 10, 5), say(&["two"], 7, 2), call(&[("echo", json!({}))], 1, 1), say(&["three"], 2, 3)]);
    bench.chat("alice", "first").await;
    let there = Caller { principal: "bob".into(), ..caller(2) };
    let second = bench.ask(&there, start("bob", "second")).await.unwrap();
    drop(bench.board.follow(&there, Topic::Run(second), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap());
    let third = bench.ask(&on_runs(1), run_of(Some("t"), "r3", "third", plan("react"))).await.unwrap();
    rest(bench.follow(third).await).await;
    let_others_run().await;

    assert_eq!(bench.titles(&caller(1), any()).await, ["third", "first"]);
    assert_eq!(bench.titles(&there, any()).await, ["second"]);
    assert_eq!(bench.titles(&stranger(), any()).await, [""; 0]);
    assert_eq!(bench.titles(&operator(), any()).await, ["third", "second", "first"]);
    let of_bob = RunListFilter { owner: Some("bob".into()), ..any() };
    assert_eq!(bench.titles(&operator(), of_bob.clone()).await, ["second"]);
    assert_eq!(bench.titles(&there, of_bob.clone()).await, ["second"]);
    assert_eq!(bench.reports(&caller(1), of_bob).await.unwrap_err().kind, ErrorKind::Forbidden);

    let of_runs = RunListFilter { surface: Some("runs".into()), ..any() };
    let [report] = &bench.reports(&caller(1), of_runs).await.unwrap()[..] else { panic!("one run") };
    let run = &report.run;
    assert_eq!((&*run.agent, run.strategy, &*run.client_id), ("default", StrategyKind::React, "r3"));
    assert_eq!(run.model.as_ref().map(|model| &*model.model), Some("script-1"));
    assert_eq!((run.usage.model_calls, run.usage.tokens.input, run.usage.tokens.output), (2, 3, 4));
    assert_eq!(run.usage.cost_nanousd, (3 + 2 * 4) * 1_000);
    assert_eq!(run.state, RunState::Ended(RunOutcome::Completed));
    assert_eq!(Some(run.last_seq), bench.read(run.run, 100).await.last().map(|record| record.last_seq()));
    assert_eq!(bench.ask(&caller(1), DescribeRun(run.run)).await.unwrap(), *report);

    for command in
        [AnyCommand::new(DescribeRun(second)), AnyCommand::new(ReadEvents { run: second, from: Seq(1), limit: 1 })]
    {
        let refused = command.ask(&bench, &caller(1)).await.unwrap_err();
        assert_eq!((refused.kind, &*refused.message), (ErrorKind::NotFound, "run expired or unknown"), "{command:?}");
        command.ask(&bench, &there).await.unwrap();
        command.ask(&bench, &operator()).await.unwrap();
        let nobody = Caller { grants: GrantSet::NONE.with(crate::caller::Grant::Converse), ..there.clone() };
        assert_eq!(command.ask(&bench, &nobody).await.unwrap_err().kind, ErrorKind::Forbidden, "{command:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_says_what_for() {
    let bench = bench([call(&[("write", json!({"a": 1}))], 10, 5), say(&["done"], 20, 1)]);
    let (run, mut followed) = bench.begin("alice", "write it").await;
    let record = until(&mut followed, "may write run").await;
    let Event::InputRequested(request) = &record.event else { panic!("not a question: {record:?}") };

    let states = [RunStateFilter::Waiting, RunStateFilter::Running, RunStateFilter::Ended].map(in_state);
    let counts = async || {
        let mut counts = Vec::new();
        for filter in states.clone() {
            counts.push(bench.reports(&caller(1), filter).await.unwrap().len());
        }
        counts
    };
    assert_eq!(counts().await, [1, 0, 0]);
    let report = bench.ask(&caller(1), DescribeRun(run)).await.unwrap();
    assert_eq!(report.run.state, RunState::Running);
    let [RunWait::Input(pending)] = &report.waits[..] else { panic!("one question: {report:?}") };
    assert_eq!((&pending.request, pending.run), (request, run));
    assert_eq!(bench.reports(&stranger(), in_state(RunStateFilter::Waiting)).await.unwrap(), []);

    // What is not told yet can be asked for again.
    let page = bench.ask(&caller(1), ReadEvents { run, from: record.last_seq().next(), limit: 10 }).await.unwrap();
    assert_eq!((page.events, page.next), (vec![], Some(record.last_seq().next())));
    let answer = AnswerInput { input: InputRef::Id(request.input), answer: InputAnswer::Approved };
    bench.ask(&caller(1), answer).await.unwrap();
    rest(followed).await;
    let_others_run().await;
    assert_eq!(counts().await, [0, 0, 1]);
    assert_eq!(bench.titles(&caller(1), in_state(RunStateFilter::EndedAs(RunOutcome::Completed))).await, ["write it"]);
    let over = bench.ask(&caller(1), ReadEvents { run, from: Seq(10_000), limit: 10 }).await.unwrap();
    assert_eq!((over.events, over.next), (vec![], None));
}

#[tokio::test(start_paused = true)]
async fn a_page_of_events_is_bounded() {
    let large = "x".repeat(300_000);
    let script: Vec<_> = std::iter::repeat_n(&*large, 8).collect();
    let bench = bench([say(&script, 10, 5)]);
    let (run, followed) = bench.begin("alice", "much").await;
    rest(followed).await;
    let whole = follow_from(&bench, run, Seq::FIRST).await;
    let page = bench.ask(&caller(1), ReadEvents { run, from: Seq::FIRST, limit: 100 }).await.unwrap();
    assert!(page.events.len() < whole.len(), "a page ends at its size");
    for limit in [1, 3, 100, 500] {
        assert_eq!(told(&bench.read(run, limit).await), told(&whole), "by {limit}");
    }
    let page = bench.ask(&caller(1), ReadEvents { run, from: Seq(3), limit: 1 }).await.unwrap();
    assert_eq!(page.events[0].seq, Seq(3), "from within a record its rest");
}

#[tokio::test(start_paused = true)]
async fn an_old_run_is_all_there_until_it_is_pruned() {
    let gate = Arc::new(Semaphore::new(0));
    let pieces = ["It ", "is ", "", "雨", " today."];
    let mut script = Vec::new();
    for (index, step) in say(&pieces, 10, 5).into_iter().enumerate() {
        script.push(step);
        if index < pieces.len() {
            script.push(ScriptStep::Wait(gate.clone()));
        }
    }
    let bench = bench([script]);
    let (run, followed) = bench.begin("alice", "will it rain?").await;
    for _ in 0..=pieces.len() {
        let_others_run().await;
        tokio::time::advance(Duration::from_secs(1)).await;
        gate.add_permits(1);
    }
    rest(followed).await;
    let fresh = follow_from(&bench, run, Seq::FIRST).await;
    let texts = |records: &[Arc<Envelope>]| records.iter().filter(|record| record.event.pieces().is_some()).count();
    assert!(texts(&fresh) > 1, "streamed in several records: {fresh:?}");
    let described = bench.ask(&caller(1), DescribeRun(run)).await.unwrap();

    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let keep = RetentionPolicy { runs: hours(48), events: hours(24) };
    let stop = CancellationToken::new();
    let mut house = std::pin::pin!(bench.board.run_housekeeping(keep, stop.clone()));
    bench.clock.advance_seconds(26 * 3600);
    assert!(tokio::time::timeout(hours(2), &mut house).await.is_err());

    assert_eq!(bench.titles(&caller(1), any()).await, ["will it rain?"]);
    assert_eq!(bench.ask(&caller(1), DescribeRun(run)).await.unwrap(), described);
    let old = follow_from(&bench, run, Seq::FIRST).await;
    assert_eq!(texts(&old), 1, "folded: {old:?}");
    assert_eq!(told(&old), told(&fresh));
    assert_eq!(told(&bench.read(run, 2).await), told(&fresh));
    for from in 1..=described.run.last_seq.0 + 1 {
        let wanted: Vec<_> = told(&fresh).into_iter().filter(|(seq, _)| seq.0 >= from).collect();
        assert_eq!(told(&follow_from(&bench, run, Seq(from)).await), wanted, "from {from}");
    }
    let text: String = old.iter().filter_map(|record| record.event.pieces()).map(|pieces| pieces.text()).collect();
    assert_eq!(text, pieces.concat(), "byte for byte");
    let find = || FindRun(RunRef::ClientId { id: "will it rain?".into(), within: None });
    assert_eq!(bench.ask(&caller(1), find()).await.unwrap().last_seq, described.run.last_seq);

    bench.clock.advance_seconds(23 * 3600);
    assert!(tokio::time::timeout(hours(2), &mut house).await.is_err());
    assert_eq!(bench.titles(&operator(), any()).await, [""; 0]);
    for command in [
        AnyCommand::new(DescribeRun(run)),
        AnyCommand::new(ReadEvents { run, from: Seq::FIRST, limit: 1 }),
        AnyCommand::new(find()),
    ] {
        let gone = command.ask(&bench, &caller(1)).await.unwrap_err();
        assert_eq!(&*gone.message, "run expired or unknown", "{command:?}");
    }
    assert!(bench.board.follow(&caller(1), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.is_err());
    stop.cancel();
    house.await;
    assert_eq!(bench.said("alice").await, ["will it rain?".to_owned(), pieces.concat()], "turns stay");
}
