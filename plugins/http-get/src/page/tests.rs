use super::*;

fn check(kind: &str, body: &[u8], expected: Result<&str, &str>) {
    let headers = [("Content-Type".to_owned(), kind.to_owned())];
    let found = title(&Page { url: "https://a.example/", status: 200, headers: &headers, body });
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind}: {}", String::from_utf8_lossy(body));
}

#[test]
fn titles_are_found() {
    let html = "text/html; charset=utf-8";
    check(html, b"<html><head><title>Hello</title>", Ok("Hello"));
    check(html, b"<TITLE lang=en>\n  Hello\n\tworld </TITLE>", Ok("Hello world"));
    check(html, b"<titlepage>no</titlepage><title>yes</title>", Ok("yes"));
    check(html, "<title>Ümläut – ok</title>".as_bytes(), Ok("Ümläut – ok"));
    check(html, b"<title>a &amp; b &lt;c&gt; &#39;d&#x27; &unknown; &</title>", Ok("a & b <c> 'd' &unknown; &"));
    check(html, b"<title>&#xFFFFFFFF; &#0;</title>", Ok("&#xFFFFFFFF; \0"));
    check("text/html; charset=ISO-8859-1", b"<title>caf\xe9</title>", Ok("café"));
    check(html, b"<title>caf\xe9</title>", Ok("caf\u{fffd}"));
    check("", b"<title>untold</title>", Ok("untold"));
    let long = format!("<title>{}</title>", "x".repeat(400));
    check(html, long.as_bytes(), Ok(&format!("{}…", "x".repeat(300))));
}

#[test]
fn pages_without_a_title_are_told_apart() {
    check("text/html", b"<p>nothing", Err("https://a.example/ has no title"));
    check("text/html", b"<title>  </title>", Err("https://a.example/ has no title"));
    check("text/html", b"<title>never closed", Err("https://a.example/ has no title"));
    check("text/html", b"<title", Err("https://a.example/ has no title"));
    check("image/png", b"\x89PNG", Err("https://a.example/ is not a web page but `image/png`"));
    let gone = Page { url: "http://a.example/x", status: 404, headers: &[], body: b"<title>no</title>" };
    assert_eq!(title(&gone), Err("http://a.example/x answered with status 404".to_owned()));
}

#[test]
fn only_plain_addresses_are_fetched() {
    assert_eq!(check_address("https://a.example/{x}"), Ok(()));
    assert_eq!(check_address("HTTP://a.example"), Ok(()));
    for (address, why) in [
        ("file:///etc/passwd", "`file:///etc/passwd` is not an http or https address"),
        ("a.example", "`a.example` is not an http or https address"),
        ("https://a.example/{{secret:key}}", "an address with `{{` in it is not fetched"),
    ] {
        assert_eq!(check_address(address), Err(why.to_owned()));
    }
}
