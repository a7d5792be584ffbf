use clap::ValueEnum;

use super::{Shell, script};

#[test]
fn every_shell_completes_commands_and_their_options() {
    for shell in Shell::value_variants() {
        let script = script(*shell);
        for word in ["serve", "completions", "messages", "data-dir", "ready-file"] {
            assert!(script.contains(word), "{shell:?} does not know {word}");
        }
        assert!(!script.contains('\u{1b}'), "{shell:?}: no colour in a script");
    }
}
