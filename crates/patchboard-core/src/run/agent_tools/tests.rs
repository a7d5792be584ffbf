use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::budget::BudgetLimits;
use crate::run_spec::StrategyKind;
use crate::scripted::ScriptedModel;

fn agent(name: &str, description: Option<&str>) -> AgentSpec {
    AgentSpec {
        name: name.into(),
        provider: ScriptedModel::new([]),
        model: "script-1".into(),
        strategy: StrategyKind::React,
        reasoning: crate::run_spec::reasoning::ReasoningOptions::default(),
        source: crate::run_spec::AgentSource::User,
        description: description.map(Arc::from),
        max_tokens: 1000,
        temperature: None,
        system_prompt: None,
        tools: None,
        budget: BudgetLimits::default(),
        max_run_tokens: None,
        run_timeout: Duration::from_secs(600),
        context_window: 100_000,
    }
}

#[test]
fn every_agent_is_a_tool() {
    let table = AgentTable::new(vec![agent("default", None), agent("coder", Some("writes programs"))], vec![]).unwrap();
    let tools = AgentToolHost::new(&table, &[]);
    let offered = tools.tools(None);
    assert!(Arc::ptr_eq(&offered, &tools.tools(None)), "the list is the same one each time");
    let [default, coder] = &offered[..] else { panic!("not two tools: {offered:?}") };
    assert_eq!((&*default.name, &*coder.name), ("agent.default", "agent.coder"));
    assert!(coder.description.contains(" About it: writes programs. "), "{}", coder.description);
    assert!(!default.description.contains("About"), "{}", default.description);
    assert_eq!(
        (coder.kind, coder.effect, coder.unknown_outcome),
        (ToolKind::Agent, ToolEffect::Writes, UnknownOutcomePolicy::Ask)
    );
    assert_eq!(coder.timeout, Some(Duration::from_secs(630)), "longer than the run itself may take");
}

#[test]
fn arguments_are_read() {
    let read = |arguments: Value| {
        parse_arguments(&arguments)
            .map(|(message, thread)| (message.to_string(), thread.map(|thread| thread.to_string())))
    };
    let message = "m".to_owned();
    assert_eq!(read(json!({"message": "m"})), Ok((message.clone(), None)));
    assert_eq!(read(json!({"message": "m", "thread_id": null})), Ok((message.clone(), None)));
    assert_eq!(read(json!({"message": "m", "thread_id": "t"})), Ok((message, Some("t".to_owned()))));
    assert_eq!(read(json!({})), Err("`message` must be a text".to_owned()));
    assert_eq!(read(json!({"message": " "})), Err("`message` must not be empty".to_owned()));
    for thread in [json!(" "), json!(1), json!("t".repeat(MAX_THREAD + 1))] {
        let refused = Err("`thread_id` must be a text of 1 to 200 characters".to_owned());
        assert_eq!(read(json!({"message": "m", "thread_id": thread})), refused);
    }
}
