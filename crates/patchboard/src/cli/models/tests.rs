use serde_json::json;

use super::ModelsReport;
use crate::output::PageLayout;
use crate::telemetry::LogColour;

fn report() -> ModelsReport {
    serde_json::from_value(json!({
        "models": [
            { "id": "main/llama3.2", "name": "llama3.2", "provider": "main", "default": true, "news": 1 },
            { "id": "cloud/m-1", "name": "Model One", "provider": "cloud" },
        ],
        "unavailable": [{ "provider": "away", "reason": "did not answer within 2 s" }],
    }))
    .unwrap()
}

#[test]
fn a_row_a_model_and_a_mark_at_the_default() {
    let lines = report().table().lines(PageLayout { columns: None, colour: LogColour::Off });
    let wanted = ["MODEL          USE      NAME", "main/llama3.2  default", "cloud/m-1               Model One"];
    assert_eq!(lines, wanted);
}

#[test]
fn programs_read_the_mark_only_where_it_is() {
    let lines: Vec<String> = report().models.iter().map(|model| serde_json::to_string(model).unwrap()).collect();
    assert_eq!(lines[0], r#"{"id":"main/llama3.2","name":"llama3.2","provider":"main","default":true}"#);
    assert_eq!(lines[1], r#"{"id":"cloud/m-1","name":"Model One","provider":"cloud"}"#);
}

#[test]
fn one_provider_is_picked_out_by_its_name() {
    let mut one = report();
    one.filter_provider("cloud").unwrap();
    assert_eq!((one.models.len(), one.unavailable.len()), (1, 0));
    report().filter_provider("away").expect("it is there, and silent");
    let failure = report().filter_provider("clod").unwrap_err();
    assert_eq!(failure.texts(), ("no provider is named `clod`", Some("did you mean `cloud`?")));
}

#[test]
fn a_model_is_listed_once() {
    let mut report = ModelsReport::default();
    report.add("main", "a");
    report.add("main", "a");
    assert_eq!(report.models.len(), 1);
}
