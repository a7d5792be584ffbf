use super::stem;

#[test]
fn forms_of_a_word_meet() {
    let families: &[&[&str]] = &[
        &["light", "lights"],
        &["run", "runs", "running", "ran"],
        &["bake", "bakes", "baking", "baked"],
        &["city", "cities"],
        &["remind", "reminds", "reminded", "reminding"],
        &["call", "calls", "called", "calling"],
        &["box", "boxes"],
        &["dish", "dishes"],
        &["buy", "buying", "bought"],
        &["recipe", "recipes"],
        &["movie", "movies"],
        &["schedule", "scheduled", "scheduling"],
        &["stop", "stopped", "stopping"],
        &["calculate", "calculation", "calculator"],
        &["spend", "spent", "spending"],
    ];
    for family in families {
        let stems: Vec<String> = family.iter().map(|word| stem(word)).collect();
        assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{family:?} {stems:?}");
    }
}

#[test]
fn different_words_stay_apart() {
    for (one, other) in [
        ("meeting", "meet"),
        ("setting", "set"),
        ("bus", "bu"),
        ("gas", "ga"),
        ("news", "new"),
        ("need", "ne"),
        ("sing", "s"),
    ] {
        assert_ne!(stem(one), stem(other));
    }
}

#[test]
fn other_scripts_and_short_words_are_left_alone() {
    for word in ["", "a", "is", "молоко", "明日", "3pm", "☕"] {
        assert_eq!(stem(word), word);
    }
}
