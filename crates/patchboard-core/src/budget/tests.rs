use futures_util::{FutureExt, future};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::faulty::FaultyStore;
use crate::id::{RunId, Seq};
use crate::model::TokenCount;
use crate::scripted::ManualClock;
use crate::store::{ModelCallRow, StoreWrite, UsageRow, WriteBatch};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

struct Fixture {
    store: Arc<FaultyStore>,
    clock: Arc<ManualClock>,
    ledger: Arc<Ledger>,
    agent: Arc<str>,
}

fn limits(
    session: impl Into<Option<u64>>,
    daily: impl Into<Option<u64>>,
    monthly: impl Into<Option<u64>>,
) -> BudgetLimits {
    BudgetLimits { session: session.into(), daily: daily.into(), monthly: monthly.into() }
}

fn session(name: &str) -> SessionKey {
    SessionKey::conversation("default", "web", name, "main")
}

impl Fixture {
    fn new(limits: BudgetLimits) -> Self {
        Self::on(FaultyStore::slow(1), limits)
    }

    fn on(store: Arc<FaultyStore>, limits: BudgetLimits) -> Self {
        let clock = Arc::new(ManualClock::default());
        let ledger = Arc::new(Ledger::new(limits, store.clone(), clock.clone()));
        Self { store, clock, ledger, agent: "default".into() }
    }

    async fn reserve(&self, name: &str, text_tokens: u64, max_output: u32) -> Result<Reservation, BoardError> {
        self.reserve_for(&self.agent, BudgetLimits::default(), name, text_tokens, max_output).await
    }

    async fn reserve_for(
        &self,
        agent: &Arc<str>,
        agent_limits: BudgetLimits,
        name: &str,
        text_tokens: u64,
        max_output: u32,
    ) -> Result<Reservation, BoardError> {
        let session = &session(name);
        let key = None;
        let request = ReservationRequest { session, agent, agent_limits, key, text_tokens, tool_tokens: 0, max_output };
        self.ledger.reserve(request).await
    }

    /// Puts the usage on record, then settles, as a run does.
    async fn spend(&self, reservation: Reservation, used: u64) {
        self.put_on_record(&reservation.scopes, used).await;
        reservation.settle(used);
    }

    async fn put_on_record(&self, scopes: &[BudgetScope], used: u64) {
        let (run, number, at) = (RunId(Uuid::nil()), 1, self.clock.now());
        let (provider, model): (Arc<str>, Arc<str>) = ("p".into(), "m".into());
        let call = ModelCallRow {
            run,
            number,
            session: session("a"),
            agent: self.agent.clone(),
            provider: provider.clone(),
            model: model.clone(),
            estimated_input: 0,
            reserved: 0,
            first_seq: Seq::FIRST,
            node: None,
            key: None,
            at,
        };
        let usage = UsageRow {
            run,
            number,
            at,
            session: session("a"),
            agent: self.agent.clone(),
            provider,
            model,
            tokens: TokenCount { input: used, output: 0 },
            cost_nanousd: 0,
            estimated: false,
            scopes: scopes.to_vec(),
        };
        let writes = vec![StoreWrite::OpenModelCall(call), StoreWrite::SettleModelCall(usage)];
        self.store.commit(WriteBatch::boundary(writes)).await.unwrap();
    }

    /// `used+reserved` of session, day and month.
    async fn lines(&self, name: &str) -> [(u64, u64); 3] {
        let report = self.ledger.report(Some(&session(name)), &[], &[]).await.unwrap();
        [report.session.unwrap(), report.daily, report.monthly].map(|line| (line.used, line.reserved))
    }
}

fn refusal(result: Result<Reservation, BoardError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exhausted);
    // What it would take is the subject of a test of its own.
    let (refusal, _) = error.message.split_once(": this call needs about ").unwrap();
    refusal.to_owned()
}

#[tokio::test]
async fn of_six_parallel_calls_a_budget_for_one_lets_one_through() {
    let fixture = Fixture::new(limits(40, None, None));
    let results = future::join_all((0..6).map(|_| fixture.reserve("a", 10, 100))).await;
    let (granted, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let granted: Vec<_> = granted.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        granted.iter().map(|reservations| (reservations.tokens, reservations.max_output)).collect::<Vec<_>>(),
        [(40, 30)]
    );
    let messages: Vec<String> = refused.into_iter().map(refusal).collect();
    assert_eq!(messages, ["token budget exceeded (session: 40/40)"; 5]);
}

