use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn ids_do_not_come_twice_and_are_never_none() {
    let ids = IdSource::starting_at(7);
    let spans: HashSet<[u8; 8]> = (0..10_000).map(|_| ids.next_span_id()).collect();
    let traces: HashSet<[u8; 16]> = (0..10_000).map(|_| ids.next_trace_id()).collect();
    assert_eq!((spans.len(), traces.len()), (10_000, 10_000));
    assert!(!spans.contains(&[0; 8]) && !traces.contains(&[0; 16]));
    // The counter that the mixing function makes a zero of.
    assert_ne!(IdSource::starting_at(0).next_span_id(), [0; 8]);
}

#[test]
fn two_servers_draw_different_ids() {
    assert_ne!(IdSource::random().next_trace_id(), IdSource::random().next_trace_id());
}

#[test]
fn a_share_of_the_traces_is_kept() {
    let ids = IdSource::starting_at(7);
    let traces: Vec<[u8; 16]> = (0..10_000).map(|_| ids.next_trace_id()).collect();
    for (ratio, least, most) in [
        (0.0, 0, 0),
        (0.01, 50, 150),
        (0.25, 2_300, 2_700),
        (1.0, 10_000, 10_000),
        (7.0, 10_000, 10_000),
        (-1.0, 0, 0),
        (f64::NAN, 0, 0),
    ] {
        let kept = traces.iter().filter(|trace| TraceSampler::new(ratio).is_sampled(**trace)).count();
        assert!((least..=most).contains(&kept), "{ratio}: {kept}");
    }
}

proptest! {
    #[test]
    fn whoever_keeps_more_keeps_what_others_keep(trace: [u8; 16], ratio in 0.0..=1.0, more in 0.0..=1.0) {
        let (less, more) = if ratio < more { (ratio, more) } else { (more, ratio) };
        prop_assert!(TraceSampler::new(more).is_sampled(trace) || !TraceSampler::new(less).is_sampled(trace));
        prop_assert!(TraceSampler::new(1.0).is_sampled(trace));
    }

    #[test]
    fn long_texts_are_cut_between_characters(text in "(?s).{0,400}") {
        let AttributeValue::Text(cut) = AttributeValue::text(&text) else { panic!("not a text") };
        prop_assert!(text.starts_with(&cut) && cut.len() <= MAX_TEXT_BYTES);
        prop_assert!(cut.len() == text.len() || cut.len() > MAX_TEXT_BYTES - 4);
    }
}
