use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::*;

const MAX: usize = 512 * 1024;

fn check(html: &str, expected: &str) {
    let page = to_markdown(html, "https://a.example/dir/page", MAX);
    assert_eq!(page, MarkdownPage { text: expected.to_owned(), is_truncated: false }, "{html}");
}

#[test]
fn text_and_blocks() {
    for (html, expected) in [
        ("", ""),
        ("  plain \n text ", "plain text"),
        ("<p>a</p>\n<p>b <b>c </b>d", "a\n\nb **c** d"),
        ("<div>a</div><div><div>b</div></div>c", "a\nb\nc"),
        ("a<br>b<br/><br>c", "a\nb\n\nc"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<h1>One</h1><h3><div>Two</div> <p>2</h3>text", "# One\n\n### Two 2\n\ntext"),
        ("&lt;b&gt; &amp; caf&eacute;&#x21; &nope;", "<b> & café! &nope;"),
        ("<i>a</i><em></em> <strong><em>b</em></strong>", "*a* ***b***"),
        ("<blockquote><p>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"),
        ("Use <code>a `b`</code>, <kbd>Ctrl</kbd> <code><b>x</b></code>", "Use `` a `b` ``, `Ctrl` `x`"),
        ("<h1>Title<h2>Next</h2>", "# Title\n\n## Next"),
    ] {
        check(html, expected);
    }
}

#[test]
fn the_title_comes_first() {
    check("<html><head><title> A\n page </title><meta x><body><h1>B</h1>", "Title: A page\n\n# B");
    check("<title>A</title><title>B</title>", "Title: A");
    check("<title></title>x", "x");
    check("<body>x<svg><title>icon</title></svg>", "x");
}

#[test]
fn noise_is_removed() {
    for noise in [
        "<script>if (a < b) { document.write('<p>x</p>') }</script>",
        "<style>p { color: red }</style>",
        "<nav><ul><li><a href=/>Home</a></ul><nav>inner</nav></nav>",
        "<svg viewBox='0'><text>x</text><svg></svg></svg>",
        "<svg/>",
        "<noscript><p>Enable it</noscript>",
        "<template><p>x</template>",
        "<iframe src=x>text</iframe>",
        "<select><option>x</select>",
        "<!-- <p>x -->",
        "<textarea><p>x</textarea>",
        "<img src=a.png><a href=/x></a><b></b>",
    ] {
        check(&format!("a {noise}b"), "a b");
    }
    check("<nav>menu<main>text</main>", "text");
}

#[test]
fn lists() {
    for (html, expected) in [
        ("a<ul><li>b<li><p>c</p><p>d</p></ul>e", "a\n\n- b\n- c\n\n  d\n\ne"),
        ("<ol start=9><li>a<li>b<ul><li>c</li></ul><li>d</ol>", "9. a\n10. b\n    - c\n11. d"),
        ("<ol start=4294967295><li>a<li>b</ol>", "4294967295. a\n4294967295. b"),
        ("<li>a<li>b", "- a\n- b"),
        ("<ul><li><blockquote>q</blockquote>r</ul>", "- > q\n  r"),
        ("<dl><dt>t<dd>d<dt>u<dd>e</dl>", "t\n: d\nu\n: e"),
        ("</ul></li>x", "x"),
    ] {
        check(html, expected);
    }
}

#[test]
fn links_and_images() {
    for (html, expected) in [
        ("<a href='../x y?q=(1)'>go <b>on</b></a>", "[go **on**](https://a.example/x%20y?q=%281%29)"),
        ("<a href='//b.example'>b</a><a href=mailto:x@y>m</a>", "[b](https://b.example/)[m](mailto:x@y)"),
        ("<a href='#top'>top</a> <a href='javascript:x()'>js</a> <a>plain</a>", "top js plain"),
        ("<a href=/c><div>a</div><h3>b</h3></a>", "[a b](https://a.example/c)"),
        ("<a href=/1>a<a href=/2>b</a>", "[a](https://a.example/1)[b](https://a.example/2)"),
        ("<img src=i.png alt='an\nimage'>", "![an image](https://a.example/dir/i.png)"),
        ("<img src='data:image/png;base64,AAAA' alt=x> y", "y"),
    ] {
        check(html, expected);
    }
    check(&format!("<a href='/{}'>long</a>", "x".repeat(MAX_URL_BYTES)), "long");
    assert_eq!(to_markdown("<a href=x>r</a> <a href=http://b/>b</a>", "no url", MAX).text, "r [b](http://b/)");
}

#[test]
fn code_blocks() {
    for (html, expected) in [
        ("<pre>\n  a\n\n    b < c</pre>d", "```\n  a\n\n    b < c\n```\n\nd"),
        ("<pre><code class='x language-rust'>fn <b>a</b>() {}</code></pre>", "```rust\nfn a() {}\n```"),
        ("<pre>a<br>b<div>c</div>d</pre>", "```\na\nb\nc\nd\n```"),
        ("<pre>```\nx</pre>", "````\n```\nx\n````"),
        ("<pre></pre>x", "x"),
        ("<ul><li>a<pre>b\nc</pre></ul>", "- a\n\n  ```\n  b\n  c\n  ```"),
    ] {
        check(html, expected);
    }
}

#[test]
fn tables() {
    for (html, expected) in [
        (
            "a<table><thead><tr><th>A<th>B</thead><tr><td>1|2<td><p>x<p>y</table>b",
            "a\n\n| A | B |\n| --- | --- |\n| 1\\|2 | x y |\n\nb",
        ),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "| a | b |\n| --- | --- |"),
        ("<table><tr><td><h1>a</h1><p>b</p></td><td>c</td></tr></table>d", "# a\n\nb\n\nc\n\nd"),
        ("<table><tr><td>only</td></tr><tr><td>one</td></tr></table>", "only\none"),
        ("<table><tr><td>a<table><tr><td>b<td>c</table></table>d", "a\n\n| b | c |\n| --- | --- |\n\nd"),
        ("<td>a<td>b</tr></table>c", "a\nb\nc"),
        ("<table><tr><td>a<td>b", "| a | b |\n| --- | --- |"),
        ("<blockquote><table><tr><td>a<td>b</table>c", "> | a | b |\n> | --- | --- |\n>\n> c"),
    ] {
        check(html, expected);
    }
}

