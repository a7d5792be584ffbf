use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
    frame.extend(payload);
    frame
}

fn plain(text: &[u8]) -> Vec<u8> {
    assert!(text.len() < 127);
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

/// A field in full, as it is said for the first time.
fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0x40], plain(name), plain(value)].concat()
}

/// The same bytes, whole and in pieces of every size, are the same afterwards.
fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
    let preface = vec![b'P'; PREFACE_LEN];
    let sent = [vec![preface.clone()], frames.to_vec()].concat().concat();
    let expected = [vec![preface], expected.to_vec()].concat().concat();
    for size in [1, 2, 3, 7, 10, 64, sent.len()] {
        let mut names = AuthorityRewriter::default();
        let mut passed = sent.clone();
        for piece in passed.chunks_mut(size) {
            names.rewrite(piece);
        }
        assert_eq!(passed, expected, "in pieces of {size}");
    }
}

#[test]
fn a_path_becomes_a_name_of_the_same_length() {
    let rest = field(b"content-type", b"application/grpc");
    let with = |value: &[u8]| {
        let path = field(b":path", b"/snakepit.bridge.BridgeService/Ping");
        [path, field(AUTHORITY_NAME, value), vec![0x83, 0x86], rest.clone()].concat()
    };
    for (sent, expected) in [
        (&b"tmp%2Fa%2Fbridge.sock"[..], &b"tmp-2Fa-2Fbridge.sock"[..]),
        (b"/run/bridge.sock", b"-run-bridge.sock"),
        (b"localhost", b"localhost"),
        (b"", b""),
    ] {
        let settings = frame(4, 0, &[]);
        let data = frame(0, 1, b"\x40\x0a:authority\x01/");
        let frames = |value: &[u8]| vec![settings.clone(), frame(HEADERS, 4, &with(value)), data.clone()];
        check(&frames(sent), &frames(expected));
    }
}

#[test]
fn it_is_found_wherever_it_stands() {
    let known = |value: &[u8]| [vec![0x41], plain(value)].concat();
    let not_kept = |value: &[u8]| [vec![0x01], plain(value)].concat();
    let (sent, expected) = (&b"/a/b"[..], &b"-a-b"[..]);
    for build in [&known as &dyn Fn(&[u8]) -> Vec<u8>, &not_kept, &|value| field(AUTHORITY_NAME, value)] {
        // A change of the table's size, a field with a long number, an empty name and value before it.
        let block = |value: &[u8]| [vec![0x3f, 0xe1, 0x1f, 0xff, 0x80, 0x01, 0x00, 0x00, 0x00], build(value)].concat();
        let padded = |value: &[u8]| [vec![3], vec![1, 2, 3, 4, 5], block(value), vec![0; 3]].concat();
        check(&[frame(HEADERS, 4, &block(sent))], &[frame(HEADERS, 4, &block(expected))]);
        let flags = PADDED | PRIORITY | 4;
        check(&[frame(HEADERS, flags, &padded(sent))], &[frame(HEADERS, flags, &padded(expected))]);
        // Cut anywhere and gone on with.
        for at in 0..block(sent).len() {
            let parts = |value: &[u8]| {
                let block = block(value);
                let (first, second) = block.split_at(at);
                vec![frame(HEADERS, 0, first), frame(CONTINUATION, 4, second)]
            };
            check(&parts(sent), &parts(expected));
        }
    }
}

#[test]
fn nothing_else_is_touched() {
    let long = [vec![0x40], plain(b"x-long"), vec![0x7f, 0x81, 0x01], vec![b'/'; 0x7f + 0x81]].concat();
    for block in [
        field(b":path", b"/a/b"),
        field(b":authoritx", b"/a/b"),
        field(b":authority2", b"/a/b"),
        [vec![0x41, 0x84], b"/a/b".to_vec()].concat(),
        [vec![0x44], plain(b"/a/b")].concat(),
        [vec![0x7f, 0x02], plain(b"/a/b")].concat(),
        long,
    ] {
        let frames = [frame(HEADERS, 4, &block), frame(HEADERS, 5, &block)];
        check(&frames, &frames);
    }
    for broken in [frame(HEADERS, PADDED, &[9, 1, 2]), frame(HEADERS, PRIORITY, &[1]), frame(HEADERS, PADDED, &[])] {
        let after = frame(HEADERS, 4, &field(b"a", b"/"));
        check(&[broken.clone(), after.clone()], &[broken, after]);
    }
}

proptest! {
    #[test]
    fn whatever_comes_keeps_its_length_and_is_read_the_same_in_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        cut in 0_usize..2000,
    ) {
        let (mut whole, mut pieces) = (bytes.clone(), bytes.clone());
        AuthorityRewriter::default().rewrite(&mut whole);
        let mut names = AuthorityRewriter::default();
        let (first, second) = pieces.split_at_mut(cut.min(bytes.len()));
        names.rewrite(first);
        names.rewrite(second);
        prop_assert_eq!(&whole, &pieces);
        prop_assert_eq!(whole.len(), bytes.len());
    }
}
