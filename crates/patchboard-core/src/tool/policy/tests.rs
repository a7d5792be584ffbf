use serde_json::json;

use super::*;
use crate::tool::UnknownOutcome;

#[test]
fn globs() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "anything", true),
        ("read", "read", true),
        ("read", "reader", false),
        ("app.*", "app.notes", true),
        ("app.*", "apps", false),
        ("*_file", "write_file", true),
        ("a*b*c", "a--b--b--c", true),
        ("a*b*c", "a--b--b--", false),
        ("r?ad", "read", true),
        ("r?ad", "rad", false),
        ("", "", true),
        ("", "x", false),
        ("é*", "éa", true),
        ("?", "é", true),
        ("*é?", "aéé", true),
        ("*aab", "aaaab", true),
        ("a**b?*", "axxbc", true),
        ("*?", "", false),
    ] {
        assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} on {text}");
    }
}

fn decide(rules: &[(&str, Approval)], name: &str, effect: Effect, surface: Surface) -> Approval {
    let tool = ToolSpec {
        name: name.into(),
        description: "".into(),
        input_schema: json!({}).into(),
        effect,
        unknown_outcome: UnknownOutcome::Fail,
        timeout: None,
        kind: "builtin",
        traits: None,
    };
    let rules = rules.iter().map(|&(glob, approval)| (Glob::new(glob), approval)).collect();
    ApprovalPolicy { rules }.decide(&tool, surface)
}

#[test]
fn the_most_specific_rule_wins_and_a_tie_goes_to_the_stricter() {
    use Approval::{Allow, Ask, Deny};
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
        assert_eq!(decide(&rules, name, Effect::Writes, Surface::Gateway), expected, "{name}");
    }
}

#[test]
fn without_rules_the_effect_and_the_surface_decide() {
    for (effect, surface, expected) in [
        (Effect::ReadOnly, Surface::Webhook, Approval::Allow),
        (Effect::Writes, Surface::Gateway, Approval::Ask),
        (Effect::Writes, Surface::Runs, Approval::Allow),
        (Effect::Writes, Surface::Cli, Approval::Allow),
        (Effect::Writes, Surface::Webhook, Approval::Deny),
        (Effect::Writes, Surface::Bridge, Approval::Ask),
    ] {
        assert_eq!(decide(&[], "tool", effect, surface), expected, "{effect:?} {surface:?}");
    }
}

#[test]
fn a_batch_is_judged_by_its_calls_unless_a_rule_names_it() {
    let mut policy = ApprovalPolicy::default();
    assert_eq!(policy.decide(&batch::spec(), Surface::Gateway), Approval::Allow);
    policy.rules.push((Glob::new("batch"), Approval::Deny));
    assert_eq!(policy.decide(&batch::spec(), Surface::Gateway), Approval::Deny);
}

#[test]
fn programs_call_each_others_tools_and_those_of_the_server_that_are_for_everyone() {
    let policy = ApprovalPolicy::default();
    let tool = |name: &str, effect, kind| ToolSpec { name: name.into(), effect, kind, ..batch::spec() };
    for (spec, offered, expected) in [
        (tool("resize", Effect::Writes, WORKER_KIND), false, Approval::Allow),
        (tool("read", Effect::ReadOnly, "builtin"), true, Approval::Allow),
        (tool("hub_send", Effect::Writes, "app"), true, Approval::Allow),
        (tool("variable_set", Effect::Writes, "builtin"), true, Approval::Allow),
        (tool("bash", Effect::Writes, "builtin"), false, Approval::Ask),
        // Nobody makes their own tool one of the server's by its name.
        (tool("remember", Effect::Writes, "mcp"), false, Approval::Ask),
        (tool("hub_send", Effect::Writes, WORKER_KIND), false, Approval::Allow),
    ] {
        assert_eq!(is_for_programs(&spec), offered, "{}", spec.name);
        assert_eq!(policy.decide(&spec, Surface::Bridge), expected, "{}", spec.name);
    }
}

#[test]
fn agents_are_judged_by_what_they_do() {
    use Approval::{Allow, Deny};
    let tool = ToolSpec {
        name: "agent.helper".into(),
        description: "".into(),
        input_schema: json!({}).into(),
        effect: Effect::Writes,
        unknown_outcome: UnknownOutcome::Ask,
        timeout: None,
        kind: "agent",
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
    assert!(!is_for_programs(&tool), "programs see it only where the configuration says so");
}
