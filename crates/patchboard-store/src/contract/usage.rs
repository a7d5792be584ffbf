//! Usage: every model call is counted exactly once; and the audit trail.

use std::sync::Arc;

use jiff::civil::date;
use patchboard_core::model::TokenCount;
use patchboard_core::store::{
    AuditRow, BudgetScope, ModelCallRow, Store, StoreWrite, UsageGroup, UsageGrouping, UsageQuery, UsageRow,
};

use super::fixtures::{all_pages, at, commit, commit_refused, expect_ok, model_call, run_id, session, settlement};

const DAY: i64 = 24 * 60 * 60;

pub async fn model_calls_are_settled_once(store: Arc<dyn Store>) {
    let key = session("budget");
    let scopes = vec![
        BudgetScope::Session(key.clone()),
        BudgetScope::Day(date(2025, 6, 15)),
        BudgetScope::Month { year: 2025, month: 6 },
        BudgetScope::AgentDay("main".into(), date(2025, 6, 15)),
        BudgetScope::AgentMonth { agent: "main".into(), year: 2025, month: 6 },
        BudgetScope::KeyDay("main".into(), date(2025, 6, 15)),
        BudgetScope::KeyMonth { key: "main".into(), year: 2025, month: 6 },
    ];
    assert_eq!(expect_ok(store.tokens_spent(scopes.clone()).await), [0; 7]);
    let call = model_call(1, 1, &key);
    let usage = settlement(&call, TokenCount { input: 30, output: 12 }, scopes.clone());
    let settle = || StoreWrite::SettleModelCall(usage.clone());
    commit_refused(&*store, vec![settle()]).await;
    commit(&*store, vec![StoreWrite::OpenModelCall(call.clone())]).await;
    commit_refused(&*store, vec![StoreWrite::OpenModelCall(call)]).await;
    assert_eq!(expect_ok(store.tokens_spent(scopes.clone()).await), [0; 7], "an open call has cost nothing yet");
    commit(&*store, vec![settle()]).await;
    commit_refused(&*store, vec![settle()]).await;
    assert_eq!(expect_ok(store.tokens_spent(scopes).await), [42; 7]);

    let second = model_call(1, 2, &key);
    let same_day = vec![BudgetScope::Day(date(2025, 6, 15))];
    let tokens = TokenCount { input: 0, output: 8 };
    let both = vec![
        StoreWrite::OpenModelCall(second.clone()),
        StoreWrite::SettleModelCall(settlement(&second, tokens, same_day)),
    ];
    commit(&*store, both).await;
    let scopes_queried =
        vec![BudgetScope::Day(date(2025, 6, 15)), BudgetScope::Day(date(2025, 6, 16)), BudgetScope::Session(key)];
    assert_eq!(expect_ok(store.tokens_spent(scopes_queried).await), [50, 0, 42], "in the order asked for");
}

