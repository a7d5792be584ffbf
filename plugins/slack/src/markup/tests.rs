use super::*;

#[test]
fn text_is_read_as_people_read_it() {
    for (text, expected) in [
        ("plain *bold* text", "plain *bold* text"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&amp;lt;", "&lt;"),
        ("ask <@U1> or <@U2|bob>", "ask @U1 or @bob"),
        ("in <#C1|general> and <#C2>", "in #general and #C2"),
        ("<!here> <!subteam^S1|@desk> <!date^1^x|noon>", "@here @desk noon"),
        ("see <https://a.example/?a=1&amp;b=2>", "see https://a.example/?a=1&b=2"),
        ("see <https://a.example|the page>", "see the page (https://a.example)"),
        ("mail <mailto:a@b.example|a@b.example>", "mail a@b.example"),
        ("see <https://a.example|>", "see https://a.example"),
        ("never closed <@U1", "never closed <@U1"),
        ("<>", ""),
    ] {
        assert_eq!(to_plain(text), expected, "{text}");
    }
}

#[test]
fn only_the_own_name_is_taken_off_and_only_in_front() {
    for (text, addressed, expected) in [
        ("<@UBOT> hi", Addressed::Anybody, "hi"),
        (" <@UBOT|board>  hi", Addressed::Only(Some("UBOT")), "hi"),
        ("<@U1> hi", Addressed::Only(Some("UBOT")), "<@U1> hi"),
        ("<@U1> hi", Addressed::Only(None), "<@U1> hi"),
        ("hi <@UBOT>", Addressed::Anybody, "hi <@UBOT>"),
    ] {
        assert_eq!(without_leading_mention(text, addressed), expected, "{text}");
    }
}

#[test]
fn what_is_escaped_is_as_wide_as_counted() {
    let text = "a < b && c > d, ä";
    assert_eq!(escaped(text), "a &lt; b &amp;&amp; c &gt; d, ä");
    assert_eq!(text.chars().map(width).sum::<usize>(), escaped(text).chars().count());
    assert_eq!(to_plain(&escaped(text)), text);
}
