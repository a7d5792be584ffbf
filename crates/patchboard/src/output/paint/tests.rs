use patchboard_config::Environment;

use super::{TextRole, detect_colour, paint};
use crate::telemetry::LogColour;

#[test]
fn colour_is_for_terminals_that_may_have_it() {
    let env = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Environment>();
    assert_eq!(detect_colour(true, &env(&[("TERM", "xterm")])), LogColour::On);
    assert_eq!(detect_colour(true, &env(&[("TERM", "xterm"), ("NO_COLOR", "")])), LogColour::On);
    for (is_terminal, variables) in [
        (false, vec![("TERM", "xterm")]),
        (true, vec![("TERM", "xterm"), ("NO_COLOR", "1")]),
        (true, vec![("TERM", "dumb")]),
    ] {
        assert_eq!(detect_colour(is_terminal, &env(&variables)), LogColour::Off, "{is_terminal} {variables:?}");
    }
}

#[test]
fn without_colour_text_stays_as_it_is() {
    assert_eq!(paint("ok", TextRole::Good, LogColour::Off), "ok");
    assert_eq!(paint("ok", TextRole::Good, LogColour::On), "\x1b[32mok\x1b[0m");
    assert_eq!(paint("", TextRole::Good, LogColour::On), "");
}
