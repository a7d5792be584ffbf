use super::*;

#[test]
fn each_end_of_a_call_has_its_charge() {
    let received = ReceivedAnswer { estimated_input: 100, estimated_output: 7, ..ReceivedAnswer::default() };
    let usage = Some(TokenCount { input: 90, output: 20 });
    let partial = Some(TokenCount { input: 90, output: 3 });
    for (name, received, charged) in [
        ("never answered", received, (0, 0)),
        ("complete", ReceivedAnswer { usage, is_complete: true, has_content: true, ..received }, (90, 20)),
        ("complete without figures", ReceivedAnswer { is_complete: true, has_content: true, ..received }, (100, 7)),
        ("cut off", ReceivedAnswer { has_content: true, ..received }, (100, 7)),
        ("cut off with figures so far", ReceivedAnswer { usage: partial, has_content: true, ..received }, (90, 7)),
        ("given up by the server", ReceivedAnswer { is_abandoned: true, ..received }, (100, 7)),
    ] {
        let tokens = received.charged_tokens();
        assert_eq!((tokens.input, tokens.output), charged, "{name}");
    }
}
