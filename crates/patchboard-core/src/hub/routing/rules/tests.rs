use super::*;

fn rules() -> HubRules {
    HubRules {
        aliases: vec![("nb".into(), "notebook".into())],
        rules: vec![RoutingRule::new(["play *", "* by the beatles"], "music"), RoutingRule::new(["*"], "rest")],
    }
}

fn decided(text: &str) -> Option<(RoutingStage, String, Option<String>)> {
    rules().apply(text).map(|(stage, app, rest, _)| (stage, app.to_owned(), rest.map(str::to_owned)))
}

#[test]
fn an_alias_is_a_name() {
    assert_eq!(decided("NB: buy milk"), Some((RoutingStage::Alias, "notebook".into(), Some("buy milk".into()))));
    assert_eq!(decided("nb, buy milk"), Some((RoutingStage::Alias, "notebook".into(), Some("buy milk".into()))));
}

#[test]
fn the_first_rule_that_matches_the_whole_text_decides() {
    let whole = |app: &str| Some((RoutingStage::Rule, app.to_owned(), None));
    assert_eq!(decided("  Play something LOUD "), whole("music"));
    assert_eq!(decided("help! by The Beatles"), whole("music"));
    assert_eq!(decided("display settings"), whole("rest"));
    assert_eq!(decided("nb buy milk"), whole("rest"));
}

#[test]
fn reasons_name_the_rule() {
    let rules = rules();
    let (_, _, _, reason) = rules.apply("play it").unwrap();
    assert_eq!(reason, "the rule `play *` or `* by the beatles` is for music");
    assert_eq!(HubRules::default().apply("play it"), None);
}
