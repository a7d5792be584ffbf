use super::*;
use crate::bench::options::ROWS;

#[test]
fn the_command_line_knows_every_row() {
    let measured: Vec<&str> = rows::ALL.iter().map(|row| row.name()).collect();
    assert_eq!(measured, ROWS);
}
