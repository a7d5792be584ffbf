use std::fs;
use std::io::Cursor;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const FROM_START: LineRange = LineRange { offset: 0, limit: DEFAULT_LINES };

fn workspace() -> (TempDir, WorkFolder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = WorkFolder::open(dir.path(), vec![]).unwrap();
    (dir, folder)
}

/// What the model gets for a file of these bytes.
fn answer(bytes: &[u8], request: LineRange) -> Result<String, String> {
    let (dir, folder) = workspace();
    fs::write(dir.path().join("f"), bytes).unwrap();
    read(&folder, "f", request, &CancellationToken::new()).map_err(|ToolRefusal(reason)| reason)
}

fn lines(count: usize) -> String {
    (1..=count).map(|number| format!("line {number}\n")).collect()
}

#[test]
fn shows_numbered_lines() {
    let part = |offset, limit| LineRange { offset, limit };
    let long = "x".repeat(2001);
    let wide = format!("{}ü{}", "x".repeat(1999), "y".repeat(500));
    let cases: [(&[u8], LineRange, Result<&str, &str>); 18] = [
        (b"one\ntwo\n", FROM_START, Ok("     1\tone\n     2\ttwo")),
        (b"one\ntwo", FROM_START, Ok("     1\tone\n     2\ttwo")),
        (b"\n\n", FROM_START, Ok("     1\t\n     2\t")),
        (b"", FROM_START, Ok("[the file is empty]")),
        (b"", part(1, 5), Err("`f` has 0 lines, so nothing is left after an `offset` of 1")),
        (b"a\nb\nc\n", part(0, 2), Ok("     1\ta\n     2\tb\n[lines 1-2 of 3; go on with offset 2]")),
        (b"a\nb\nc\n", part(1, 1), Ok("     2\tb\n[lines 2-2 of 3; go on with offset 2]")),
        (b"a\nb\nc\n", part(2, 9), Ok("     3\tc\n[lines 3-3, the last of 3]")),
        (b"a\nb\nc\n", part(3, 1), Err("`f` has 3 lines, so nothing is left after an `offset` of 3")),
        (
            b"a\nb\nc",
            part(u64::MAX, 1),
            Err("`f` has 3 lines, so nothing is left after an `offset` of 18446744073709551615"),
        ),
        (b"a\r\nb\r\n", FROM_START, Ok("     1\ta\n     2\tb\n[lines end with CR LF]")),
        (b"a\rb", FROM_START, Ok("     1\ta\rb")),
        (b"caf\xe9\n", FROM_START, Ok("     1\tcaf\u{fffd}\n[bytes that are not UTF-8 are shown as \u{fffd}]")),
        (b"a\0b", FROM_START, Err("`f` is not text: it holds NUL bytes")),
        ("größe 木\n".as_bytes(), FROM_START, Ok("     1\tgröße 木")),
        (&[b'x'; 2000], FROM_START, Ok(&format!("     1\t{}", "x".repeat(2000)))),
        (
            long.as_bytes(),
            FROM_START,
            Ok(&format!("     1\t{} [line cut: 2000 of 2001 bytes shown]", "x".repeat(2000))),
        ),
        // The cut falls into a character, which then is left out whole.
        (
            wide.as_bytes(),
            FROM_START,
            Ok(&format!("     1\t{} [line cut: 1999 of 2501 bytes shown]", "x".repeat(1999))),
        ),
    ];
    for (bytes, request, expected) in cases {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(answer(bytes, request), expected, "{:?} {request:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn the_default_is_two_thousand_lines() {
    let told = answer(lines(2500).as_bytes(), FROM_START).unwrap();
    assert!(told.starts_with("     1\tline 1\n"));
    assert!(told.ends_with("\n  2000\tline 2000\n[lines 1-2000 of 2500; go on with offset 2000]"));
}

#[test]
fn going_on_page_by_page_shows_every_line_once() {
    let text: String = (0..3000).map(|number| format!("{number} {}\n", "z".repeat(number % 300))).collect();
    let (mut shown, mut offset, mut pages) = (String::new(), 0, 0);
    loop {
        let told = answer(text.as_bytes(), LineRange { offset, limit: u64::MAX }).unwrap();
        assert!(told.len() <= 61 * 1024, "stays below the cap on outputs");
        pages += 1;
        let (body, note) = told.rsplit_once('\n').unwrap();
        for line in body.lines() {
            shown.push_str(line.split_once('\t').unwrap().1);
            shown.push('\n');
        }
        match note.strip_suffix(']').unwrap().rsplit_once("go on with offset ") {
            Some((_, next)) => offset = next.parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(shown, text);
    assert!(pages > 5, "{pages}");
}

#[test]
fn what_cannot_be_read_is_told() {
    let (dir, folder) = workspace();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let told = |path| read(&folder, path, FROM_START, &CancellationToken::new()).unwrap_err().0;
    assert_eq!(told("sub"), "`sub` is a folder: use `ls` to list it");
    assert_eq!(told("nope"), "`nope` does not exist");
    assert_eq!(told("../x"), "`../x` leads outside the working folder: only what lies inside it can be opened");
}

#[test]
fn a_cancelled_call_reads_nothing() {
    let (dir, folder) = workspace();
    fs::write(dir.path().join("f"), "text").unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(read(&folder, "f", FROM_START, &stop), Err(ToolRefusal::cancelled()));
}

/// An endless text, as a special file that passes for a regular one would be.
struct Endless(&'static [u8]);

impl io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for (slot, byte) in buffer.iter_mut().zip(self.0.iter().cycle()) {
            *slot = *byte;
        }
        Ok(buffer.len())
    }
}

#[test]
fn endless_texts_end() {
    let page = |unit, request| {
        let limit = 4 * 1024 * 1024;
        TextPage::read(&mut BufReader::with_capacity(4096, Endless(unit).take(limit)), request, limit)
    };
    let told = page(b"aaa\n", LineRange { offset: 0, limit: 2 }).unwrap();
    assert_eq!(told, "     1\taaa\n     2\taaa\n[lines 1-2, more follow; go on with offset 2]");
    let told = page(b"a", FROM_START).unwrap();
    assert!(told.ends_with("[line cut: 2000 of 4194304 bytes shown]\n[lines 1-1, more follow; go on with offset 1]"));
    assert!(matches!(page(b"a\n", LineRange { offset: 1 << 40, limit: 1 }), Err(PageError::TooFar)));
}

#[test]
fn cancelling_ends_the_reading_of_an_endless_text() {
    let stop = CancellationToken::new();
    let mut watched = CancellableReader { reader: Endless(b"a"), stop: &stop };
    let mut buffer = [0; 16];
    assert_eq!(watched.read(&mut buffer).unwrap(), 16);
    stop.cancel();
    assert!(watched.read(&mut buffer).is_err());
}

proptest! {
    /// Whatever the bytes, the answer is bounded and its lines are the text's, by the standard library's reckoning.
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>().prop_map(|byte| byte.max(1)), 0..5000), buffer in 1_usize..64) {
        let mut reader = BufReader::with_capacity(buffer, Cursor::new(&bytes));
        let told = TextPage::read(&mut reader, FROM_START, u64::MAX).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let numbered = told.split('\n').filter(|line| line.get(6..7) == Some("\t")).count();
        prop_assert_eq!(numbered, text.split_inclusive('\n').count());
    }
}
