use super::{Candidate, Choice, Evidence, Fit, Policy, Ranking, confidences};

fn ranking(confidences: &[f32], several: &[usize]) -> Ranking {
    let candidate =
        |confidence: &f32| Candidate { app: "a".into(), score: 0.5, confidence: *confidence, why: Vec::new() };
    Ranking::new(confidences.iter().map(candidate).collect(), several.to_vec())
}

#[test]
fn a_choice_needs_confidence_and_distance() {
    let first = Choice::Deliver(vec![0]);
    for (confidences, several, policy, expected) in [
        (&[0.9, 0.05][..], &[][..], Policy::BALANCED, first.clone()),
        (&[0.6, 0.05], &[], Policy::BALANCED, Choice::Unsure),
        (&[0.6, 0.05], &[], Policy::LOOSE, first.clone()),
        (&[0.85, 0.05], &[], Policy::STRICT, Choice::Unsure),
        (&[0.7, 0.5], &[], Policy::BALANCED, Choice::Unsure),
        (&[0.62], &[], Policy::BALANCED, first.clone()),
        (&[0.55], &[], Policy::BALANCED, Choice::Unsure),
        (&[], &[], Policy::LOOSE, Choice::Unsure),
        (&[0.9, 0.85, 0.1], &[0, 1], Policy::BALANCED, Choice::Deliver(vec![0, 1])),
        (&[0.9, 0.65, 0.1], &[0, 1], Policy::BALANCED, first),
        (&[0.9, 0.85, 0.1], &[0, 1], Policy::STRICT, Choice::Unsure),
        (&[f32::NAN, 0.1], &[], Policy::LOOSE, Choice::Unsure),
    ] {
        assert_eq!(ranking(confidences, several).choose(policy), expected, "{confidences:?} {several:?} {policy:?}");
    }
}

#[test]
fn confidence_leaves_room_for_none_of_them() {
    for (common, examples) in [(vec![], 0.0), (vec![0.0; 3], 0.0), (vec![2.0, 1.0, 0.0], 0.0), (vec![9.0, 9.0], 50.0)] {
        let evidence = vec![Evidence { examples, ..Evidence::default() }; common.len()];
        let found = confidences(&Fit::all(common.iter().copied(), &evidence), &evidence);
        let sum: f32 = found.iter().sum();
        assert!(sum < 1.0001 && found.iter().all(|one| (0.0..=1.0).contains(one)), "{common:?} {found:?}");
        assert!(found.windows(2).all(|pair| pair[0] >= pair[1]));
    }
}

#[test]
fn without_any_evidence_nobody_is_probable() {
    let evidence = [Evidence::default(); 1];
    let found = confidences(&Fit::all([0.0].into_iter(), &evidence), &evidence);
    assert!(found[0] < Policy::LOOSE.lone, "{found:?}");
}