#[test]
fn output_is_bounded() {
    let page = to_markdown(&"<p>word ".repeat(1000), "", 100);
    assert_eq!((page.text.len(), page.is_truncated), (100, true));
    let page = to_markdown(&"ü".repeat(100), "", 51);
    assert_eq!((page.text, page.is_truncated), ("ü".repeat(25), true));
    // Short lines within many quotes would take many times their own size.
    let page = to_markdown(&format!("{}<pre>{}", "<blockquote>".repeat(200), "x\n".repeat(200_000)), "", MAX);
    assert_eq!((page.text.len(), page.is_truncated), (MAX, true));
}

/// Each of these takes a parser that builds a tree minutes, gigabytes or its stack.
#[test]
fn nesting_takes_neither_stack_nor_time() {
    const TIMES: usize = 100_000;
    let pages = [
        format!("{}text", "<div>".repeat(TIMES)),
        format!("{}text{}", "<div>".repeat(TIMES), "</div>".repeat(TIMES)),
        format!("{}text", "<ul><li>".repeat(TIMES)),
        format!("{}text", "<blockquote>".repeat(TIMES)),
        format!("{}text", "<table><tr><td>".repeat(TIMES)),
        format!("{}text", "<b><i><a href=/>".repeat(TIMES)),
        format!("{}text", "<nav>".repeat(TIMES) + &"</nav>".repeat(TIMES)),
        format!("{}text", "<li><dd>".repeat(TIMES)),
        (0..TIMES).map(|number| format!("<font a={number}><p>text")).collect(),
        format!("<table><tr><th>{}</th><th>b</tr>{}</table>", "x".repeat(TIMES), "<tr><td>text<td>".repeat(TIMES)),
        format!("<p {}>text", (0..TIMES).map(|number| format!("a{number} ")).collect::<String>()),
        "</div></ul></table></a>text".repeat(TIMES),
    ];
    for html in pages {
        let shown: String = html.chars().take(40).collect();
        let (done, awaited) = mpsc::channel();
        let small_stack = thread::Builder::new().stack_size(256 * 1024);
        let worker = small_stack.spawn(move || done.send(to_markdown(&html, "http://a/", MAX).text)).unwrap();
        assert!(awaited.recv().unwrap().contains("text"), "{shown}");
        worker.join().unwrap().unwrap();
    }
}

proptest! {
    #[test]
    fn any_tags_in_any_order_are_written_within_the_bound(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<table>", "</table>", "<tr>", "</tr>", "<td>", "<th>", "</td>", "<ul>", "<ol>", "</ul>", "</ol>", "<li>", "</li>",
            "<dl>", "<dt>", "<dd>", "<b>", "</b>", "<i>", "</i>", "<code>", "</code>", "<pre>", "</pre>", "<a href=/x>", "</a>",
            "<h2>", "</h2>", "<p>", "</p>", "<div>", "</div>", "<blockquote>", "</blockquote>", "<br>", "<hr>", "<nav>", "</nav>",
            "<img src=a alt=b>", "ü `|", " ", "word", "<!--", "-->", "<", "&#", "\0",
        ]), 0..80),
        limit in 0_usize..400,
    ) {
        let page = to_markdown(&pieces.concat(), "http://a/", limit);
        prop_assert!(page.text.len() <= limit, "{page:?}");
        let whole = to_markdown(&pieces.concat(), "http://a/", MAX);
        prop_assert!(!whole.is_truncated);
    }

    #[test]
    fn words_outside_of_skipped_elements_are_kept(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<table>", "</table>", "<tr>", "</tr>", "<td>", "<th>", "<ul>", "</ul>", "<li>", "<dd>", "<b>", "</b>", "<code>",
            "</code>", "<pre>", "</pre>", "<a href=/x>", "</a>", "<h2>", "</h2>", "<p>", "<blockquote>", "</blockquote>", "<br>",
            "<hr>", "word ",
        ]), 0..80),
    ) {
        let words = pieces.iter().filter(|piece| **piece == "word ").count();
        let page = to_markdown(&pieces.concat(), "http://a/", MAX);
        prop_assert_eq!(page.text.matches("word").count(), words, "{}", page.text);
    }
}
