//! Token prices by model name.

use crate::model::TokenCount;
use crate::tool::Glob;

/// US dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPrice {
    pub model: Glob,
    pub input: f64,
    pub output: f64,
}

/// The first match wins, so the order of the table is its precedence. A model without a price costs nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable(pub Vec<ModelPrice>);

impl PriceTable {
    /// Cost in billionths of a US dollar.
    pub fn cost_nanousd(&self, model: &str, tokens: TokenCount) -> u64 {
        let Some(price) = self.0.iter().find(|price| price.model.matches(model)) else { return 0 };
        // One dollar per million tokens is 1000 nanodollars per token.
        let cost = (tokens.input as f64).mul_add(price.input, tokens.output as f64 * price.output) * 1000.0;
        cost.round() as u64
    }
}

#[cfg(test)]
mod tests;