#[tokio::test]
async fn settling_counts_what_was_used_and_dropping_gives_back() {
    let fixture = Fixture::new(BudgetLimits::default());
    let first = fixture.reserve("a", 10, 20).await.unwrap();
    let second = fixture.reserve("b", 1, 4).await.unwrap();
    assert_eq!(fixture.lines("a").await, [(0, 30), (0, 35), (0, 35)]);
    fixture.spend(first, 12).await;
    assert_eq!(fixture.lines("a").await, [(12, 0), (12, 5), (12, 5)]);
    drop(second);
    assert_eq!(fixture.lines("b").await, [(0, 0), (12, 0), (12, 0)]);
    // A call may cost more than was reserved: providers count their own way.
    let third = fixture.reserve("a", 1, 1).await.unwrap();
    fixture.spend(third, 100).await;
    assert_eq!(fixture.lines("a").await, [(112, 0); 3]);
}

#[tokio::test]
async fn a_new_ledger_knows_what_was_spent() {
    let fixture = Fixture::new(limits(50, None, None));
    fixture.spend(fixture.reserve("a", 10, 20).await.unwrap(), 30).await;
    let restarted = Fixture::on(fixture.store, limits(50, None, None));
    assert_eq!(restarted.lines("a").await, [(30, 0); 3]);
    assert_eq!(refusal(restarted.reserve("a", 20, 1).await), "token budget exceeded (session: 30/50)");
}

#[tokio::test]
async fn days_and_months_begin_anew_in_utc() {
    // The clock starts at 2026-11-15T12:00:00Z.
    let fixture = Fixture::new(limits(None, 100, 250));
    fixture.spend(fixture.reserve("a", 10, 90).await.unwrap(), 100).await;
    assert_eq!(refusal(fixture.reserve("a", 1, 1).await), "token budget exceeded (daily: 100/100)");
    fixture.clock.advance_seconds(12 * HOUR - 1);
    assert_eq!(refusal(fixture.reserve("b", 1, 1).await), "token budget exceeded (daily: 100/100)");
    fixture.clock.advance_seconds(1);
    let second_day = fixture.reserve("a", 10, 500).await.unwrap();
    assert_eq!(second_day.tokens, 100);
    // Settled after midnight, counted on the day it was reserved on.
    fixture.clock.advance_seconds(DAY);
    fixture.spend(second_day, 100).await;
    assert_eq!(fixture.lines("a").await, [(200, 0), (0, 0), (200, 0)]);
    let third_day = fixture.reserve("a", 10, 500).await.unwrap();
    assert_eq!(third_day.tokens, 50, "the month leaves less than the day");
    fixture.spend(third_day, 50).await;
    assert_eq!(refusal(fixture.reserve("a", 1, 1).await), "token budget exceeded (monthly: 250/250)");
    fixture.clock.advance_seconds(14 * DAY);
    assert_eq!(fixture.lines("a").await, [(250, 0), (0, 0), (0, 0)], "2026-12-01; a session's total never resets");
    assert!(fixture.reserve("a", 10, 500).await.is_ok());
}

#[tokio::test]
async fn the_narrowest_limit_is_named_in_the_order_session_day_month() {
    for (limits, expected) in [
        (limits(10, 10, 10), "session: 0/10"),
        (limits(None, 10, 10), "daily: 0/10"),
        (limits(11, 10, 10), "session: 0/11"),
        (limits(100, 100, 10), "monthly: 0/10"),
        (limits(100, 11, None), "daily: 0/11"),
    ] {
        let fixture = Fixture::new(limits);
        assert_eq!(refusal(fixture.reserve("a", 11, 1).await), format!("token budget exceeded ({expected})"));
        assert_eq!(fixture.lines("a").await, [(0, 0); 3], "a refusal reserves nothing");
    }
    assert!(Fixture::new(limits(12, 12, 12)).reserve("a", 11, 1).await.is_ok(), "one token of answer is enough");
}

