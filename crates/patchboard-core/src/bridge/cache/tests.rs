//! What is served from the cache, and for how long.

use bytes::Bytes;

use super::*;
use crate::tool::StructuredOutput;

fn key(session: &str, arguments: &str) -> CacheKey {
    CacheKey { session: session.into(), pool: "p".into(), tool: "t".into(), arguments: arguments.into() }
}

fn large(bytes: usize) -> ToolOutput {
    ToolOutput::ok("")
        .with_structured(StructuredOutput { binary: Some(Bytes::from(vec![0; bytes])), ..StructuredOutput::default() })
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_result_is_given_out_until_its_time_is_over_and_only_to_its_session() {
    let (mut cache, now) = (ResultCache::default(), Instant::now());
    cache.put(key("a", "{}"), ToolOutput::ok("1"), MINUTE, now);
    assert_eq!(cache.get(&key("a", "{}"), now + MINUTE / 2), Some(ToolOutput::ok("1")));
    assert_eq!(cache.get(&key("b", "{}"), now), None);
    assert_eq!(cache.get(&key("a", "{\"x\":1}"), now), None);
    assert_eq!(cache.get(&key("a", "{}"), now + MINUTE), None);
    assert_eq!(cache.bytes, 0);
}

#[test]
fn a_newer_result_replaces_an_older_one_and_outlives_its_place_in_the_order() {
    let (mut cache, now) = (ResultCache::default(), Instant::now());
    cache.put(key("a", "{}"), large(3 << 20), MINUTE, now);
    cache.put(key("a", "{}"), ToolOutput::ok("new"), MINUTE, now);
    for number in 0..30 {
        cache.put(key("b", &number.to_string()), large(2 << 20), MINUTE, now);
    }
    assert_eq!(cache.get(&key("a", "{}"), now), Some(ToolOutput::ok("new")));
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_go_first() {
    let (mut cache, now) = (ResultCache::default(), Instant::now());
    for number in 0..40 {
        cache.put(key("a", &number.to_string()), large(3 << 20), MINUTE, now);
    }
    assert!(cache.bytes <= MAX_BYTES);
    assert_eq!(cache.get(&key("a", "0"), now), None);
    assert!(cache.get(&key("a", "39"), now).is_some());
    for number in 0..3 * MAX_RESULTS {
        cache.put(key("b", &number.to_string()), ToolOutput::ok(""), MINUTE, now);
    }
    assert!(cache.results.len() <= MAX_RESULTS && cache.order.len() <= 2 * MAX_RESULTS);
    cache.put(key("c", ""), large(MAX_RESULT + 1), MINUTE, now);
    assert_eq!(cache.get(&key("c", ""), now), None);
}

#[test]
fn a_session_that_ends_takes_its_results_along() {
    let (mut cache, now) = (ResultCache::default(), Instant::now());
    cache.put(key("a", "1"), ToolOutput::ok("1"), MINUTE, now);
    cache.put(key("a", "2"), ToolOutput::ok("2"), MINUTE, now);
    cache.put(key("b", "1"), ToolOutput::ok("3"), MINUTE, now);
    assert_eq!(cache.remove_session("a"), 2);
    assert_eq!(cache.get(&key("a", "1"), now), None);
    assert!(cache.get(&key("b", "1"), now).is_some());
}
