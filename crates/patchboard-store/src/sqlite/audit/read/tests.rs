use patchboard_core::store::AuditFilter;

use super::*;
use crate::sqlite::audit;
use crate::sqlite::interner::NameInterner;

#[test]
fn a_rare_row_is_found_over_several_bounded_calls() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(include_str!("../../schema.sql")).unwrap();
    let mut names = NameInterner::default();
    for second in 1..=10 {
        let row = AuditRow {
            at: timestamp(second * 1_000_000).unwrap(),
            principal: "local".into(),
            surface: "gateway".into(),
            action: "tool.call".into(),
            subject: if second == 2 { "rare".into() } else { "bash".into() },
            run: None,
            detail: "".into(),
        };
        audit::add(&db, &mut names, &row).unwrap();
    }
    let filter = AuditFilter { subject: Some("rare".to_owned()), ..AuditFilter::default() };
    let mut query = AuditQuery { filter, limit: 5, cursor: None };
    let mut found = Vec::new();
    loop {
        let page = scan(&db, &query, 4).unwrap();
        found.push(page.items.len());
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, [0, 0, 1]);
}

#[test]
fn a_range_of_time_is_read_off_the_index() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(include_str!("../../schema.sql")).unwrap();
    let plan: String = db
        .query_row(
            "EXPLAIN QUERY PLAN SELECT at FROM audit WHERE at >= 1 AND at < 2 AND at <= 3 AND (at < 3 OR number < 4)
             ORDER BY at DESC, number DESC",
            [],
            |row| row.get(3),
        )
        .unwrap();
    assert!(plan.contains("audit_by_time"), "{plan}");
}
