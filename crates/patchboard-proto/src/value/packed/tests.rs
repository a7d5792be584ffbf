use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::*;

#[test]
fn base64_as_everybody_writes_it() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

#[test]
fn every_wrapper_is_found_by_its_name() {
    for wrapper in WrapperType::ALL {
        let type_url = format!("type.googleapis.com/google.protobuf.{}", wrapper.name());
        assert_eq!(WrapperType::of(&type_url), Some(wrapper));
    }
}

/// Would an encoder write these bytes again?
fn is_written_again<T: Message + Default>(bytes: &[u8]) -> bool {
    T::decode(bytes).is_ok_and(|value| value.encode_to_vec() == bytes)
}

/// Bytes that are often nearly right: a key, a number, some text of the length the number says.
fn nearly_packed() -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof![8 => prop_oneof![Just(0x08_u8), Just(0x09), Just(0x0a), Just(0x0d)], 1 => any::<u8>()];
    let number = prop_oneof![
        (0_u8..6).prop_map(|one| vec![one]),
        vec(any::<u8>(), 0..12),
        vec(0x80_u8..=0xff, 9).prop_map(|bytes| [bytes, vec![1]].concat()),
        any::<u32>().prop_map(|number| u64::from(number).encode_to_vec().split_off(usize::from(number != 0))),
    ];
    (key, number, vec(prop_oneof![3 => 0x20_u8..0x7f, 1 => any::<u8>()], 0..6))
        .prop_map(|(key, number, tail)| [vec![key], number, tail].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn packed_is_what_an_encoder_writes_again(bytes in nearly_packed()) {
        let is_packed = |wrapper| read(wrapper, &bytes, &mut ElementBudget::default()).is_ok();
        // Some encoders write the zero that is negative and some do not; it is taken.
        let negative_zero = [0x80_u8, 0, 0, 0, 0, 0, 0, 0, 9];
        let is_negative_zero = bytes.iter().rev().eq(&negative_zero) || bytes == [0x0d, 0, 0, 0, 0x80];
        if !is_negative_zero {
            prop_assert_eq!(is_packed(WrapperType::Double), is_written_again::<f64>(&bytes));
            prop_assert_eq!(is_packed(WrapperType::Float), is_written_again::<f32>(&bytes));
        }
        prop_assert_eq!(is_packed(WrapperType::Int32), is_written_again::<i32>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::Int64), is_written_again::<i64>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::UInt32), is_written_again::<u32>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::UInt64), is_written_again::<u64>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::Bool), is_written_again::<bool>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::String), is_written_again::<String>(&bytes));
        prop_assert_eq!(is_packed(WrapperType::Bytes), is_written_again::<Vec<u8>>(&bytes));
        // These may hold entries in another order, never anything a decoder would not take.
        if is_packed(WrapperType::Value) {
            prop_assert!(prost_types::Value::decode(&*bytes).is_ok());
        }
        if is_packed(WrapperType::Struct) {
            prop_assert!(prost_types::Struct::decode(&*bytes).is_ok());
        }
        if is_packed(WrapperType::List) {
            prop_assert!(prost_types::ListValue::decode(&*bytes).is_ok());
        }
    }
}
