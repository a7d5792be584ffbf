//! The golden bytes were made by another implementation of the protocol.

use proptest::prelude::*;

use super::*;

const HELLO: &str = "6c01000100000000010000006d00000001016f00150000002f6f72672f667265656465736b746f702f4442757300000002017300140000006f72672e667265656465736b746f702e4442757300000000030173000500000048656c6c6f00000006017300140000006f72672e667265656465736b746f702e4442757300000000";
const NOTIFY: &str = "6c01000154000000030000009b00000001016f001e0000002f6f72672f667265656465736b746f702f4e6f74696669636174696f6e730000020173001d0000006f72672e667265656465736b746f702e4e6f74696669636174696f6e7300000003017300060000004e6f746966790000060173001d0000006f72672e667265656465736b746f702e4e6f74696669636174696f6e73000000080167000d73757373736173617b73767d69000000000000080000006e6f7465626f6f6b000000000000000000000000000000000600000053c3a476656400000a0000006120266c743b20620a630000000000001000000007000000757267656e63790001790002ffffffff";
const CAPABILITIES: &str = "6c0200012c0000000900000020000000050175000200000006017300040000003a312e370000000008016700026173002800000004000000626f6479000000000b000000626f64792d6d61726b75700007000000616374696f6e7300";
const ERROR: &str = "6c030001120000000a0000004700000004017300290000006f72672e667265656465736b746f702e444275732e4572726f722e53657276696365556e6b6e6f776e00000000000000050175000300000008016700017300000d0000006e6f2073756368207468696e6700";
const SIGNAL: &str = "6c04000109000000020000006f00000001016f00150000002f6f72672f667265656465736b746f702f4442757300000002017300140000006f72672e667265656465736b746f702e4442757300000000030173000c0000004e616d6541637175697265640000000006017300040000003a312e37000000000801670001730000040000003a312e3700";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn calls_are_written() {
    assert_eq!(hex(&MethodCall::HELLO.marshalled(1, &[])), HELLO);
    let toast = NotifyArguments { app: "notebook", title: "Säved", body: "a &lt; b\nc", urgency: 2 };
    assert_eq!(hex(&MethodCall::NOTIFY.marshalled(3, &toast.marshalled())), NOTIFY);
}

#[test]
fn zero_bytes_do_not_end_a_text() {
    let with = NotifyArguments { app: "a", title: "on\0e", body: "t\0wo", urgency: 0 };
    let without = NotifyArguments { app: "a", title: "one", body: "two", urgency: 0 };
    assert_eq!(with.marshalled(), without.marshalled());
}

#[test]
fn answers_are_read() {
    let capabilities = read(&bytes(CAPABILITIES)).unwrap();
    assert_eq!(
        (capabilities.kind, capabilities.reply_to, &capabilities.error),
        (BusMessageKind::Return, Some(2), &None)
    );
    assert_eq!(capabilities.strings().unwrap(), ["body", "body-markup", "actions"]);
    assert_eq!(capabilities.first_string(), None);
    let error = read(&bytes(ERROR)).unwrap();
    assert_eq!((error.kind, error.reply_to), (BusMessageKind::Error, Some(3)));
    assert_eq!(error.error.as_deref(), Some("org.freedesktop.DBus.Error.ServiceUnknown"));
    assert_eq!(error.first_string().as_deref(), Some("no such thing"));
    assert_eq!(error.strings(), Err(BusError::Garbled));
    let signal = read(&bytes(SIGNAL)).unwrap();
    assert_eq!((signal.kind, signal.reply_to), (BusMessageKind::Other, None));
    assert_eq!(read(&bytes(NOTIFY)).unwrap().kind, BusMessageKind::Other);
}

#[test]
fn the_big_end_may_come_first() {
    let mut message = vec![b'B', 2, 0, 1];
    for number in [4_u32, 1, 8] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    message.extend_from_slice(&[5, 1, b'u', 0]);
    message.extend_from_slice(&77_u32.to_be_bytes());
    message.extend_from_slice(&[0, 0, 0, 9]);
    assert_eq!(length(&message), Ok(message.len()));
    let read = read(&message).unwrap();
    assert_eq!((read.kind, read.reply_to), (BusMessageKind::Return, Some(77)));
}

#[test]
fn lengths_are_known_from_the_head() {
    for whole in [HELLO, NOTIFY, CAPABILITIES, ERROR, SIGNAL].map(bytes) {
        assert_eq!(length(&whole[..HEADER_BYTES]), Ok(whole.len()));
    }
    let head = |body: u32, fields: u32| {
        let mut head = vec![b'l', 2, 0, 1];
        for number in [body, 1, fields] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head
    };
    let room = u32::try_from(MAX_MESSAGE - HEADER_BYTES).unwrap();
    assert_eq!(length(&head(room, 0)), Ok(MAX_MESSAGE));
    for (body, fields) in [(room + 1, 0), (0, room + 1), (u32::MAX, u32::MAX), (room, 1)] {
        assert_eq!(length(&head(body, fields)), Err(BusError::TooLong));
    }
    assert_eq!(length(b"x"), Err(BusError::Garbled));
    assert_eq!(length(b"l"), Err(BusError::Garbled));
}

#[test]
fn every_cut_of_a_message_is_garbled() {
    for whole in [CAPABILITIES, ERROR, SIGNAL].map(bytes) {
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Err(BusError::Garbled), "{end}");
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_never_more_than_an_error(garbage in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = read(&garbage) {
            let _strings = (message.strings().is_ok(), message.first_string().is_some());
        }
        prop_assert!(length(&garbage).is_ok_and(|length| length <= MAX_MESSAGE) || length(&garbage).is_err());
    }

    /// Nearly right is harder than random.
    #[test]
    fn one_wrong_byte_is_never_more_than_an_error(
        which in 0_usize..3,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut message = bytes([CAPABILITIES, ERROR, SIGNAL][which]);
        let at = at.index(message.len());
        message[at] = byte;
        if let Ok(message) = read(&message) {
            let _strings = (message.strings().is_ok(), message.first_string().is_some());
        }
    }

    #[test]
    fn what_is_written_has_the_length_it_says(title in any::<String>(), body in any::<String>(), urgency in 0_u8..3) {
        let toast = NotifyArguments { app: "a", title: &title, body: &body, urgency };
        let whole = MethodCall::NOTIFY.marshalled(1, &toast.marshalled());
        prop_assert_eq!(length(&whole), Ok(whole.len()));
        prop_assert_eq!(read(&whole).map(|message| message.kind), Ok(BusMessageKind::Other));
    }
}
