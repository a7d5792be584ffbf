use clap::Command;

use super::{GROUPS, command};

#[test]
fn every_command_has_one_place() {
    let command = command();
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let places = GROUPS.iter().flat_map(|(_, names)| *names).filter(|name| **name == one.get_name()).count();
        assert_eq!(places, 1, "{} has a place in GROUPS", one.get_name());
    }
}

#[test]
fn every_page_of_help_fits_80_columns() {
    fn look(command: &mut Command) {
        for page in [command.render_help(), command.render_long_help()] {
            for line in page.to_string().lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
        command.get_subcommands_mut().for_each(look);
    }
    let mut command = command().term_width(80);
    command.build();
    look(&mut command);
}

#[test]
fn the_first_page_begins_with_what_a_newcomer_needs() {
    let page = command().render_help().to_string();
    let places: Vec<_> = ["serve", "chat", "run", "onboard", "doctor", "hub", "mcp"]
        .iter()
        .map(|name| page.find(&format!("\n  {name} ")).unwrap_or_else(|| panic!("{name} is missing: {page}")))
        .collect();
    assert!(places.is_sorted(), "{page}");
}