pub async fn usage_is_reported(store: Arc<dyn Store>) {
    let calls: [(u64, &str, &str, i64, u64); 5] = [
        (1, "here", "claude", 0, 100),
        (2, "here", "gpt", 1, 900),
        (3, "there", "claude", DAY, 300),
        (4, "there", "claude", 2 * DAY, 400),
        (5, "here", "llama", 2 * DAY + 1, 50),
    ];
    for (run, peer, model, second, tokens) in calls {
        let key = session(peer);
        let call = ModelCallRow { model: model.into(), at: at(second), ..model_call(run, 1, &key) };
        let usage =
            UsageRow { estimated: run == 5, ..settlement(&call, TokenCount { input: tokens, output: 1 }, Vec::new()) };
        commit(&*store, vec![StoreWrite::OpenModelCall(call), StoreWrite::SettleModelCall(usage)]).await;
    }
    let report = async |group_by, since: Option<i64>| {
        let query =
            UsageQuery { since: since.map(at), group_by, then_by: None, owners: None, limit: 100, cursor: None };
        let whole = expect_ok(store.usage(query.clone()).await);
        assert_eq!(whole.next, None);
        let pages =
            all_pages(async |cursor| store.usage(UsageQuery { limit: 1, cursor, ..query.clone() }).await, async || {});
        assert_eq!(pages.await.concat(), whole.items, "pages are the report");
        whole.items.into_iter().map(|group| (group.key, group.calls, group.tokens.input)).collect::<Vec<_>>()
    };
    let expect = |groups: &[(&str, u64, u64)]| {
        groups.iter().map(|&(key, calls, input)| (key.to_owned(), calls, input)).collect::<Vec<_>>()
    };
    let days = [("2025-06-17", 2, 450), ("2025-06-16", 1, 300), ("2025-06-15", 2, 1000)];
    assert_eq!(report(UsageGrouping::Day, None).await, expect(&days), "newest first");
    let models = [("gpt", 1, 900), ("claude", 3, 800), ("llama", 1, 50)];
    assert_eq!(report(UsageGrouping::Model, None).await, expect(&models), "biggest first");
    assert_eq!(
        report(UsageGrouping::Model, Some(1)).await,
        expect(&[("gpt", 1, 900), ("claude", 2, 700), ("llama", 1, 50)])
    );
    assert_eq!(report(UsageGrouping::Model, Some(3 * DAY)).await, []);
    assert_eq!(report(UsageGrouping::Provider, None).await, expect(&[("anthropic", 5, 1750)]));
    assert_eq!(report(UsageGrouping::Agent, None).await, expect(&[("main", 5, 1750)]));
    let sessions = [(session("here"), 3, 1050), (session("there"), 2, 700)];
    let sessions = sessions.each_ref().map(|(key, calls, input)| (key.as_str(), *calls, *input));
    assert_eq!(report(UsageGrouping::Session, None).await, expect(&sessions));

    let whole = UsageQuery {
        since: Some(at(2 * DAY)),
        group_by: UsageGrouping::Agent,
        then_by: None,
        owners: None,
        limit: 1,
        cursor: None,
    };
    let expected = UsageGroup {
        key: "main".to_owned(),
        then: None,
        calls: 2,
        tokens: TokenCount { input: 450, output: 2 },
        cost_nanousd: 4520,
        estimated_calls: 1,
    };
    assert_eq!(expect_ok(store.usage(whole).await).items, [expected]);

    let by_two = async |group_by, then_by| {
        let query =
            UsageQuery { since: None, group_by, then_by: Some(then_by), owners: None, limit: 100, cursor: None };
        let items = expect_ok(store.usage(query).await).items;
        items.into_iter().map(|group| (group.key, group.then.unwrap_or_default(), group.calls)).collect::<Vec<_>>()
    };
    let expect_two = |groups: &[(&str, &str, u64)]| {
        groups.iter().map(|&(key, then, calls)| (key.to_owned(), then.to_owned(), calls)).collect::<Vec<_>>()
    };
    let day_and_model = [
        ("2025-06-17", "claude", 1),
        ("2025-06-17", "llama", 1),
        ("2025-06-16", "claude", 1),
        ("2025-06-15", "gpt", 1),
        ("2025-06-15", "claude", 1),
    ];
    assert_eq!(by_two(UsageGrouping::Day, UsageGrouping::Model).await, expect_two(&day_and_model));
    let model_and_day = day_and_model.map(|(day, model, calls)| (model, day, calls));
    assert_eq!(by_two(UsageGrouping::Model, UsageGrouping::Day).await, expect_two(&model_and_day));
    assert_eq!(
        by_two(UsageGrouping::Agent, UsageGrouping::Model).await,
        expect_two(&[("main", "gpt", 1), ("main", "claude", 3), ("main", "llama", 1)])
    );

    // A paged report must not change between pages.
    let query =
        UsageQuery { since: None, group_by: UsageGrouping::Model, then_by: None, owners: None, limit: 1, cursor: None };
    let mut next = 10;
    let pages = all_pages(
        async |cursor| store.usage(UsageQuery { cursor, ..query.clone() }).await,
        async || {
            next += 1;
            let call = ModelCallRow { model: "llama".into(), at: at(9 * DAY), ..model_call(next, 1, &session("here")) };
            let usage = settlement(&call, TokenCount { input: 5000, output: 0 }, Vec::new());
            commit(&*store, vec![StoreWrite::OpenModelCall(call), StoreWrite::SettleModelCall(usage)]).await;
        },
    );
    let keys: Vec<_> = pages.await.concat().into_iter().map(|group| group.key).collect();
    assert_eq!(keys, ["gpt", "claude", "llama"]);
}

pub async fn audit_rows_are_paged(store: Arc<dyn Store>) {
    let row = |number: u64| AuditRow {
        at: at(1),
        principal: "token:main".into(),
        surface: "gateway".into(),
        action: "tool.call".into(),
        subject: "bash".into(),
        run: number.is_multiple_of(2).then(|| run_id(number)),
        detail: format!("number {number}").into(),
    };
    assert_eq!(expect_ok(store.audit(10, None).await).items, []);
    for number in 1..=5 {
        commit(&*store, vec![StoreWrite::Audit(row(number))]).await;
    }
    let mut next = 5;
    let pages = all_pages(
        async |cursor| store.audit(2, cursor).await,
        async || {
            next += 1;
            commit(&*store, vec![StoreWrite::Audit(row(next))]).await;
        },
    );
    assert_eq!(pages.await, [vec![row(5), row(4)], vec![row(3), row(2)], vec![row(1)]], "newest first");
}
