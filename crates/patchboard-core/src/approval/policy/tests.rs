use serde_json::json;

use super::*;
use crate::tool::{ToolKind, UnknownOutcomePolicy};

fn decide(rules: &[(&str, ApprovalMode)], name: &str, effect: ToolEffect, surface: Surface) -> ApprovalMode {
    let tool = ToolSpec {
        name: name.into(),
        description: "".into(),
        input_schema: json!({}).into(),
        effect,
        unknown_outcome: UnknownOutcomePolicy::Fail,
        timeout: None,
        kind: ToolKind::BuiltIn,
        traits: None,
    };
    let rules = rules.iter().map(|&(glob, approval)| (Glob::new(glob), approval)).collect();
    ApprovalPolicy { rules }.decide(&tool, surface)
}

#[test]
fn the_most_specific_rule_wins_and_a_tie_goes_to_the_stricter() {
    use ApprovalMode::{Allow, Ask, Deny};
    let rules = [("*", Allow), ("bash", Ask), ("app.*", Deny), ("app.n*", Ask), ("app.no*", Deny), ("app.*es", Allow)];
    for (name, expected) in [
        ("read", Allow),
        ("bash", Ask),
        ("app.x", Deny),
        ("app.nx", Ask),
        ("app.nox", Deny),
        ("app.nes", Allow),
        ("app.notes", Deny),
    ] {
        assert_eq!(decide(&rules, name, ToolEffect::Writes, Surface::Gateway), expected, "{name}");
    }
}

#[test]
fn without_rules_the_effect_and_the_surface_decide() {
    for (effect, surface, expected) in [
        (ToolEffect::ReadOnly, Surface::Webhook, ApprovalMode::Allow),
        (ToolEffect::Writes, Surface::Gateway, ApprovalMode::Ask),
        (ToolEffect::Writes, Surface::Runs, ApprovalMode::Allow),
        (ToolEffect::Writes, Surface::Cli, ApprovalMode::Allow),
        (ToolEffect::Writes, Surface::Webhook, ApprovalMode::Deny),
        (ToolEffect::Writes, Surface::Bridge, ApprovalMode::Ask),
    ] {
        assert_eq!(decide(&[], "tool", effect, surface), expected, "{effect:?} {surface:?}");
    }
}

#[test]
fn a_batch_is_judged_by_its_calls_unless_a_rule_names_it() {
    let mut policy = ApprovalPolicy::default();
    assert_eq!(policy.decide(&crate::executor::builtin::batch::spec(), Surface::Gateway), ApprovalMode::Allow);
    policy.rules.push((Glob::new("batch"), ApprovalMode::Deny));
    assert_eq!(policy.decide(&crate::executor::builtin::batch::spec(), Surface::Gateway), ApprovalMode::Deny);
}

#[test]
fn programs_call_each_others_tools_and_those_of_the_server_that_are_for_everyone() {
    let policy = ApprovalPolicy::default();
    let tool = |name: &str, effect, kind| ToolSpec {
        name: name.into(),
        effect,
        kind,
        ..crate::executor::builtin::batch::spec()
    };
    for (spec, offered, expected) in [
        (tool("resize", ToolEffect::Writes, ToolKind::Worker), false, ApprovalMode::Allow),
        (tool("read", ToolEffect::ReadOnly, ToolKind::BuiltIn), true, ApprovalMode::Allow),
        (tool("hub_send", ToolEffect::Writes, ToolKind::App), true, ApprovalMode::Allow),
        (tool("variable_set", ToolEffect::Writes, ToolKind::BuiltIn), true, ApprovalMode::Allow),
        (tool("bash", ToolEffect::Writes, ToolKind::BuiltIn), false, ApprovalMode::Ask),
        // A foreign tool does not become one of the server's by its name.
        (tool("remember", ToolEffect::Writes, ToolKind::Mcp), false, ApprovalMode::Ask),
        (tool("hub_send", ToolEffect::Writes, ToolKind::Worker), false, ApprovalMode::Allow),
    ] {
        assert_eq!(is_open_to_programs(&spec), offered, "{}", spec.name);
        assert_eq!(policy.decide(&spec, Surface::Bridge), expected, "{}", spec.name);
    }
}

#[test]
fn agents_are_judged_by_what_they_do() {
    use ApprovalMode::{Allow, Deny};
    let tool = ToolSpec {
        name: "agent.helper".into(),
        description: "".into(),
        input_schema: json!({}).into(),
        effect: ToolEffect::Writes,
        unknown_outcome: UnknownOutcomePolicy::Ask,
        timeout: None,
        kind: ToolKind::Agent,
        traits: None,
    };
    for (surface, expected) in [
        (Surface::Gateway, Allow),
        (Surface::Runs, Allow),
        (Surface::Mcp, Allow),
        (Surface::Cli, Allow),
        (Surface::Bridge, Allow),
        (Surface::Webhook, Deny),
        (Surface::Hub, Deny),
    ] {
        assert_eq!(ApprovalPolicy::default().decide(&tool, surface), expected, "{surface:?}");
    }
    let rules = vec![(Glob::new("agent.*"), Deny)];
    assert_eq!(ApprovalPolicy { rules }.decide(&tool, Surface::Runs), Deny);
    assert!(!is_open_to_programs(&tool), "programs see it only where the configuration says so");
}
