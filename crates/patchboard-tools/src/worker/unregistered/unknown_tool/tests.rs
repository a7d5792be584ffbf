use patchboard_core::tool::{ToolFault, ToolOutput};
use serde_json::json;

use super::is_unknown_tool;

fn python(kind: &str, message: &str) -> ToolOutput {
    let error = json!({"type": kind, "message": message, "traceback": "…", "context": {"tool_name": "add"}});
    ToolOutput::error(error.to_string())
}

#[test]
fn what_adapters_say_about_a_tool_they_do_not_have() {
    for (kind, message) in [
        ("AttributeError", "Tool 'add' not found in Tools"),
        ("AttributeError", "'MyAdapter' object has no attribute 'add'"),
        ("NotImplementedError", "Unknown tool: add"),
        ("ValueError", "Unknown tool: add. Available: ['sub', 'mul']"),
        ("ValueError", "Unknown command 'add'"),
        ("ValueError", "unsupported tool \"add\""),
        ("KeyError", "'add'"),
        ("RuntimeError", "no tool named `add`"),
        ("RuntimeError", "Tool add is not registered"),
        ("LookupError", "add is not implemented"),
        ("my.errors.ToolNotFound", "nothing like that here"),
    ] {
        assert!(is_unknown_tool(&python(kind, message), "add"), "{kind}: {message}");
        let plain = ToolOutput::error(format!("{kind}: {message}"));
        assert!(kind.contains('.') || is_unknown_tool(&plain, "add"), "{kind}: {message}");
        let streamed = ToolOutput::fault(ToolFault::Internal, python(kind, message).content);
        assert!(is_unknown_tool(&streamed, "add"), "{kind}: {message}");
    }
    assert!(is_unknown_tool(&ToolOutput::error("Unknown tool: add"), "add"));
    assert!(is_unknown_tool(&ToolOutput::error("Tool not found: add"), "add"));
    for told in ["the worker does not know the tool", "no add here", "Tool add: not found"] {
        assert!(is_unknown_tool(&ToolOutput::fault(ToolFault::NotFound, told), "add"), "{told}");
    }
}

#[test]
fn a_tool_that_fails_is_there() {
    for (kind, message) in [
        ("ValueError", "add needs two numbers"),
        ("ValueError", "Unknown tool: adder"),
        ("ValueError", "Unknown tool: add.more"),
        ("ValueError", "Unknown tool: ad"),
        ("ValueError", "Unknown operation: add"),
        ("KeyError", "'address'"),
        ("AttributeError", "'NoneType' object has no attribute 'add'"),
        ("AttributeError", "'LinearModel' object has no attribute 'add'"),
        ("RuntimeError", "add not found"),
        ("RuntimeError", "add is not available"),
        ("AttributeError", "'set' object has no attribute 'added'"),
        ("AttributeError", "while adding: 'set' object has no attribute 'add'"),
        ("FileNotFoundError", "file add not found"),
        ("RuntimeError", "I do not know whether tool add is not found"),
        ("NotImplementedError", "TemplateAdapter does not implement tools"),
        ("ValueError", ""),
    ] {
        assert!(!is_unknown_tool(&python(kind, message), "add"), "{kind}: {message}");
    }
    assert!(!is_unknown_tool(&ToolOutput::ok("Unknown tool: add"), "add"));
    assert!(!is_unknown_tool(&ToolOutput::fault(ToolFault::NotFound, "record 17 is not there"), "add"));
    assert!(!is_unknown_tool(&ToolOutput::fault(ToolFault::Unavailable, "Unknown tool: add"), "add"));
    assert!(!is_unknown_tool(&ToolOutput::error("Unknown tool: add".repeat(10_000)), "add"));
}
