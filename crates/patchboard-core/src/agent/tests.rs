use super::*;
use crate::scripted::ScriptedModel;

fn agent(name: &str) -> AgentSpec {
    AgentSpec {
        name: name.into(),
        provider: ScriptedModel::new([]),
        model: "".into(),
        strategy: StrategyKind::React,
        reasoning: crate::run_spec::reasoning::ReasoningOptions::default(),
        source: crate::run_spec::AgentSource::User,
        description: None,
        max_tokens: 100,
        temperature: None,
        system_prompt: None,
        tools: None,
        budget: BudgetLimits::default(),
        max_run_tokens: None,
        run_timeout: std::time::Duration::from_secs(1800),
        context_window: 8192,
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// `fields` is `channel account peer guild team`, `-` for none.
fn fields(text: &str) -> [Option<String>; 5] {
    let mut parts = text.split(' ').map(|part| some(part.trim_start_matches('-')));
    std::array::from_fn(|_| parts.next().flatten())
}

fn binding(agent: &str, text: &str) -> AgentBinding {
    let [channel, account, peer, guild, team] = fields(text);
    AgentBinding { agent: agent.into(), channel, account, peer, guild, team }
}

fn check(bindings: &[(&str, &str)], origin: &str, expected: &str) {
    let [channel, account, peer, guild, team] = fields(origin);
    let origin = ConversationOrigin {
        channel: channel.unwrap_or_default(),
        account: account.unwrap_or_default(),
        peer,
        guild,
        team,
    };
    let names = ["default", "a", "b", "c", "d", "e"];
    let table = AgentTable::new(
        names.into_iter().map(agent).collect(),
        bindings.iter().map(|(agent, text)| binding(agent, text)).collect(),
    )
    .unwrap();
    assert_eq!(&*table.route(&origin).unwrap().name, expected, "{origin:?}");
}

#[test]
fn the_most_specific_binding_wins_whatever_its_place_in_the_file() {
    let bindings = [
        ("a", "tg - - - -"),
        ("b", "tg acme - - -"),
        ("c", "tg - - - blue"),
        ("d", "tg - - guild1 -"),
        ("e", "- - bob - -"),
    ];
    check(&bindings, "tg x - - -", "a");
    check(&bindings, "tg acme - - -", "b");
    check(&bindings, "tg acme - - blue", "c");
    check(&bindings, "tg acme - guild1 blue", "d");
    check(&bindings, "tg acme bob guild1 blue", "e");
    check(&bindings, "web acme - guild1 blue", "default");
}

#[test]
fn every_field_of_a_binding_must_match() {
    let bindings = [("a", "whatsapp - bob - -")];
    check(&bindings, "whatsapp x bob - -", "a");
    check(&bindings, "telegram x bob - -", "default");
}

#[test]
fn among_equals_the_first_in_the_file_wins() {
    check(&[("a", "tg - - - -"), ("b", "tg - - - -")], "tg x - - -", "a");
}

#[test]
fn an_absent_peer_is_main() {
    check(&[("a", "- - main - -")], "web x - - -", "a");
}

#[test]
fn a_binding_to_an_unknown_agent_is_refused_by_its_place() {
    let error = AgentTable::new(vec![agent("default")], vec![binding("ghost", "tg - - - -")]).unwrap_err();
    assert_eq!(error.message, "bindings[0]: no agent named `ghost`");
}

#[test]
fn without_a_default_agent_an_unbound_origin_is_refused_by_name() {
    let table = AgentTable::new(vec![agent("a")], vec![]).unwrap();
    let origin =
        ConversationOrigin { channel: "web".into(), account: "bob".into(), peer: None, guild: None, team: None };
    assert_eq!(table.route(&origin).unwrap_err().message, "no agent configured for web:bob:main");
}

#[test]
fn a_webhook_gets_only_tools_that_are_listed_by_name() {
    let globs = |names: &[&str]| names.iter().map(|&name| Glob::new(name)).collect::<Vec<_>>();
    for (listed, elsewhere, by_webhook) in [
        (None, None, globs(&[])),
        (Some(globs(&["*"])), Some(globs(&["*"])), globs(&[])),
        (Some(globs(&["read", "app.*", "r?"])), Some(globs(&["read", "app.*", "r?"])), globs(&["read"])),
    ] {
        let agent = AgentSpec { tools: listed, ..agent("default") };
        assert_eq!(agent.tools_for(Surface::Gateway).as_deref(), elsewhere.as_deref());
        assert_eq!(agent.tools_for(Surface::Webhook).as_deref(), Some(by_webhook.as_slice()));
    }
}

#[test]
fn profiles_mean_the_default_agent_unless_one_of_that_name_is_configured() {
    let dup = AgentSpec { strategy: StrategyKind::Dup, ..agent("ask") };
    let default = AgentSpec { strategy: StrategyKind::Tot, ..agent("default") };
    let table = AgentTable::new(vec![default, dup], Vec::new()).unwrap();
    let chosen =
        |name: &str| table.select_for_run(name).map(|(agent, strategy)| (agent.name.to_string(), strategy)).ok();
    for profile in ["dev", "explore", "orchestrator", "agent-builder", "assistant"] {
        assert_eq!(chosen(profile), Some(("default".to_owned(), StrategyKind::React)), "{profile}");
    }
    assert_eq!(chosen("ask"), Some(("ask".to_owned(), StrategyKind::Dup)));
    assert_eq!(chosen("default"), Some(("default".to_owned(), StrategyKind::Tot)));
    assert_eq!(chosen("Dev"), None);
}
