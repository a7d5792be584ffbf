use std::collections::BTreeMap;

use super::*;

fn call_metadata(metadata: &[(&str, &str)]) -> CallMetadata {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    CallMetadata { session: "s".into(), metadata, ..CallMetadata::default() }
}

#[test]
fn pickled_values_are_found_however_they_are_written() {
    for format in ["pickle", "PICKLE", " pickle "] {
        assert!(
            reject_pickle(&call_metadata(&[("binary_format:a", "npy"), ("binary_format:b", format)])).is_some(),
            "{format}"
        );
    }
    for (key, format) in [("binary_format:a", "npy"), ("binary_format:a", "raw"), ("format", "pickle")] {
        assert!(reject_pickle(&call_metadata(&[(key, format)])).is_none(), "{key} {format}");
    }
}

#[test]
fn a_name_that_cannot_be_a_header_is_not_used() {
    let fresh = || "fresh".to_owned();
    // The client is told the id it sent, so the worker must get the same.
    let long = "x".repeat(230);
    let longer = "x".repeat(257);
    for (given, expected) in
        [("good", "good"), (&*long, &*long), ("", "fresh"), ("two\nlines", "fresh"), ("é", "fresh"), (&longer, "fresh")]
    {
        let named = CallMetadata { correlation: Some(given.into()), ..call_metadata(&[]) };
        assert_eq!(&*correlation_id(&named, fresh), expected, "{given}");
    }
    assert_eq!(&*correlation_id(&call_metadata(&[("correlation_id", "told")]), fresh), "told");
}

#[test]
fn a_trace_that_cannot_be_a_header_stays_here() {
    let call_metadata = CallMetadata { trace: Some("a\nb".into()), binary: BTreeMap::new(), ..call_metadata(&[]) };
    let request = build("t", &call_metadata, &serde_json::json!({}), "c", Duration::from_secs(2), CallMode::Unary);
    assert!(request.metadata().get(TRACE_HEADER).is_none());
    assert_eq!(request.metadata().get("grpc-timeout").unwrap(), "2000000u");
}