#[tokio::test]
async fn agents_have_limits_of_their_own() {
    let fixture = Fixture::new(limits(100, 1000, None));
    let frugal: Arc<str> = "frugal".into();
    let own = limits(50, 60, 70);
    let reservations = fixture.reserve_for(&frugal, own, "a", 10, 100).await.unwrap();
    assert_eq!(reservations.tokens, 50, "the smaller of the two session limits");
    fixture.spend(reservations, 50).await;
    let refused = fixture.reserve_for(&frugal, own, "a", 1, 1).await;
    assert_eq!(refusal(refused), "token budget exceeded (session: 50/50)");
    let refused = fixture.reserve_for(&frugal, own, "b", 10, 1).await;
    assert_eq!(refusal(refused), "token budget exceeded (daily: 50/60)");
    assert!(fixture.reserve("a", 10, 1).await.is_ok(), "other agents are not held to it");
    fixture.clock.advance_seconds(DAY);
    let refused = fixture.reserve_for(&frugal, own, "b", 20, 1).await;
    assert_eq!(refusal(refused), "token budget exceeded (monthly: 50/70)");
}

#[tokio::test]
async fn a_refusal_says_what_was_needed_and_what_changes_it() {
    let none = BudgetLimits::default();
    for (general, own, expected) in [
        (limits(10, None, None), none, "10 are left; raise `budgets.session` or start a new session"),
        (limits(None, 10, None), none, "10 are left; raise `budgets.daily` or wait until midnight UTC"),
        (limits(None, None, 10), none, "10 are left; raise `budgets.monthly` or wait for the next month (UTC)"),
        (
            limits(10, None, None),
            limits(9, None, None),
            "9 are left; raise `agents.default.budget.session` or start a new session",
        ),
        (limits(8, None, None), limits(9, None, None), "8 are left; raise `budgets.session` or start a new session"),
        (none, limits(None, 7, None), "7 are left; raise `agents.default.budget.daily` or wait until midnight UTC"),
    ] {
        let fixture = Fixture::new(general);
        let refused = fixture.reserve_for(&fixture.agent, own, "a", 11, 1).await.unwrap_err().message;
        let (_, remedy) = refused.split_once(": this call needs about 12 tokens and ").unwrap();
        assert_eq!(remedy, expected);
    }
}

#[tokio::test]
async fn the_answer_is_cut_to_what_is_left() {
    // (limit, text, tools, wanted output) → (reserved, output, room for tools)
    for (limit, text, tools, output, expected) in [
        (None, 10, 5, 100, (115, 100, true)),
        (Some(1000), 10, 5, 100, (115, 100, true)),
        (Some(115), 10, 5, 100, (115, 100, true)),
        (Some(100), 10, 5, 100, (100, 85, true)),
        (Some(79), 10, 5, 100, (79, 64, true)),
        // Tools do not stand in a call's way, and do not make it overspend: it is made without them.
        (Some(78), 10, 5, 100, (78, 68, false)),
        (Some(12), 10, 5, 100, (12, 2, false)),
        (Some(12), 10, 0, 1, (11, 1, true)),
        (None, u64::MAX, 5, 100, (u64::MAX, 1, true)),
    ] {
        let fixture = Fixture::new(limits(limit, None, None));
        let session = &session("a");
        let request = ReservationRequest {
            session,
            agent: &fixture.agent,
            agent_limits: BudgetLimits::default(),
            key: None,
            text_tokens: text,
            tool_tokens: tools,
            max_output: output,
        };
        let reservations = fixture.ledger.reserve(request).await.unwrap();
        let got = (reservations.tokens, reservations.max_output, reservations.tools_fit);
        assert_eq!(got, expected, "limit {limit:?}, {text}+{tools}+{output}");
    }
}

#[tokio::test]
async fn idle_accounts_are_dropped_and_read_again() {
    let fixture = Fixture::on(FaultyStore::new(), BudgetLimits::default());
    fixture.spend(fixture.reserve("idle", 1, 1).await.unwrap(), 7).await;
    let reservations = fixture.reserve("busy", 3, 2).await.unwrap();
    for number in 0..=MAX_IDLE_ACCOUNTS {
        fixture.lines(&number.to_string()).await;
    }
    assert!(fixture.ledger.accounts().by_scope.len() < MAX_IDLE_ACCOUNTS, "bounded");
    assert_eq!(fixture.lines("idle").await, [(7, 0), (7, 5), (7, 5)]);
    assert_eq!(fixture.lines("busy").await, [(0, 5), (7, 5), (7, 5)], "what is reserved is never forgotten");
    fixture.spend(reservations, 4).await;
    assert_eq!(fixture.lines("busy").await, [(4, 0), (11, 0), (11, 0)]);
}

