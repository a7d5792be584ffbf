use super::*;
use crate::sqlite::schema;

/// Other keys of the space are not looked at, however many there are.
#[test]
fn keys_are_read_off_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let db = schema::open_for_writing(&folder.path().join("plan.db")).unwrap();
    let check = |sql: &str, expected: &str| {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan = explain.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(plan, [expected], "{sql}");
    };
    check(KEYS, "SEARCH kv USING COVERING INDEX sqlite_autoindex_kv_1 (namespace=? AND key>?)");
    check(KEYS_UNTIL, "SEARCH kv USING COVERING INDEX sqlite_autoindex_kv_1 (namespace=? AND key>? AND key<?)");
}

#[test]
fn a_prefix_ends_where_the_next_begins() {
    for (prefix, expected) in [
        ("", None),
        ("a", Some("b")),
        ("ab", Some("ac")),
        ("a\0", Some("a\u{1}")),
        ("\u{7f}", Some("\u{80}")),
        ("\u{d7ff}", Some("\u{e000}")),
        ("a\u{10ffff}\u{10ffff}", Some("b")),
        ("\u{10ffff}", None),
    ] {
        assert_eq!(prefix_end(prefix).as_deref(), expected, "{prefix:?}");
    }
}
