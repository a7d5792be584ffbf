use super::{decode_training_data, encode_training_data};
use patchboard_matcher::{LabelPolarity, LabelStrength, TrainingData, TrainingExample};

const V1: &str = r#"{"v1":{"count":7,"examples":[{"n":2,"text":"buy milk","verdict":"right","strength":"weak"},{"n":7,"text":"dim the lights","verdict":"wrong","strength":"strong"}]}}"#;

fn lessons() -> TrainingData {
    let example = |number, text: &str, verdict, strength| TrainingExample {
        number,
        text: text.to_owned(),
        polarity: verdict,
        strength,
    };
    TrainingData {
        label_count: 7,
        examples: vec![
            example(2, "buy milk", LabelPolarity::Positive, LabelStrength::Weak),
            example(7, "dim the lights", LabelPolarity::Negative, LabelStrength::Strong),
        ],
    }
}

#[test]
fn the_first_version_stays_readable() {
    assert_eq!(decode_training_data(V1.as_bytes()).unwrap(), lessons());
    assert_eq!(String::from_utf8(encode_training_data(&lessons())).unwrap(), V1);
}

#[test]
fn what_is_not_a_record_is_refused() {
    for bytes in ["", "{", "{}", "[]", r#"{"v1":{"count":-1,"examples":[]}}"#, r#"{"v9":{}}"#] {
        assert!(decode_training_data(bytes.as_bytes()).is_err(), "{bytes}");
    }
}