#[tokio::test]
async fn a_figure_read_before_an_eviction_is_not_believed() {
    let fixture = Fixture::new(BudgetLimits::default());
    let mut slow_reader = std::pin::pin!(fixture.lines("a"));
    assert!((&mut slow_reader).now_or_never().is_none(), "it has read that nothing was spent");
    fixture.spend(fixture.reserve("a", 10, 90).await.unwrap(), 100).await;
    for number in 0..=MAX_IDLE_ACCOUNTS {
        fixture.lines(&number.to_string()).await;
    }
    assert!(!fixture.ledger.accounts().by_scope.contains_key(&BudgetScope::Session(session("a"))));
    assert_eq!(slow_reader.await, [(100, 0); 3]);
    assert_eq!(fixture.lines("a").await, [(100, 0); 3]);
}

#[tokio::test]
async fn a_ledger_that_cannot_read_reserves_nothing() {
    let fixture = Fixture::new(limits(100, None, None));
    fixture.store.close().await.unwrap();
    let error = fixture.reserve("a", 1, 1).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unavailable, "storage: the store is closed"));
    assert!(fixture.ledger.accounts().by_scope.is_empty());
}

#[derive(Debug, Clone)]
enum Move {
    Reserve { session: usize, text: u64, output: u32 },
    Settle { which: usize, percent: u64 },
    Drop { which: usize },
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => (0usize..3, 0u64..80, 1u32..80).prop_map(|(session, text, output)| Move::Reserve { session, text, output }),
        2 => (any::<usize>(), 0u64..=100).prop_map(|(which, percent)| Move::Settle { which, percent }),
        1 => any::<usize>().prop_map(|which| Move::Drop { which }),
    ]
}

proptest! {
    /// As long as calls cost no more than was reserved for them, nothing ever goes over a limit.
    #[test]
    fn used_and_reserved_never_pass_a_limit(
        (session_limit, daily, monthly) in (1u64..300, 1u64..500, 1u64..700),
        moves in proptest::collection::vec(moves(), 1..60),
    ) {
        let names = ["a", "b", "c"];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::on(FaultyStore::new(), limits(session_limit, daily, monthly));
            let mut reservations: Vec<Reservation> = Vec::new();
            for step in moves {
                match step {
                    Move::Reserve { session, text, output } => {
                        reservations.extend(fixture.reserve(names[session], text, output).await);
                    }
                    Move::Settle { which, percent } if !reservations.is_empty() => {
                        let reservation = reservations.swap_remove(which % reservations.len());
                        let used = reservation.tokens * percent / 100;
                        fixture.spend(reservation, used).await;
                    }
                    Move::Drop { which } if !reservations.is_empty() => drop(reservations.swap_remove(which % reservations.len())),
                    Move::Settle { .. } | Move::Drop { .. } => {}
                }
                for name in names {
                    let totals = fixture.lines(name).await.map(|(used, reserved)| used + reserved);
                    for (total, limit) in totals.into_iter().zip([session_limit, daily, monthly]) {
                        assert!(total <= limit, "{total} of {limit}");
                    }
                }
            }
            drop(reservations);
            let reloaded = Fixture::on(fixture.store.clone(), limits(session_limit, daily, monthly));
            for name in names {
                assert_eq!(fixture.lines(name).await, reloaded.lines(name).await, "memory and store agree");
            }
        });
    }
}

#[tokio::test]
async fn the_report_has_the_figures_of_each_agent() {
    let fixture = Fixture::new(limits(None, None, None));
    let other: Arc<str> = "other".into();
    fixture.reserve("a", 10, 5).await.unwrap().settle(12);
    let open = fixture.reserve_for(&other, BudgetLimits::default(), "b", 10, 20).await.unwrap();
    let agents = [("default".into(), limits(None, 100, None)), (other.clone(), limits(None, None, 500))];
    let report = fixture.ledger.report(None, &agents, &[]).await.unwrap();
    let line = |used, reserved, limit| BudgetUsage { used, reserved, limit };
    let expected = [
        SpenderBudget {
            spender: Spender::Agent("default".into()),
            daily: line(12, 0, Some(100)),
            monthly: line(12, 0, None),
        },
        SpenderBudget { spender: Spender::Agent(other), daily: line(0, 30, None), monthly: line(0, 30, Some(500)) },
    ];
    assert_eq!((report.spenders.as_slice(), report.daily.used), (expected.as_slice(), 12));
    drop(open);
}
