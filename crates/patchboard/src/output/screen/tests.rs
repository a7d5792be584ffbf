use super::{LiveBlock, TerminalSize, cut};

const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 10 };

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_block_is_drawn_again_in_its_place() {
    let mut screen = LiveBlock::default();
    assert_eq!(screen.draw(&lines(&["a", "b"]), SIZE), "\x1b[?7la\x1b[K\nb\x1b[K\n\x1b[J\x1b[?7h");
    assert_eq!(screen.draw(&lines(&["a", "b"]), SIZE), "", "nothing changed");
    assert_eq!(screen.draw(&lines(&["c"]), SIZE), "\x1b[2A\r\x1b[?7lc\x1b[K\n\x1b[J\x1b[?7h");
    screen.commit();
    assert_eq!(screen.draw(&lines(&["c"]), SIZE), "\x1b[?7lc\x1b[K\n\x1b[J\x1b[?7h", "below what was left");
}

#[test]
fn only_what_changed_is_drawn_again() {
    let mut screen = LiveBlock::default();
    screen.draw(&lines(&["picture", "| 1 s"]), SIZE);
    assert_eq!(screen.draw(&lines(&["picture", "/ 2 s"]), SIZE), "\x1b[1A\r\x1b[?7l/ 2 s\x1b[K\n\x1b[J\x1b[?7h");
    assert_eq!(screen.draw(&lines(&["picture"]), SIZE), "\x1b[1A\r\x1b[?7l\x1b[J\x1b[?7h");
    assert_eq!(screen.draw(&[], SIZE), "\x1b[1A\r\x1b[?7l\x1b[J\x1b[?7h");
}

#[test]
fn a_terminal_that_has_become_narrower_has_wrapped_what_was_drawn() {
    let mut screen = LiveBlock::default();
    screen.draw(&lines(&["0123456789abcde", "short"]), SIZE);
    let narrow = TerminalSize { columns: 10, rows: 10 };
    let drawn = screen.draw(&lines(&["0123456789abcde", "short"]), narrow);
    assert_eq!(drawn, "\x1b[3A\r\x1b[?7l01234567…\x1b[K\nshort\x1b[K\n\x1b[J\x1b[?7h");
}

#[test]
fn what_has_no_room_is_counted() {
    let mut screen = LiveBlock::default();
    let many: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
    let drawn = screen.draw(&many, SIZE);
    let shown: Vec<&str> = drawn.trim_start_matches("\x1b[?7l").split("\x1b[K\n").collect();
    assert_eq!(
        shown,
        [
            "line 0",
            "  … 13 more lines",
            "line 14",
            "line 15",
            "line 16",
            "line 17",
            "line 18",
            "line 19",
            "\x1b[J\x1b[?7h"
        ]
    );
    let tiny = TerminalSize { columns: 0, rows: 0 };
    assert!(LiveBlock::default().draw(&many, tiny).matches('\n').count() <= 3);
}

#[test]
fn lines_are_cut_to_their_columns() {
    let cases = [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語です", 6, "日本…"),
        ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
        ("ab", 1, "…"),
        ("", 0, ""),
    ];
    for (text, columns, wanted) in cases {
        assert_eq!(cut(text, columns), wanted, "{text} in {columns}");
    }
}
