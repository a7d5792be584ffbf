use super::{Column, PageLayout, TableCell, TextTable};
use crate::output::TextRole;
use crate::output::width::width;
use crate::telemetry::LogColour;

const PIPE: PageLayout = PageLayout { columns: None, colour: LogColour::Off };

fn terminal(columns: usize) -> PageLayout {
    PageLayout { columns: Some(columns), ..PIPE }
}

fn table(columns: impl Into<Vec<Column>>, rows: &[&[&str]]) -> TextTable {
    let mut table = TextTable::new(columns);
    for row in rows {
        table.push_row(row.iter().map(|text| TableCell::from(*text)).collect::<Vec<_>>());
    }
    table
}

#[track_caller]
fn check(table: &TextTable, page: PageLayout, expected: &str) {
    let lines = table.lines(page);
    assert_eq!(lines.join("\n"), expected.trim_matches('\n'));
    assert!(lines.iter().all(|line| line.trim_end() == line), "spaces at the end: {lines:?}");
}

#[test]
fn columns_are_as_wide_as_their_widest_value() {
    let columns = [Column::whole("NAME"), Column::number("CALLS"), Column::whole("KIND")];
    let table = table(columns, &[&["read", "7", "builtin"], &["漢字", "12", ""], &["", "100", "x"]]);
    check(
        &table,
        PIPE,
        "
NAME  CALLS  KIND
read      7  builtin
漢字     12
        100  x
",
    );
}

#[test]
fn a_description_is_cut_where_the_terminal_ends() {
    let columns = [Column::whole("NAME"), Column::cut("DESCRIPTION")];
    let table = table(columns, &[&["read", "Reads a file of the working folder."]]);
    check(
        &table,
        terminal(30),
        "
NAME  DESCRIPTION
read  Reads a file of the wor…
",
    );
    check(
        &table,
        PIPE,
        "
NAME  DESCRIPTION
read  Reads a file of the working folder.
",
    );
}

#[test]
fn text_that_matters_is_wrapped_in_its_column() {
    let columns = [Column::wrap("CALL"), Column::whole("ID")];
    let table = table(columns, &[&["bash {\"command\": \"ls\"}", "1"], &["ls {}", "2"]]);
    check(
        &table,
        terminal(20),
        "
CALL              ID
bash {\"command\":  1
\"ls\"}
ls {}             2
",
    );
}

#[test]
fn columns_share_what_is_left_and_leave_what_they_do_not_need() {
    let columns = [Column::cut("A"), Column::cut("B"), Column::whole("C")];
    let long = "x".repeat(60);
    let table = table(columns, &[&["short", &long, "c"]]);
    let lines = table.lines(terminal(40));
    assert_eq!(lines.iter().map(|line| width(line)).max(), Some(40), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("short  xxx")), "{lines:?}");
}

#[test]
fn what_has_no_room_beside_the_rest_stands_below_its_row() {
    let columns = [Column::whole("STATE"), Column::whole("SESSION"), Column::cut("TEXT")];
    let table = table(columns, &[&["held", "an:account:of:some:length", "some words to be said"]]);
    check(
        &table,
        terminal(34),
        "
STATE  SESSION
held   an:account:of:some:length
  some words to be said
",
    );
    check(
        &table,
        terminal(24),
        "
STATE
held
  an:account:of:some:length
  some words to be said
",
    );
}

#[test]
fn remarks_follow_their_row_and_are_wrapped() {
    let mut table = table([Column::whole("NAME")], &[&["echo"]]);
    table.add_remark("a newer version waits for approval");
    check(
        &table,
        terminal(24),
        "
NAME
echo
  a newer version waits
  for approval
",
    );
}

#[test]
fn lines_never_pass_the_terminal_but_for_what_must_stay_whole() {
    let columns = [Column::whole("ID"), Column::cut("SAID"), Column::wrap("WHY"), Column::number("N")];
    let words = "words in 漢字 and others ".repeat(8);
    let table = table(columns, &[&["0123456789", &words, &words, "12"], &["1", "", "", ""]]);
    for columns in 20..120 {
        let lines = table.lines(terminal(columns));
        assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
    }
}

#[test]
fn control_characters_are_shown_and_colour_does_not_count() {
    let mut table = TextTable::new([Column::whole("STATE"), Column::whole("NAME")]);
    table.push_row([TableCell::painted("ok", TextRole::Good), "a\x1b[2J\nb".into()]);
    let page = PageLayout { colour: LogColour::On, ..PIPE };
    assert_eq!(table.lines(page), ["\x1b[1mSTATE\x1b[0m  \x1b[1mNAME\x1b[0m", "\x1b[32mok\x1b[0m     a\\u{1b}[2J\\nb"]);
}
