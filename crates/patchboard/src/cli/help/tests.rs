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

/// Options that the page explains once, for all commands.
const COMMON: &[&str] = &["config", "data-dir", "url", "json", "help", "version"];
const PAGE: &str = include_str!("../../../../../docs/cli.md");

/// The row of a command in the tables, and what is wrong with it.
fn judge_row(path: &str, command: &Command, wrong: &mut Vec<String>) {
    let is_row = |line: &&str| {
        let rest = line.strip_prefix(&format!("| `{path}"));
        rest.is_some_and(|rest| rest.starts_with(['`', ' ']))
    };
    let rows: Vec<&str> = PAGE.lines().filter(is_row).collect();
    let [row] = rows.as_slice() else { return wrong.push(format!("`{path}` has {} rows", rows.len())) };
    let named: Vec<&str> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
    let of_row: Vec<&str> =
        row.split("`--").skip(1).map(|rest| rest.split(['`', ' ']).next().unwrap_or_default()).collect();
    for flag in named.iter().filter(|flag| !COMMON.contains(flag) && !of_row.contains(flag)) {
        wrong.push(format!("the row of `{path}` does not name --{flag}"));
    }
    for flag in of_row.iter().filter(|flag| !named.contains(flag)) {
        wrong.push(format!("`{path}` has no --{flag}"));
    }
    let short = path.trim_start_matches("patchboard ");
    let json = PAGE.split_once("## JSON").map_or("", |(_, shapes)| shapes);
    let is_told =
        json.lines().filter_map(|line| line.split('|').nth(1)).any(|cell| cell.contains(&format!("`{short}`")));
    if named.contains(&"json") != is_told {
        wrong.push(format!("whether `{path}` has --json and whether its shape is told differ"));
    }
}

#[test]
fn the_page_names_every_command_and_option() {
    fn look(path: &str, command: &Command, wrong: &mut Vec<String>) {
        let mut below = command.get_subcommands().filter(|below| below.get_name() != "help").peekable();
        if below.peek().is_none() {
            judge_row(path, command, wrong);
        }
        below.for_each(|below| look(&format!("{path} {}", below.get_name()), below, wrong));
    }
    let mut wrong = Vec::new();
    look("patchboard", &command(), &mut wrong);
    assert!(wrong.is_empty(), "docs/cli.md:\n{}", wrong.join("\n"));
}

#[test]
fn the_page_names_no_command_that_is_not_there() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `patchboard ")?.split('`').next());
    for row in rows {
        let mut command = command();
        for word in row.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())) {
            command = command.find_subcommand(word).unwrap_or_else(|| panic!("docs/cli.md: `{row}`")).clone();
        }
    }
}
