use super::{Sense, lexicon};
use crate::app::matcher::words::words;

fn concepts(senses: &[Sense]) -> Vec<&'static str> {
    senses.iter().map(|sense| lexicon().concepts()[usize::from(sense.concept)].name.as_str()).collect()
}

fn known(text: &str) -> Vec<(usize, usize, Vec<&'static str>)> {
    let hits = lexicon().hits(&words(text));
    hits.into_iter().map(|hit| (hit.at, hit.length, concepts(hit.senses))).collect()
}

#[test]
fn it_is_read_whole() {
    assert!(lexicon().concepts().len() > 250, "{}", lexicon().concepts().len());
    assert!(lexicon().topics().len() >= 16, "{:?}", lexicon().topics());
    assert!(lexicon().entries.len() > 3000, "{}", lexicon().entries.len());
    let affinities = lexicon().entries.values().flatten().map(|sense| sense.affinity);
    assert!(affinities.into_iter().all(|affinity| affinity > 0.0 && affinity <= 1.0));
}

#[test]
fn words_and_phrases_are_found_in_any_form() {
    assert_eq!(known("blizzards"), [(0, 1, vec!["snow"])]);
    let phrase = known("an oil change");
    assert!(phrase.contains(&(1, 2, vec!["oil change"])), "{phrase:?}");
    assert_eq!(known("xyzzy"), []);
}

#[test]
fn other_languages_lead_to_the_same_concepts() {
    for (word, concept) in [("Wecker", "alarm"), ("lluvia", "rain"), ("Rezept", "recipe"), ("courriel", "email")] {
        let found = known(word);
        assert!(found.iter().any(|(_, _, concepts)| concepts.contains(&concept)), "{word}: {found:?}");
    }
}

#[test]
fn slips_are_corrected_and_strange_words_are_not() {
    for (slip, concept) in [("calender", None), ("birhtday", Some("birthday")), ("thermostatt", Some("thermostat"))] {
        let corrected = lexicon().corrected(slip).map(concepts);
        match concept {
            Some(concept) => assert_eq!(corrected, Some(vec![concept]), "{slip}"),
            None => assert_eq!(corrected, None, "{slip}"),
        }
    }
    for word in ["zxqvbl", "молоко!", "a", ""] {
        assert_eq!(lexicon().corrected(word), None, "{word}");
    }
}
