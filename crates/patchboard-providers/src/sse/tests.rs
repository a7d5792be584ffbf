use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Owned = (String, String);

/// Everything a decoder makes of the pieces, the end included.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> (Vec<Owned>, Option<EventTooLarge>) {
    let mut decoder = EventDecoder::with_limit(limit);
    let mut events = Vec::new();
    let own = |event: ServerSentEvent<'_>| (event.name.into_owned(), event.data.into_owned());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(own(event)),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    match decoder.finish() {
        Ok(event) => events.extend(event.map(own)),
        Err(error) => return (events, Some(error)),
    }
    (events, None)
}

/// The stream gives these events whole, byte by byte, and cut in two at every place.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
    let stream = stream.as_ref();
    let expected: Vec<Owned> = expected.iter().map(|(name, data)| ((*name).into(), (*data).into())).collect();
    assert_eq!(decode([stream], MAX_EVENT_BYTES), (expected.clone(), None), "in one piece");
    assert_eq!(decode(stream.chunks(1), MAX_EVENT_BYTES), (expected.clone(), None), "byte by byte");
    for middle in 0..=stream.len() {
        let pieces = [&stream[..middle], &stream[middle..]];
        assert_eq!(decode(pieces, MAX_EVENT_BYTES), (expected.clone(), None), "cut at {middle}");
    }
}

#[test]
fn one_event() {
    check("data: hello\n\n", &[("", "hello")]);
}

#[test]
fn name_and_data_in_any_order() {
    check("event: ping\ndata: {}\n\ndata: {}\nevent: pong\n\n", &[("ping", "{}"), ("pong", "{}")]);
}

#[test]
fn the_name_does_not_outlive_its_event() {
    check("event: a\ndata: 1\n\ndata: 2\n\nevent: b\n\ndata: 3\n\n", &[("a", "1"), ("", "2"), ("", "3")]);
}

#[test]
fn all_three_line_ends() {
    check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[("", "a"), ("", "b"), ("", "c")]);
    check("data: a\r\ndata: b\r\n\r\n", &[("", "a\nb")]);
    check("data: a\rdata: b\n\r\n", &[("", "a\nb")]);
}

#[test]
fn data_of_several_lines() {
    check("data: first\ndata:\ndata: third\n\n", &[("", "first\n\nthird")]);
}

#[test]
fn only_one_blank_is_taken_off() {
    check("data:  two\ndata:none\n\n", &[("", " two\nnone")]);
}

#[test]
fn comments_unknown_fields_and_fields_without_colon() {
    check(": keep-alive\nid: 7\nretry: 10\nnonsense\ndata\n\n:\n\n", &[("", "")]);
}

#[test]
fn an_event_without_data_is_none() {
    check("event: ping\n\n\n\n: nothing\n\n", &[]);
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    check("\u{feff}\ndata: a\n\n", &[("", "a")]);
}

#[test]
fn characters_of_several_bytes() {
    check("data: grüße 世界 🦀\n\n", &[("", "grüße 世界 🦀")]);
}

#[test]
fn malformed_text_is_replaced() {
    check(b"data: a\xffb\n\ndata: \xf0\x9f\n\n", &[("", "a\u{fffd}b"), ("", "\u{fffd}")]);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    check("data: a\n\ndata: [DONE]\n", &[("", "a"), ("", "[DONE]")]);
    check("data: a\n\ndata: [DONE]", &[("", "a"), ("", "[DONE]")]);
    check("data: a\r\n\r", &[("", "a")]);
}

#[test]
fn an_error_field_is_an_event_of_that_name() {
    check("error: {\"code\":500}\n\n", &[("error", "{\"code\":500}")]);
}

#[test]
fn lines_longer_than_a_word_of_the_search() {
    for length in 0..40 {
        let data = "x".repeat(length);
        check(format!("data:{data}\n\ndata: {data}\r\n\r\n"), &[("", &data), ("", &data)]);
    }
}

#[test]
fn too_long_a_line_ends_the_stream() {
    for line in ["data: 0123456789", ": 012345678901234", "data: 0123456789\n\n"] {
        let stream = format!("data: ok\n\n{line}");
        let expected = (vec![(String::new(), "ok".to_owned())], Some(EventTooLarge { limit: 12 }));
        assert_eq!(decode([stream.as_bytes()], 12), expected);
        assert_eq!(decode(stream.as_bytes().chunks(1), 12), expected);
    }
}

#[test]
fn too_much_data_in_many_lines_ends_the_stream() {
    let stream = "data: 01234\n".repeat(3);
    assert_eq!(decode([stream.as_bytes()], 12), (vec![], Some(EventTooLarge { limit: 12 })));
}

#[test]
fn comments_without_end_cost_no_memory() {
    let mut decoder = EventDecoder::default();
    for _ in 0..1000 {
        decoder.push(b": keep-alive and nothing else\n\n");
        assert_eq!(decoder.next_event(), Ok(None));
    }
    assert!(decoder.buffer.capacity() < 4096);
}

proptest! {
    /// Bytes that mean something to the format, far more often than chance would have them.
    #[test]
    fn cutting_changes_nothing(
        stream in vec(prop_oneof![
            4 => proptest::sample::select(b"\n\r: dataevnto\xef\xbb\xbf".to_vec()),
            1 => any::<u8>(),
        ], 0..200),
        cuts in vec(0_usize..200, 0..12),
        limit in 1_usize..64,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).chain([0, stream.len()]).collect();
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(decode(pieces, limit), decode([stream.as_slice()], limit));
    }

    #[test]
    fn what_is_written_is_read(
        events in vec(("[a-z]{0,8}", "[ -~\u{a0}-\u{ffff}\n]{0,40}"), 0..8),
        ending in proptest::sample::select(vec!["\n", "\r", "\r\n"]),
        piece in 1_usize..50,
    ) {
        let mut stream = String::new();
        for (name, data) in &events {
            stream.push_str(&format!(": noise{ending}event: {name}{ending}"));
            for line in data.split('\n') {
                stream.push_str(&format!("data: {line}{ending}"));
            }
            stream.push_str(ending);
        }
        let expected = (events, None);
        prop_assert_eq!(decode(stream.as_bytes().chunks(piece), MAX_EVENT_BYTES), expected);
    }
}
