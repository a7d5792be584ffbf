use proptest::prelude::*;

use super::*;

const WHOLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn texts_and_what_they_mean() {
    let position = TraceParent {
        trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes(),
        span: 0xb7ad_6b71_6920_3331_u64.to_be_bytes(),
        is_sampled: true,
    };
    let unsampled = TraceParent { is_sampled: false, ..position };
    let cases = [
        (WHOLE.to_owned(), Some(position)),
        // Only the lowest flag is known.
        (WHOLE.replace("-01", "-03"), Some(position)),
        (WHOLE.replace("-01", "-00"), Some(unsampled)),
        (WHOLE.replace("-01", "-02"), Some(unsampled)),
        // A later version may say more, this one may not.
        (WHOLE.replacen("00-", "cc-", 1), Some(position)),
        (format!("{}-what-ever", WHOLE.replacen("00-", "cc-", 1)), Some(position)),
        (format!("{}what", WHOLE.replacen("00-", "cc-", 1)), None),
        (format!("{WHOLE}-"), None),
        (WHOLE.replacen("00-", "ff-", 1), None),
        (WHOLE.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"), None),
        (WHOLE.replace("b7ad6b7169203331", "0000000000000000"), None),
        (WHOLE.to_uppercase(), None),
        (WHOLE.replace("b7ad6b7169203331-", "b7ad6b716920333-1"), None),
        (WHOLE.replace("0af7", "0ag7"), None),
        (WHOLE[..54].to_owned(), None),
        (format!(" {WHOLE}"), None),
        (WHOLE.replace('-', "_"), None),
        ("ä".repeat(40), None),
        (String::new(), None),
    ];
    for (text, meaning) in cases {
        assert_eq!(TraceParent::parse(&text), meaning, "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(trace in 1_u128.., span in 1_u64.., is_sampled: bool) {
        let position = TraceParent { trace: trace.to_be_bytes(), span: span.to_be_bytes(), is_sampled };
        prop_assert_eq!(TraceParent::parse(&position.to_string()), Some(position));
    }

    #[test]
    fn any_text_can_be_read(text in "(?s).{0,80}") {
        if let Some(position) = TraceParent::parse(&text) {
            prop_assert_eq!(&position.to_string()[3..52], &text[3..52]);
        }
    }

    #[test]
    fn one_changed_character_is_noticed_or_changes_the_meaning(at in 0_usize..55, by in "[0-9a-z -]") {
        let mut text = WHOLE.to_owned();
        text.replace_range(at..=at, &by);
        let (read, whole) = (TraceParent::parse(&text), TraceParent::parse(WHOLE));
        // Unknown versions and flags are ignored.
        prop_assert!(text == WHOLE || read != whole || !(2..=52).contains(&at));
    }
}
