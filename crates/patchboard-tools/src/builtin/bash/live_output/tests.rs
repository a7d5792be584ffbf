use super::*;

#[test]
fn characters_are_told_whole() {
    let text = "aä€😀z";
    for at in 0..=text.len() {
        let mut live = LiveOutput::default();
        let mut told = String::new();
        let (start, rest) = text.as_bytes().split_at(at);
        for piece in [start, rest] {
            live.push_stdout(piece);
            told.extend(live.take());
        }
        live.end();
        told.extend(live.take());
        assert_eq!(told, text, "cut at {at}");
    }
}

#[test]
fn what_is_no_character_is_replaced_and_an_unfinished_one_at_the_end() {
    let mut live = LiveOutput::default();
    live.push_stdout(b"a\xffb\xe2\x82");
    assert_eq!(live.take().unwrap(), "a\u{fffd}b");
    live.push_stderr(b"other");
    assert_eq!(live.take().unwrap(), "other");
    live.push_stdout(b"c");
    assert_eq!(live.take().unwrap(), "\u{fffd}c");
    live.push_stdout(b"\xe2");
    live.end();
    assert_eq!(live.take().unwrap(), "\u{fffd}");
}

#[test]
fn watchers_are_told_so_much_and_no_more() {
    let mut live = LiveOutput::default();
    let mut told = String::new();
    for _ in 0..100 {
        live.push_stdout(&[b'x'; PIECE_BYTES]);
        told.extend(live.take());
    }
    assert_eq!(told.len(), MAX_LIVE_BYTES + LIMIT_NOTICE.len());
    assert!(told.ends_with(LIMIT_NOTICE));
}
