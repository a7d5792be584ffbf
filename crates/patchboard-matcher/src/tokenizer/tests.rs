use super::{MAX_WORDS, TokenBoundary, tokenize};

fn texts(text: &str) -> Vec<String> {
    tokenize(text).into_iter().map(|word| word.text).collect()
}

fn check(text: &str, expected: &str) {
    assert_eq!(texts(text).join(" "), expected, "{text}");
}

#[test]
fn words_are_folded_and_contractions_opened() {
    check("Turn ON the Lights!", "turn on the lights");
    check("What's up?  I'm home", "what is up i am home");
    check("don’t can't won't", "do not can not wo not");
    check("today's news, mom's cake", "today news mom cake");
    check("dont whats gimme", "do not what is give me");
    check("Straße Ärger café São œuvre", "strasse aerger cafe sao oeuvre");
    check("cafe\u{301}", "cafe");
    check("to-do list: 3pm", "to do list 3pm");
    check("rock 'n' roll", "rock n roll");
}

#[test]
fn scripts_without_spaces_become_pairs() {
    check("明日の天気", "明 明日 日の の天 天気");
    check("play 音楽 now", "play 音 音楽 now");
    check("привет мир", "привет мир");
}

#[test]
fn pictures_are_words_and_other_signs_are_not() {
    check("☕ 🍕! $ % ##", "☕ 🍕");
    check("", "");
    check(" \n\t…'''", "");
}

#[test]
fn what_says_little_weighs_little() {
    let weights: Vec<f32> = tokenize("please recently book the 42 flights").iter().map(|word| word.weight).collect();
    assert_eq!(weights, [0.0, 0.3, 1.0, 0.0, 0.1, 1.0]);
}

#[test]
fn ends_of_phrases_and_sentences_are_marked() {
    let boundaries: Vec<TokenBoundary> =
        tokenize("lists, notes and more. Done").iter().map(|word| word.boundary).collect();
    assert_eq!(
        boundaries,
        [
            TokenBoundary::Phrase,
            TokenBoundary::Absent,
            TokenBoundary::Absent,
            TokenBoundary::Sentence,
            TokenBoundary::Absent
        ]
    );
}

#[test]
fn long_texts_are_read_from_their_beginning() {
    assert_eq!(tokenize(&"word ".repeat(20_000)).len(), MAX_WORDS);
    assert_eq!(tokenize(&"明".repeat(70_000)).len(), MAX_WORDS);
    let word = tokenize(&"x".repeat(70_000));
    assert!(word.len() == 1 && word.iter().all(|word| word.text.len() <= 48));
}
