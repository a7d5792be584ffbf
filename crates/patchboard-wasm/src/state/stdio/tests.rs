use super::{KEPT, Tail};

#[test]
fn keeps_the_end() {
    let tail = Tail::default();
    assert!(tail.is_empty());
    tail.push(b"first ");
    tail.push(b"second");
    assert_eq!(tail.text(), "first second");
    for _ in 0..1000 {
        tail.push(&[b'x'; 100]);
    }
    tail.push(b"last");
    let text = tail.text();
    assert_eq!(text.len(), KEPT);
    assert!(text.ends_with("xxlast"), "{}", &text[KEPT - 20..]);
    tail.push(&vec![b'y'; 1_000_000]);
    assert_eq!(tail.text(), "y".repeat(KEPT));
    assert!(tail.bytes.lock().expect("no poison").capacity() <= 4 * KEPT, "memory stays bounded");
}
