use super::{decode_lessons, encode_lessons};
use crate::app::matcher::{Example, Lessons, Strength, Verdict};

const V1: &str = r#"{"v1":{"count":7,"examples":[{"n":2,"text":"buy milk","verdict":"right","strength":"weak"},{"n":7,"text":"dim the lights","verdict":"wrong","strength":"strong"}]}}"#;

fn lessons() -> Lessons {
    let example = |number, text: &str, verdict, strength| Example { number, text: text.to_owned(), verdict, strength };
    Lessons {
        count: 7,
        examples: vec![
            example(2, "buy milk", Verdict::Right, Strength::Weak),
            example(7, "dim the lights", Verdict::Wrong, Strength::Strong),
        ],
    }
}

#[test]
fn the_first_version_stays_readable() {
    assert_eq!(decode_lessons(V1.as_bytes()).unwrap(), lessons());
    assert_eq!(String::from_utf8(encode_lessons(&lessons())).unwrap(), V1);
}

#[test]
fn what_is_not_a_record_is_refused() {
    for bytes in ["", "{}", "[]", r#"{"v1":{"count":-1,"examples":[]}}"#, r#"{"v9":{}}"#] {
        assert!(decode_lessons(bytes.as_bytes()).is_err(), "{bytes}");
    }
}
