use patchboard_proto::pb::{ParameterSpec, ToolSpec as Wire};

use super::*;

fn wire(name: &str) -> Wire {
    Wire { name: name.to_owned(), description: format!("does {name}"), ..Default::default() }
}

fn offered(tools: impl IntoIterator<Item = Wire>) -> BTreeMap<String, Wire> {
    tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect()
}

#[test]
fn what_cannot_be_offered_is_left_out() {
    let many = vec![ParameterSpec::default(); MAX_TOOL_PARAMETERS + 1];
    let metadata: BTreeMap<String, String> = (0..33).map(|n| (n.to_string(), String::new())).collect();
    let tools = validated(
        "py",
        offered([
            wire("good"),
            wire("also.good-1"),
            wire("_private"),
            wire("two words"),
            wire(&"x".repeat(65)),
            Wire { parameters: many, ..wire("wide") },
            Wire { metadata, ..wire("wordy") },
        ]),
    );
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["also.good-1", "good"]);
}

/// As many as `RegisterTools` accepts, or a tool that was registered would be missing at the next start.
#[test]
fn a_tool_has_as_many_parameters_as_may_be_registered() {
    let parameters = (0..230).map(|index| ParameterSpec { name: format!("p{index}"), ..Default::default() }).collect();
    let tools = validated("py", offered([Wire { parameters, ..wire("wide") }]));
    assert_eq!(tools.iter().map(|tool| tool.parameters.len()).collect::<Vec<_>>(), [230]);
}

#[test]
fn the_list_is_the_same_while_nothing_changes() {
    let mut offer = OfferedTools::default();
    let tools = validated("py", offered([wire("b"), wire("a")]));
    assert!(offer.replace(&tools));
    let before = offer.specs().clone();
    assert!(!offer.replace(&tools) && Arc::ptr_eq(&before, offer.specs()));
    assert!(offer.replace(&validated("py", offered([wire("a")]))));
    assert_eq!((before.len(), offer.specs().len()), (2, 1));
}

#[test]
fn a_tool_has_two_names() {
    let mut offer = OfferedTools::default();
    offer.replace(&validated("py", offered([wire("a"), wire("py.b")])));
    let find = |name: &str| offer.find("py", name).map(|spec| spec.name.to_string());
    assert_eq!(
        ["a", "py.a", "py.b", "py.py.b"].map(find),
        ["a", "a", "py.b", "py.b"].map(|name| Some(name.to_owned()))
    );
    assert_eq!(["b", "other.a", "pya", ""].map(find), [const { None }; 4]);
}

#[test]
fn a_list_that_is_told_twice_over_has_each_tool_once() {
    let tools = validated("py", offered([wire("a"), wire("b")]));
    let twice = sorted([tools.clone(), tools.clone()].concat());
    assert_eq!(twice, tools);
}
