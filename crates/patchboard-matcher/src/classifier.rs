//! A small linear classifier (softmax regression) over the features of utterances. It depends on its examples alone and
//! is retrained from them in order, so that nothing else has to be stored and nothing outlives a forgotten example.

use std::collections::HashMap;

use super::features::FeatureHash;
use super::tuning::TUNING;

/// Multiplications per training. More examples or apps reduce the epochs, not lengthen the wait.
const MAX_MULTIPLICATIONS: usize = 40_000_000;
const MAX_EPOCHS: usize = 12;
/// Smaller gradients are skipped: the prediction is already right.
const MIN_GRADIENT: f32 = 0.003;

#[derive(Debug, Clone, Default)]
pub(super) struct SoftmaxClassifier {
    classes: usize,
    index: HashMap<FeatureHash, u32>,
    /// The weight of a feature by itself, by index.
    rarity: Vec<f32>,
    /// For each feature the weights of all classes.
    weights: Vec<f32>,
}

pub(super) struct TrainingSample<'a> {
    pub(super) features: &'a [FeatureHash],
    pub(super) class: usize,
    pub(super) weight: f32,
}

impl SoftmaxClassifier {
    pub(super) fn train(samples: &[TrainingSample<'_>], classes: usize) -> SoftmaxClassifier {
        let mut classifier = SoftmaxClassifier { classes, ..SoftmaxClassifier::default() };
        let mut seen: Vec<u32> = Vec::new();
        for feature in samples.iter().flat_map(|sample| sample.features) {
            let next = classifier.index.len() as u32;
            let at = *classifier.index.entry(*feature).or_insert(next) as usize;
            if at == seen.len() {
                seen.push(0);
                classifier.rarity.push(feature.weight());
            }
            if let Some(seen) = seen.get_mut(at) {
                *seen += 1;
            }
        }
        let sample_count = samples.len() as f32;
        for (rarity, seen) in classifier.rarity.iter_mut().zip(&seen) {
            // Inverse document frequency, with a floor so that common features still count.
            *rarity *= ((sample_count + 1.0) / (*seen as f32 + 0.5)).ln().max(0.2);
        }
        classifier.weights = vec![0.0; classifier.rarity.len() * classes];
        classifier.fit(samples);
        classifier
    }

    fn fit(&mut self, samples: &[TrainingSample<'_>]) {
        let inputs: Vec<Vec<(u32, f32)>> = samples.iter().map(|sample| self.input(sample.features)).collect();
        let multiplications: usize = inputs.iter().map(Vec::len).sum::<usize>() * self.classes * 2;
        let epochs = (MAX_MULTIPLICATIONS / multiplications.max(1)).clamp(1, MAX_EPOCHS);
        let mut steps = vec![1e-6f32; self.weights.len()];
        let mut order: Vec<usize> = (0..samples.len()).collect();
        let mut scores = vec![0.0; self.classes];
        let mut gradients: Vec<(usize, f32)> = Vec::new();
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..epochs {
            // A shuffle with a fixed seed, so that training is deterministic.
            for at in (1..order.len()).rev() {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                order.swap(at, (seed % (at as u64 + 1)) as usize);
            }
            for &at in &order {
                let (Some(sample), Some(input)) = (samples.get(at), inputs.get(at)) else { continue };
                self.score(input, &mut scores);
                softmax(&mut scores);
                loss_gradient(sample, &mut scores);
                gradients.clear();
                gradients.extend(scores.iter().copied().enumerate().filter(|(_, gradient)| *gradient != 0.0));
                self.step(input, &gradients, &mut steps, TUNING.learning_rate);
            }
        }
    }

    /// One AdaGrad step against the gradient.
    fn step(&mut self, input: &[(u32, f32)], gradients: &[(usize, f32)], steps: &mut [f32], rate: f32) {
        for &(feature, value) in input {
            let from = feature as usize * self.classes;
            let (Some(weights), Some(steps)) =
                (self.weights.get_mut(from..from + self.classes), steps.get_mut(from..from + self.classes))
            else {
                continue;
            };
            for &(class, gradient) in gradients {
                if let (Some(weight), Some(step)) = (weights.get_mut(class), steps.get_mut(class)) {
                    let gradient = gradient * value;
                    *step += gradient * gradient;
                    *weight -= rate * gradient / step.sqrt();
                }
            }
        }
    }

    /// The known features with their values, normalised to length 1.
    fn input(&self, features: &[FeatureHash]) -> Vec<(u32, f32)> {
        let mut input: Vec<(u32, f32)> = features
            .iter()
            .filter_map(|feature| {
                let at = *self.index.get(feature)?;
                Some((at, *self.rarity.get(at as usize)?))
            })
            .collect();
        let length = input.iter().map(|(_, value)| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        input.iter_mut().for_each(|(_, value)| *value /= length);
        input
    }

    fn score(&self, input: &[(u32, f32)], scores: &mut [f32]) {
        scores.fill(0.0);
        for &(feature, value) in input {
            let from = feature as usize * self.classes;
            let Some(weights) = self.weights.get(from..from + self.classes) else { continue };
            for (score, weight) in scores.iter_mut().zip(weights) {
                *score += value * weight;
            }
        }
    }

    /// The score of each class; 0 is neutral.
    pub(super) fn scores(&self, features: &[FeatureHash]) -> Vec<f32> {
        let mut scores = vec![0.0; self.classes];
        self.score(&self.input(features), &mut scores);
        scores
    }
}

pub(super) fn softmax(scores: &mut [f32]) {
    // Subtracting the highest score keeps `exp` from overflowing.
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - highest).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Turns probabilities into the gradient of the loss.
fn loss_gradient(sample: &TrainingSample<'_>, scores: &mut [f32]) {
    for (class, score) in scores.iter_mut().enumerate() {
        *score = (*score - if class == sample.class { 1.0 } else { 0.0 }) * sample.weight;
        if score.abs() < MIN_GRADIENT {
            *score = 0.0;
        }
    }
}

#[cfg(test)]
mod tests;
