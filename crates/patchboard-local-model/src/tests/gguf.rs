//! Metadata of made-up weights.

use proptest::prelude::*;

use crate::gguf::{ModelMetadata, parse_metadata};

/// Writes the beginning of a GGUF file.
struct Gguf {
    keys: u64,
    pairs: Vec<u8>,
}

impl Gguf {
    fn new() -> Self {
        Self { keys: 0, pairs: Vec::new() }
    }

    fn pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys += 1;
        self.pairs.extend(text(key));
        self.pairs.extend(kind.to_le_bytes());
        self.pairs.extend(value);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(7_u64.to_le_bytes());
        file.extend(self.keys.to_le_bytes());
        file.extend(&self.pairs);
        file.extend(b"tensors");
        file
    }
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes()[..], value.as_bytes()].concat()
}

fn array(kind: u32, items: &[Vec<u8>]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes()[..], &items.concat()[..]].concat()
}

fn usual(template: &str) -> Gguf {
    Gguf::new()
        .pair("general.architecture", 8, &text("llama"))
        .pair("general.alignment", 4, &32_u32.to_le_bytes())
        .pair("llama.context_length", 4, &8192_u32.to_le_bytes())
        .pair("tokenizer.ggml.tokens", 9, &array(8, &[text("a"), text("tools"), text("")]))
        .pair("tokenizer.ggml.scores", 9, &array(6, &[vec![0; 4], vec![1; 4]]))
        .pair("nested", 9, &array(9, &[array(0, &[vec![1]])]))
        .pair("tokenizer.ggml.add_bos_token", 7, &[1])
        .pair("tokenizer.chat_template", 8, &text(template))
}

#[test]
fn window_and_tools_are_found() {
    let facts = |file: &Gguf| parse_metadata(&*file.bytes());
    let found = |tools| ModelMetadata { trained_window: Some(8192), tools };
    assert_eq!(facts(&usual("{% for message in messages %}{% endfor %}")), found(Some(false)));
    assert_eq!(facts(&usual("{% if tools %}<tools>{% endif %}")), found(Some(true)));
    let wide = Gguf::new().pair("x.context_length", 10, &131_072_u64.to_le_bytes());
    assert_eq!(facts(&wide), ModelMetadata { trained_window: Some(131_072), tools: None });
}

#[test]
fn what_was_found_before_the_trouble_stays() {
    let whole = usual("tools").bytes();
    for length in 0..whole.len() {
        let found = parse_metadata(&whole[..length]);
        assert!([None, Some(8192)].contains(&found.trained_window));
        assert!([None, Some(true)].contains(&found.tools));
    }
    let lies = [
        Gguf::new().pair("huge", 8, &u64::MAX.to_le_bytes()),
        Gguf::new().pair("many", 9, &[&8_u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()[..]].concat()),
        Gguf::new().pair("wide", 9, &[&10_u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()[..]].concat()),
        Gguf::new().pair("unknown", 77, &[]),
        Gguf { keys: u64::MAX, pairs: Vec::new() },
    ];
    for lie in lies {
        assert_eq!(parse_metadata(&*lie.bytes()), ModelMetadata::default());
    }
    assert_eq!(parse_metadata(&b"not a model"[..]), ModelMetadata::default());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let file = [&b"GGUF\x03\0\0\0"[..], &bytes[..]].concat();
        parse_metadata(&*file);
    }
}
