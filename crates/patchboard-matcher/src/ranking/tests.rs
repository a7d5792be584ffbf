use super::{AppEvidence, AppRanking, ConfidencePolicy, DescriptionSimilarity, OddsTable, RankedApp, RankingChoice};
use crate::query::Query;
use crate::tokenizer::tokenize;

fn ranking(confidences: &[f32], several: &[usize]) -> AppRanking {
    let candidate =
        |confidence: &f32| RankedApp { app: "a".into(), score: 0.5, confidence: *confidence, reasons: Vec::new() };
    AppRanking::new(confidences.iter().map(candidate).collect(), several.to_vec(), 0.0)
}

#[test]
fn a_choice_needs_confidence_and_distance() {
    let first = RankingChoice::Deliver(vec![0]);
    for (confidences, several, policy, expected) in [
        (&[0.9, 0.05][..], &[][..], ConfidencePolicy::BALANCED, first.clone()),
        (&[0.75, 0.05], &[], ConfidencePolicy::BALANCED, RankingChoice::Unsure),
        (&[0.6, 0.05], &[], ConfidencePolicy::EAGER, first.clone()),
        (&[0.85, 0.05], &[], ConfidencePolicy::CAREFUL, RankingChoice::Unsure),
        (&[0.85, 0.8], &[], ConfidencePolicy::BALANCED, RankingChoice::Unsure),
        (&[0.45], &[], ConfidencePolicy::BALANCED, first.clone()),
        (&[0.35], &[], ConfidencePolicy::BALANCED, RankingChoice::Unsure),
        (&[], &[], ConfidencePolicy::EAGER, RankingChoice::Unsure),
        (&[0.9, 0.85, 0.1], &[0, 1], ConfidencePolicy::BALANCED, RankingChoice::Deliver(vec![0, 1])),
        (&[0.9, 0.65, 0.1], &[0, 1], ConfidencePolicy::BALANCED, first),
        (&[0.9, 0.85, 0.1], &[0, 1], ConfidencePolicy::CAREFUL, RankingChoice::Unsure),
        (&[f32::NAN, 0.1], &[], ConfidencePolicy::EAGER, RankingChoice::Unsure),
    ] {
        assert_eq!(ranking(confidences, several).choose(policy), expected, "{confidences:?} {several:?} {policy:?}");
    }
}

fn odds(common: &[f32], examples: f32, none: &AppEvidence) -> OddsTable {
    let evidence = vec![AppEvidence { example_weight: examples, ..AppEvidence::default() }; common.len()];
    let similarities: Vec<DescriptionSimilarity> = common
        .iter()
        .map(|common| DescriptionSimilarity { shared_terms: *common, ..DescriptionSimilarity::default() })
        .collect();
    let background = DescriptionSimilarity { whole_text: 0.4, ..DescriptionSimilarity::default() };
    OddsTable::new(&Query::new(&tokenize("play jazz")), &background, &similarities, &evidence, none)
}

#[test]
fn confidence_leaves_room_for_none_of_them() {
    for (common, examples) in [(vec![], 0.0), (vec![0.0; 3], 0.0), (vec![2.0, 1.0, 0.0], 0.0), (vec![9.0, 9.0], 50.0)] {
        let found = odds(&common, examples, &AppEvidence::default()).confidences();
        let sum: f32 = found.iter().sum();
        assert!(sum < 1.0001 && found.iter().all(|one| (0.0..=1.0).contains(one)), "{common:?} {found:?}");
        assert!(found.windows(2).all(|pair| pair[0] >= pair[1]));
    }
}

#[test]
fn without_any_evidence_nobody_is_probable() {
    let found = odds(&[0.0], 0.0, &AppEvidence::default()).confidences();
    assert!(found[0] < ConfidencePolicy::EAGER.min_single_app, "{found:?}");
}

#[test]
fn what_is_like_messages_of_no_app_is_for_none_of_them() {
    let before = odds(&[1.0, 0.5], 0.0, &AppEvidence::default()).confidences();
    let given_up = AppEvidence { nearest_accepted: 0.9, is_same_text: true, ..AppEvidence::default() };
    let after = odds(&[1.0, 0.5], 0.0, &given_up).confidences();
    assert!(after.iter().zip(&before).all(|(after, before)| after < &(before / 10.0)), "{before:?} {after:?}");
}

#[test]
fn the_more_was_learned_the_surer_a_delivery_has_to_be() {
    let with = |experience| AppRanking { experience, ..ranking(&[0.87, 0.05], &[]) };
    assert_eq!(with(0.0).choose(ConfidencePolicy::BALANCED), RankingChoice::Deliver(vec![0]));
    assert_eq!(with(1.0).choose(ConfidencePolicy::BALANCED), RankingChoice::Unsure);
    assert_eq!(with(1.0).choose(ConfidencePolicy::EAGER), RankingChoice::Deliver(vec![0]));
    assert_eq!(with(0.0).choose(ConfidencePolicy::CAREFUL), RankingChoice::Unsure);
}

#[test]
fn who_is_not_open_keeps_its_share() {
    let ranking = ranking(&[0.8, 0.15], &[]);
    assert_eq!(ranking.choose_among(ConfidencePolicy::EAGER, |one| one.confidence < 0.5), RankingChoice::Unsure);
}
