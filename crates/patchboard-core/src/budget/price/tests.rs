use super::*;

fn table() -> PriceTable {
    let price = |model: &str, input, output| ModelPrice { model: Glob::new(model), input, output };
    PriceTable(vec![
        price("claude-haiku-*", 1.0, 5.0),
        price("claude-*", 3.0, 15.0),
        price("gpt-4o", 2.5, 10.0),
        price("odd", 0.0333, 0.1),
    ])
}

#[test]
fn the_first_matching_row_prices_both_directions() {
    let dollar = 1_000_000_000;
    let million = TokenCount { input: 1_000_000, output: 1_000_000 };
    let small = TokenCount { input: 150, output: 42 };
    for (model, tokens, expected) in [
        ("claude-haiku-4-5", million, 6 * dollar),
        ("claude-sonnet-4-5", million, 18 * dollar),
        ("gpt-4o", million, 12 * dollar + dollar / 2),
        ("gpt-4o-mini", million, 0),
        ("", million, 0),
        ("claude-sonnet-4-5", small, 150 * 3_000 + 42 * 15_000),
        ("claude-sonnet-4-5", TokenCount::default(), 0),
        // Fractions of a billionth are rounded once, at the end.
        ("odd", TokenCount { input: 1, output: 1 }, 133),
        ("odd", TokenCount { input: 2, output: 0 }, 67),
    ] {
        assert_eq!(table().cost_nanousd(model, tokens), expected, "{model} {tokens:?}");
    }
}

#[test]
fn no_table_costs_nothing_and_no_figure_overflows() {
    let max_tokens = TokenCount { input: u64::MAX, output: u64::MAX };
    assert_eq!(PriceTable::default().cost_nanousd("any", max_tokens), 0);
    assert_eq!(table().cost_nanousd("gpt-4o", max_tokens), u64::MAX);
}
