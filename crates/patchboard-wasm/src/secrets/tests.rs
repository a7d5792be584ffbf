use proptest::prelude::*;

use super::*;

fn secrets(values: &[(&str, &str)]) -> SecretMap {
    values.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect()
}

fn filled(url: &str) -> Result<(String, String), String> {
    let known = secrets(&[("a", "1:2"), ("b", "x/y?z#&=+ 'ü\n")]);
    fill_url(url, &known).map(|filled| (filled.url, filled.host.to_string()))
}

#[test]
fn values_stand_in_paths_and_queries() {
    for (url, expected, host) in [
        ("https://h/{{secret:a}}", "https://h/1:2", "h:443"),
        ("http://h/bot{{secret:a}}/x{{secret:a}}", "http://h/bot1:2/x1:2", "h:80"),
        ("https://h?{{secret:a}}", "https://h?1:2", "h:443"),
        ("https://h:8443/?k={{secret:a}}&l", "https://h:8443/?k=1:2&l", "h:8443"),
        ("HTTPS://H.Example./{{secret:b}}", "HTTPS://H.Example./x%2Fy%3Fz%23&=+%20%27%C3%BC%0A", "h.example:443"),
        ("https://h/?{{secret:b}}", "https://h/?x%2Fy%3Fz%23%26%3D%2B%20%27%C3%BC%0A", "h:443"),
        ("https://h/a?b?{{secret:b}}#", "https://h/a?b?x%2Fy%3Fz%23%26%3D%2B%20%27%C3%BC%0A", "h:443"),
        ("https://[::1]:9/{{secret:a}}", "https://[::1]:9/1:2", "[::1]:9"),
        ("https://h:/{{secret:a}}", "https://h:/1:2", "h:443"),
        ("https://h\\{{secret:a}}", "https://h\\1:2", "h:443"),
        ("https://h/plain", "https://h/plain", "h:443"),
        ("https://h/{{secret}}{{a}}", "https://h/{{secret}}{{a}}", "h:443"),
    ] {
        assert_eq!(filled(url), Ok((expected.to_owned(), host.to_owned())), "{url}");
    }
}

#[test]
fn values_stand_nowhere_else() {
    let misplaced = misplaced_error();
    for url in [
        "{{secret:a}}://h/",
        "https://{{secret:a}}/",
        "https://{{secret:a}}",
        "https://h.{{secret:a}}/",
        "https://{{secret:a}}@h/",
        "https://user:{{secret:a}}@h/",
        "https://h:{{secret:a}}/",
        "https://[{{secret:a}}]/",
    ] {
        assert_eq!(filled(url), Err(misplaced.clone()), "{url}");
    }
    for url in [
        "{{secret:a}}",
        "https:{{secret:a}}",
        "https:/{{secret:a}}",
        "https:///{{secret:a}}",
        "https://\\{{secret:a}}",
        "https://user@h/{{secret:a}}",
        "https://h@/{{secret:a}}",
        "https://h%2e/{{secret:a}}",
        "https://h\t/{{secret:a}}",
        "https://\n/{{secret:a}}",
        "https:/\t/h/{{secret:a}}",
        " https://h/{{secret:a}}",
        "ftp://h/{{secret:a}}",
        "//h/{{secret:a}}",
        "https://ü/{{secret:a}}",
        "https://h:1:2/{{secret:a}}",
        "https://h:x/{{secret:a}}",
        "https://h:65536/{{secret:a}}",
        "https://[::1/{{secret:a}}",
        "https://[::1]x/{{secret:a}}",
        "https://[h]/{{secret:a}}",
        "https://./{{secret:a}}",
    ] {
        let reason = filled(url).unwrap_err();
        assert!(reason.starts_with("the host of a URL with a secret is written plainly"), "{url}: {reason}");
    }
    for (url, reason) in [
        ("https://h/#{{secret:a}}", "a secret stands in the fragment of the URL, which is never sent"),
        ("https://h/{{secret:c}}", "there is no secret `c`"),
        ("https://h/{{secret:}}", "there is no secret ``"),
        ("https://h/{{secret: a}}", "there is no secret ` a`"),
        ("https://h/{{secret:a}", "`{{secret:` has no `}}`"),
        ("https://h/{{secret:{{secret:a}}}}", "`{{secret:` has no `}}`"),
        (&format!("https://h/{}", "{{secret:a}}".repeat(17)), "there are more than 16 secrets in one text"),
    ] {
        assert_eq!(filled(url), Err(reason.to_owned()), "{url}");
    }
}

#[test]
fn values_in_headers_are_as_they_are_and_break_no_line() {
    let known = secrets(&[("a", "x /?%ü"), ("crlf", "x\r\nHost: evil"), ("nul", "x\0")]);
    assert_eq!(fill_header("Bearer {{secret:a}}!", &known).as_deref(), Ok("Bearer x /?%ü!"));
    assert!(matches!(fill_header("plain", &known), Ok(Cow::Borrowed("plain"))));
    for name in ["crlf", "nul"] {
        let reason = format!("secret `{name}` holds what cannot be sent in a header");
        assert_eq!(fill_header(&format!("{{{{secret:{name}}}}}"), &known), Err(reason));
    }
}

