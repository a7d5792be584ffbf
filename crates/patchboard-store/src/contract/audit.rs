//! The audit trail is found by time and by what its rows are about.

use std::sync::Arc;

use patchboard_core::store::{AuditFilter, AuditQuery, AuditRow, PageCursor, Store, StoreError, StoreWrite};

use super::fixtures::{all_pages, at, commit, expect_ok, run_id};

/// Second, principal, surface, action, subject, run.
type Row = (i64, &'static str, &'static str, &'static str, &'static str, Option<u64>);

const ROWS: [Row; 6] = [
    (1, "local", "gateway", "tool.intent", "bash", Some(1)),
    (2, "local", "gateway", "tool.call", "bash", Some(1)),
    (3, "operator", "cli", "plugin.load", "echo", None),
    (2, "app:notes", "hub", "tool.call", "read", Some(2)),
    (5, "local", "gateway", "toolbox", "bash", None),
    (6, "operator", "cli", "session.purge", "default:web:a:main", None),
];

fn row(number: usize) -> AuditRow {
    let (second, principal, surface, action, subject, run) = ROWS[number];
    AuditRow {
        at: at(second),
        principal: principal.into(),
        surface: surface.into(),
        action: action.into(),
        subject: subject.into(),
        run: run.map(run_id),
        detail: "".into(),
    }
}

pub async fn audit_rows_are_filtered(store: Arc<dyn Store>) {
    for number in 0..ROWS.len() {
        commit(&*store, vec![StoreWrite::Audit(row(number))]).await;
    }
    let text = |text: &str| Some(text.to_owned());
    let cases: [(AuditFilter, &[usize]); 11] = [
        (AuditFilter::default(), &[5, 4, 2, 3, 1, 0]),
        (AuditFilter { since: Some(at(3)), ..AuditFilter::default() }, &[5, 4, 2]),
        (AuditFilter { until: Some(at(3)), ..AuditFilter::default() }, &[3, 1, 0]),
        (AuditFilter { since: Some(at(2)), until: Some(at(3)), ..AuditFilter::default() }, &[3, 1]),
        (AuditFilter { since: Some(at(7)), ..AuditFilter::default() }, &[]),
        (AuditFilter { principal: text("local"), ..AuditFilter::default() }, &[4, 1, 0]),
        (AuditFilter { surface: text("cli"), ..AuditFilter::default() }, &[5, 2]),
        (AuditFilter { action: text("tool"), ..AuditFilter::default() }, &[3, 1, 0]),
        (AuditFilter { action: text("tool.call"), principal: text("local"), ..AuditFilter::default() }, &[1]),
        (AuditFilter { subject: text("default:web:a:main"), ..AuditFilter::default() }, &[5]),
        (AuditFilter { run: Some(run_id(1)), ..AuditFilter::default() }, &[1, 0]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|number| row(*number)).collect();
        let query = AuditQuery { filter: filter.clone(), limit: 100, cursor: None };
        let whole = expect_ok(store.read_audit(query.clone()).await);
        assert_eq!((whole.items, whole.next), (expected.clone(), None), "{filter:?}");
        let pages = all_pages(
            async |cursor| store.read_audit(AuditQuery { limit: 1, cursor, ..query.clone() }).await,
            async || {},
        );
        assert_eq!(pages.await.concat(), expected, "pages of {filter:?}");
    }
    let bad = AuditQuery { filter: AuditFilter::default(), limit: 1, cursor: Some(PageCursor("7".to_owned())) };
    assert!(matches!(store.read_audit(bad).await, Err(StoreError::BadCursor)));
}
