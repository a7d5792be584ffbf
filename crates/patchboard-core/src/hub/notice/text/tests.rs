use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::app::NoticePriority;
use crate::id::MessageId;

fn notice(app: Option<&str>, title: &str, body: &str) -> UserNotice {
    let app = app.map(Into::into);
    let at = Timestamp::UNIX_EPOCH;
    UserNotice { app, title: title.into(), body: body.into(), priority: NoticePriority::Normal, message: None, at }
}

#[test]
fn text_is_cleaned() {
    let cases = [
        ("plain", "plain", "plain"),
        (" \n two\r\nlines\t\n", "two lines", "two\nlines"),
        ("bell\u{7}, \u{1b}[31mred\u{9b}", "bell, [31mred", "bell, [31mred"),
        ("\u{202E}evil\u{202C} \u{2066}x\u{2069}", "evil x", "evil x"),
        ("para\u{2029}graph", "para graph", "para\ngraph"),
        ("see\u{FFF9}n\u{FFFA}hidden\u{FFFB}", "seenhidden", "seenhidden"),
        ("שלום\u{200F}! 👩‍👩‍👧", "שלום\u{200F}! 👩‍👩‍👧", "שלום\u{200F}! 👩‍👩‍👧"),
        ("<b>&amp;</b>", "<b>&amp;</b>", "<b>&amp;</b>"),
    ];
    for (text, title, body) in cases {
        let clean = sanitize(notice(Some("notebook"), text, text));
        assert_eq!((&*clean.title, &*clean.body), (title, body), "{text:?}");
    }
}

#[test]
fn there_is_always_a_title() {
    let cases =
        [(Some("notebook"), "", "notebook"), (Some("notebook"), "\u{7}\n", "notebook"), (None, " ", "Patchboard")];
    for (app, title, expected) in cases {
        assert_eq!(&*sanitize(notice(app, title, "x")).title, expected);
    }
}

#[test]
fn long_texts_are_cut_with_a_mark() {
    let clean = sanitize(notice(None, &"ä".repeat(500), &"€".repeat(5000)));
    assert_eq!(*clean.title, format!("{}…", "ä".repeat(MAX_TITLE - 1)));
    assert_eq!(*clean.body, format!("{}…", "€".repeat(MAX_BODY - 1)));
    let fits = sanitize(notice(None, &"a".repeat(MAX_TITLE), &"b".repeat(MAX_BODY)));
    assert_eq!((fits.title.len(), fits.body.len()), (MAX_TITLE, MAX_BODY));
}

#[test]
fn counts_are_seen_even_after_long_texts() {
    let cases = [
        ("done", RepeatCount::Total(1), "done"),
        ("done", RepeatCount::Total(2), "done (2 times)"),
        ("done", RepeatCount::Additional(1), "done (once more)"),
        ("done", RepeatCount::Additional(7), "done (7 more times)"),
        ("", RepeatCount::Total(3), "(3 times)"),
    ];
    for (body, times, expected) in cases {
        assert_eq!(&*with_repeat_count(notice(None, "t", body), times).body, expected);
    }
    let long = with_repeat_count(notice(None, "t", &"x".repeat(MAX_BODY)), RepeatCount::Total(12));
    assert!(long.body.ends_with("x… (12 times)") && long.body.chars().count() <= MAX_BODY);
}

#[test]
fn digests_have_a_line_for_each_and_count_the_rest() {
    let one = (notice(Some("notebook"), "notebook", "saved\nin full"), RepeatCount::Total(1));
    let two = (notice(Some("notebook"), "Error", "disk full"), RepeatCount::Total(3));
    let bare = (notice(Some("notebook"), "Ready", ""), RepeatCount::Additional(1));
    let latest = notice(Some("notebook"), "x", "y");
    let few = digest(&[one, two, bare.clone()], 0, latest.clone());
    assert_eq!(
        (&*few.title, &*few.body),
        ("5 more from notebook", "saved\nError: disk full (3 times)\nReady (once more)")
    );
    let many: Vec<_> = (0..20).map(|_| bare.clone()).collect();
    let many = digest(&many, 4, latest.clone());
    assert_eq!(&*many.title, "24 more from notebook");
    assert_eq!(many.body.lines().count(), MAX_LINES + 1);
    assert!(many.body.ends_with("\n… and 12 more were not shown; see `patchboard hub messages`"));
    let none = digest(&[], 9, UserNotice { app: None, ..latest });
    assert_eq!((&*none.title, &*none.body), ("9 more from the hub", "9 were not shown; see `patchboard hub messages`"));
}

#[test]
fn digests_belong_to_a_message_only_if_all_of_it_does() {
    let [a, b] = [MessageId(Uuid::from_u128(1)), MessageId(Uuid::from_u128(2))];
    let of = |message| UserNotice { message: Some(message), ..notice(None, "t", "b") };
    let check = |first, second, expected| {
        let queued = [(of(first), RepeatCount::Total(1)), (of(second), RepeatCount::Total(1))];
        assert_eq!(digest(&queued, 0, of(second)).message, expected);
    };
    check(a, a, Some(a));
    check(a, b, None);
}

proptest! {
    #[test]
    fn whatever_comes_is_bounded_and_clean(title in any::<String>(), body in any::<String>(), app in any::<String>()) {
        let clean = sanitize(notice(Some(&app), &title.repeat(50), &body.repeat(100)));
        let allowed = |c: char| !c.is_control() && !('\u{202A}'..='\u{202E}').contains(&c);
        prop_assert!(clean.title.chars().all(allowed) && clean.title.chars().count() <= MAX_TITLE);
        prop_assert!(clean.body.chars().all(|c| c == '\n' || allowed(c)) && clean.body.chars().count() <= MAX_BODY);
        let digest = digest(&vec![(clean.clone(), RepeatCount::Total(2)); 60], 1, clean);
        prop_assert!(digest.title.chars().count() <= MAX_TITLE && digest.body.chars().count() <= MAX_BODY);
    }
}
