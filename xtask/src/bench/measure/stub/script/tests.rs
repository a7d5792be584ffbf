use super::*;

/// The chunks of a body and the events in each, taken apart strictly.
fn chunks(mut body: &str) -> Vec<Vec<String>> {
    let mut chunks = Vec::new();
    loop {
        let (size, rest) = body.split_once("\r\n").expect("a chunk size");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size");
        if size == 0 {
            assert_eq!(rest, "\r\n");
            return chunks;
        }
        let (chunk, rest) = rest.split_at(size);
        let events = chunk.strip_suffix("\n\n").expect("whole events").split("\n\n");
        chunks.push(events.map(|event| event.strip_prefix("data: ").expect("an event").to_owned()).collect());
        body = rest.strip_prefix("\r\n").expect("the end of a chunk");
    }
}

fn instant(model: &str) -> Vec<Vec<String>> {
    let Some(Script::Instant(answer)) = Script::of(model) else { panic!("no instant answer") };
    let answer = String::from_utf8(answer).expect("text");
    chunks(answer.strip_prefix(HEAD).expect("the head"))
}

fn json(event: &str) -> serde_json::Value {
    serde_json::from_str(event).expect("JSON")
}

#[test]
fn an_instant_answer_says_its_pieces_then_its_usage() {
    let chunks = instant("instant-3");
    assert!(chunks.iter().all(|chunk| chunk.len() == 1), "more than an event in a chunk: {chunks:?}");
    let events = chunks.concat();
    let [pieces @ .., stop, usage, done] = events.as_slice() else { panic!("too few events: {events:?}") };
    assert_eq!(pieces.len(), 3);
    for piece in pieces {
        assert_eq!(json(piece)["choices"][0]["delta"]["content"], WORD);
    }
    assert_eq!(json(stop)["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        json(usage)["usage"],
        serde_json::json!({ "prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23 })
    );
    assert_eq!(done, "[DONE]");
}

#[test]
fn a_packed_answer_says_the_same_in_fewer_chunks() {
    let packed = instant("packed-100");
    let sizes: Vec<usize> = packed.iter().map(Vec::len).collect();
    assert_eq!(sizes, [32, 32, 32, 7]);
    let renamed: Vec<String> = packed.concat().iter().map(|event| event.replace("packed", "instant")).collect();
    assert_eq!(renamed, instant("instant-100").concat());
}

#[test]
fn a_paced_piece_carries_the_time() {
    let Some(Script::Paced { piece, pieces, every, tail, .. }) = Script::of("paced-100-2ms") else {
        panic!("no paced answer")
    };
    assert_eq!((pieces, every), (100, Duration::from_millis(2)));
    let mut body = piece.stamped(1_763_000_000_000_000_042);
    body.extend(tail);
    let events = chunks(&String::from_utf8(body).expect("text")).concat();
    assert_eq!(json(&events[0])["choices"][0]["delta"]["content"], "1763000000000000042");
    assert_eq!(events.len(), 4);
}

#[test]
fn other_names_are_unknown() {
    for name in [
        "gpt-4o",
        "instant",
        "instant-",
        "instant-0",
        "instant-8-2ms",
        "instant-100001",
        "paced-3",
        "paced-3-2",
        "paced-3-0ms",
        "paced-3-2ms-x",
    ] {
        assert!(Script::of(name).is_none(), "{name}");
    }
}
