use super::*;

#[test]
fn frames_carry_their_length_in_the_shortest_form() {
    assert_eq!(client_frame("hi"), b"\x81\x82\0\0\0\0hi");
    assert_eq!(server_frame("hi"), b"\x81\x02hi");
    for (length, size) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
        let frame = server_frame(&"x".repeat(length));
        assert_eq!(whole_frame(&frame), Some(Header { opcode: TEXT, size, payload: length }));
        assert_eq!(client_frame(&"x".repeat(length)).len(), frame.len() + 4);
    }
}

#[test]
fn a_frame_is_read_only_when_all_of_it_is_there() {
    for length in [0, 5, 300, 70_000] {
        let frame = server_frame(&"x".repeat(length));
        for end in [0, 1, 2, 3, frame.len() - 1].into_iter().filter(|end| *end < frame.len()) {
            assert_eq!(whole_frame(&frame[..end]), None, "{end} of {} bytes", frame.len());
        }
        let mut two = frame.clone();
        two.extend(&frame);
        assert_eq!(whole_frame(&two).map(|header| header.size + header.payload), Some(frame.len()));
    }
}

#[test]
fn a_head_ends_with_an_empty_line() {
    assert_eq!(head_length(b"HTTP/1.1 101 X\r\nA: b\r\n\r\n\x81\x00"), Some(24));
    assert_eq!(head_length(b"HTTP/1.1 101 X\r\nA: b\r\n"), None);
}