#[test]
fn a_value_is_not_read_again() {
    let known = secrets(&[("a", "{{secret:b}}"), ("b", "inner")]);
    assert_eq!(fill_header("{{secret:a}}", &known).as_deref(), Ok("{{secret:b}}"));
    assert_eq!(fill_url("https://h/{{secret:a}}", &known).unwrap().url, "https://h/%7B%7Bsecret:b%7D%7D");
}

#[test]
fn long_values_are_hidden_before_what_is_part_of_them() {
    let hider = SecretRedactor::new(&secrets(&[("a", "abcd"), ("b", "abcdef"), ("short", "cd"), ("none", "")]));
    assert_eq!(hider.text("abcdef abcde cd".to_owned()), "[secret] [secret]e cd");
    assert_eq!(hider.bytes(b"\xffabcdef aababcd".to_vec()), b"\xff[secret] aab[secret]");
    assert_eq!(hider.bytes(b"nothing".to_vec()), b"nothing");
}

/// Everything a URL can be bent with.
fn bent_url() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{secret:a}}",
        "{{secret:b}}",
        "{{secret:",
        "}}",
        "http",
        "https",
        "://",
        "/",
        "\\",
        ":",
        "@",
        "?",
        "#",
        "[",
        "]",
        ".",
        "..",
        "%",
        "%2f",
        "%40",
        "\t",
        "\n",
        " ",
        "h",
        "evil.example",
        "h.example",
        "443",
        "::1",
        "0x7f.1",
        "ü",
        "。",
        "&",
        "=",
        ";",
        "_",
        "\0",
    ]);
    let pieces = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    (prop::sample::select(vec!["", "https://", "https://h.example", "http://h.example:8080/"]), pieces)
        .prop_map(|(front, rest)| format!("{front}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Whatever the values are, the parser that connects finds the host that was checked, and no value in it.
    #[test]
    fn values_never_decide_whom_a_request_is_for(url in bent_url(), a in ".{0,12}", b in "[/@:?#\\\\.%\\[\\]a-z0-9]{0,12}") {
        let known = secrets(&[("a", &a), ("b", &b)]);
        if let Ok(filled) = fill_url(&url, &known)
            && let Ok(parsed) = url::Url::parse(filled.url.trim())
        {
            let without = fill_url(&url, &secrets(&[("a", ""), ("b", "")])).unwrap();
            prop_assert_eq!(&filled.host, &without.host);
            prop_assert_eq!((parsed.username(), parsed.password()), ("", None));
            prop_assert_eq!(parsed.port_or_known_default(), filled.host.port);
            let host = parsed.host_str().unwrap();
            let written = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
            // Addresses have many spellings; then it is the same address.
            if written != &*filled.host.host {
                prop_assert!(url::Host::parse(&filled.host.host).is_ok_and(|read| read.to_string() == written)
                    || written.parse::<std::net::Ipv6Addr>().ok() == filled.host.host.parse().ok());
            }
        }
    }

    #[test]
    fn values_come_out_as_they_went_in(value in ".{0,24}") {
        let known = secrets(&[("a", &value)]);
        let filled = fill_url("https://h/x{{secret:a}}y?k={{secret:a}}", &known).unwrap();
        let parsed = url::Url::parse(&filled.url).unwrap();
        // The parser has nothing to correct.
        prop_assert_eq!(parsed.as_str(), &filled.url);
        let key = parsed.query_pairs().next().unwrap();
        prop_assert_eq!(&*key.1, &value);
        let path = parsed.path().strip_prefix("/x").and_then(|path| path.strip_suffix('y')).unwrap();
        prop_assert_eq!(decoded(path), value.as_bytes());
        if !value.chars().any(char::is_control) {
            prop_assert_eq!(&*fill_header("{{secret:a}}", &known).unwrap(), &value);
        }
    }

    #[test]
    fn nothing_of_a_value_comes_back(value in "[A-Z/?&=:+ ]{9,24}", around in "[a-z\\[\\]]{0,12}") {
        let known = secrets(&[("a", &value)]);
        let url = fill_url("https://h/{{secret:a}}?{{secret:a}}", &known).unwrap().url;
        let hider = SecretRedactor::new(&known);
        let text = format!("{around}{value}{around}{url}{value}{value}");
        let hidden = format!("{around}[secret]{around}https://h/[secret]?[secret][secret][secret]");
        prop_assert_eq!(&hider.text(text.clone()), &hidden);
        prop_assert_eq!(hider.bytes(text.into_bytes()), hidden.into_bytes());
    }
}

fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, others @ ..] = rest {
        match (first, others) {
            (b'%', [high, low, others @ ..]) => {
                let digits = String::from_utf8(vec![*high, *low]).unwrap();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                rest = others;
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    bytes
}
