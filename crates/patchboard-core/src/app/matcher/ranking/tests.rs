use super::{Candidate, Choice, Evidence, Fits, Likeness, Policy, Ranking};
use crate::app::matcher::query::Query;
use crate::app::matcher::words::words;

fn ranking(confidences: &[f32], several: &[usize]) -> Ranking {
    let candidate =
        |confidence: &f32| Candidate { app: "a".into(), score: 0.5, confidence: *confidence, why: Vec::new() };
    Ranking::new(confidences.iter().map(candidate).collect(), several.to_vec(), 0.0)
}

#[test]
fn a_choice_needs_confidence_and_distance() {
    let first = Choice::Deliver(vec![0]);
    for (confidences, several, policy, expected) in [
        (&[0.9, 0.05][..], &[][..], Policy::BALANCED, first.clone()),
        (&[0.75, 0.05], &[], Policy::BALANCED, Choice::Unsure),
        (&[0.6, 0.05], &[], Policy::EAGER, first.clone()),
        (&[0.85, 0.05], &[], Policy::CAREFUL, Choice::Unsure),
        (&[0.85, 0.8], &[], Policy::BALANCED, Choice::Unsure),
        (&[0.45], &[], Policy::BALANCED, first.clone()),
        (&[0.35], &[], Policy::BALANCED, Choice::Unsure),
        (&[], &[], Policy::EAGER, Choice::Unsure),
        (&[0.9, 0.85, 0.1], &[0, 1], Policy::BALANCED, Choice::Deliver(vec![0, 1])),
        (&[0.9, 0.65, 0.1], &[0, 1], Policy::BALANCED, first),
        (&[0.9, 0.85, 0.1], &[0, 1], Policy::CAREFUL, Choice::Unsure),
        (&[f32::NAN, 0.1], &[], Policy::EAGER, Choice::Unsure),
    ] {
        assert_eq!(ranking(confidences, several).choose(policy), expected, "{confidences:?} {several:?} {policy:?}");
    }
}

fn fits(common: &[f32], examples: f32, none: &Evidence) -> Fits {
    let evidence = vec![Evidence { examples, ..Evidence::default() }; common.len()];
    let likenesses: Vec<Likeness> =
        common.iter().map(|common| Likeness { common: *common, ..Likeness::default() }).collect();
    let background = Likeness { whole: 0.4, ..Likeness::default() };
    Fits::new(&Query::new(&words("play jazz")), &background, &likenesses, &evidence, none)
}

#[test]
fn confidence_leaves_room_for_none_of_them() {
    for (common, examples) in [(vec![], 0.0), (vec![0.0; 3], 0.0), (vec![2.0, 1.0, 0.0], 0.0), (vec![9.0, 9.0], 50.0)] {
        let found = fits(&common, examples, &Evidence::default()).confidences();
        let sum: f32 = found.iter().sum();
        assert!(sum < 1.0001 && found.iter().all(|one| (0.0..=1.0).contains(one)), "{common:?} {found:?}");
        assert!(found.windows(2).all(|pair| pair[0] >= pair[1]));
    }
}

#[test]
fn without_any_evidence_nobody_is_probable() {
    let found = fits(&[0.0], 0.0, &Evidence::default()).confidences();
    assert!(found[0] < Policy::EAGER.lone, "{found:?}");
}

#[test]
fn what_is_like_messages_of_no_app_is_for_none_of_them() {
    let before = fits(&[1.0, 0.5], 0.0, &Evidence::default()).confidences();
    let given_up = Evidence { near: 0.9, is_same: true, ..Evidence::default() };
    let after = fits(&[1.0, 0.5], 0.0, &given_up).confidences();
    assert!(after.iter().zip(&before).all(|(after, before)| after < &(before / 10.0)), "{before:?} {after:?}");
}

#[test]
fn the_more_was_learned_the_surer_a_delivery_has_to_be() {
    let with = |experience| Ranking { experience, ..ranking(&[0.87, 0.05], &[]) };
    assert_eq!(with(0.0).choose(Policy::BALANCED), Choice::Deliver(vec![0]));
    assert_eq!(with(1.0).choose(Policy::BALANCED), Choice::Unsure);
    assert_eq!(with(1.0).choose(Policy::EAGER), Choice::Deliver(vec![0]));
    assert_eq!(with(0.0).choose(Policy::CAREFUL), Choice::Unsure);
}

#[test]
fn who_is_not_open_keeps_its_share() {
    let ranking = ranking(&[0.8, 0.15], &[]);
    assert_eq!(ranking.choose_from(Policy::EAGER, |one| one.confidence < 0.5), Choice::Unsure);
}
