use super::{GuestOutputTail, TAIL_BYTES};

#[test]
fn keeps_the_end() {
    let tail = GuestOutputTail::default();
    assert!(tail.is_empty());
    tail.push(b"first ");
    tail.push(b"second");
    assert_eq!(tail.text(), "first second");
    for _ in 0..1000 {
        tail.push(&[b'x'; 100]);
    }
    tail.push(b"last");
    let text = tail.text();
    assert_eq!(text.len(), TAIL_BYTES);
    assert!(text.ends_with("xxlast"), "{}", &text[TAIL_BYTES - 20..]);
    tail.push(&vec![b'y'; 1_000_000]);
    assert_eq!(tail.text(), "y".repeat(TAIL_BYTES));
    assert!(tail.bytes.lock().expect("no poison").capacity() <= 4 * TAIL_BYTES, "memory stays bounded");
}
