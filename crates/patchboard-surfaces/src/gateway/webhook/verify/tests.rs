use axum::http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const SECRET: &str = "sesame";
const NOW: i64 = 1_794_744_000;
const WINDOW: Duration = Duration::from_secs(300);

/// All that decides about a webhook.
struct Case {
    verify: VerifyMethod,
    secret: Option<&'static str>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    from: IpAddr,
}

impl Case {
    fn new(verify: VerifyMethod, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Self { verify, secret: Some(SECRET), headers, body: b"hello".to_vec(), from: HERE }
    }

    fn head(&self) -> HeaderMap {
        let mut head = HeaderMap::new();
        for (name, value) in &self.headers {
            head.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        head
    }

    fn check(&self, now: i64) -> Result<String, VerifyError> {
        self.check_with("", now)
    }

    fn check_with(&self, query: &str, now: i64) -> Result<String, VerifyError> {
        let secret = self.secret.map(SecretString::from);
        let proof = read_signature(&self.verify, secret.as_ref(), &self.head(), self.from)?;
        proof.verify_body(&self.body, Timestamp::from_second(now).unwrap(), WINDOW)?;
        Ok(proof.digest(&self.body, query))
    }
}

fn hmac() -> VerifyMethod {
    VerifyMethod::HmacSha256 { header: "X-Signature".into(), timestamp_header: None }
}

fn hmac_of_time() -> VerifyMethod {
    VerifyMethod::HmacSha256 { header: "X-Signature".into(), timestamp_header: Some("X-Time".into()) }
}

fn sign(key: &[u8], pieces: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(pieces: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    pieces.iter().for_each(|piece| hash.update(piece));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn examples_of_the_services_own_documents() {
    let slack = Case {
        secret: Some("8f742231b10e8888abcd99yyyzzz85a5"),
        body: b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
            &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
            &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
            .to_vec(),
        ..Case::new(
            VerifyMethod::Slack,
            &[
                ("X-Slack-Request-Timestamp", "1531420618"),
                ("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
            ],
        )
    };
    assert!(slack.check(1_531_420_618).is_ok());
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let hub = Case {
        secret: Some("It's a Secret to Everybody"),
        body: b"Hello, World!".to_vec(),
        ..Case::new(
            VerifyMethod::HmacSha256 { header: SIGNATURE_HEADER.into(), timestamp_header: None },
            &[("X-Hub-Signature-256", signature)],
        )
    };
    assert!(hub.check(NOW).is_ok());
}

#[test]
fn secrets_are_compared_whole() {
    let token = || VerifyMethod::Token { header: "X-Own".into() };
    for (verify, name) in [(VerifyMethod::Telegram, "x-telegram-bot-api-secret-token"), (token(), "x-OWN")] {
        for (given, is_right) in
            [("sesame", true), ("sesam", false), ("sesame ", false), ("Sesame", false), ("", false), ("sésame", false)]
        {
            let case = Case::new(verify.clone(), &[(name, given)]);
            let expected = if is_right { Ok(sha256(&[b"hello"])) } else { Err(VerifyError::Signature) };
            assert_eq!(case.check(NOW), expected, "{given:?}");
        }
        assert_eq!(Case::new(verify.clone(), &[]).check(NOW), Err(VerifyError::Signature));
        assert_eq!(Case::new(verify.clone(), &[("x-other", SECRET)]).check(NOW), Err(VerifyError::Signature));
        let twice = Case::new(verify, &[(name, SECRET), (name, SECRET)]);
        assert_eq!(twice.check(NOW), Err(VerifyError::Signature));
    }
}

#[test]
fn without_a_secret_nobody_is_right() {
    let empty = sign(b"", &[b"hello"]);
    for secret in [None, Some("")] {
        for (verify, value) in [
            (VerifyMethod::Token { header: "X-Signature".into() }, String::new()),
            (hmac(), format!("sha256={empty}")),
            (hmac(), String::new()),
        ] {
            let case = Case { secret, ..Case::new(verify, &[("x-signature", &value)]) };
            assert_eq!(case.check(NOW), Err(VerifyError::Signature), "{secret:?} {value:?}");
        }
    }
}

#[test]
fn signatures_are_read_strictly() {
    let good = sign(SECRET.as_bytes(), &[b"hello"]);
    let check = |value: &str| Case::new(hmac(), &[("x-signature", value)]).check(NOW);
    let digest = Ok(sha256(&[b"hello"]));
    assert_eq!(check(&format!("sha256={good}")), digest);
    assert_eq!(check(&format!("sha256={}", good.to_uppercase())), digest, "digits in either case");
    for wrong in [
        String::new(),
        good.clone(),
        "sha256=".to_owned(),
        format!("SHA256={good}"),
        format!("sha256= {good}"),
        format!("sha256={good} "),
        format!("sha256={good}00"),
        format!("sha256={}", &good[..62]),
        format!("sha256={}+1", &good[..62]),
        format!("sha256=0x{}", &good[..62]),
        format!("sha256={}é", &good[..62]),
        format!("sha1={good}"),
        format!("sha256={}", sign(b"other", &[b"hello"])),
        format!("sha256={}", sign(SECRET.as_bytes(), &[b"hello "])),
        format!("sha256={good},sha256={good}"),
    ] {
        assert_eq!(check(&wrong), Err(VerifyError::Signature), "{wrong}");
    }
    let value = format!("sha256={good}");
    let twice = Case::new(hmac(), &[("x-signature", &value), ("X-Signature", "sha256=00")]);
    assert_eq!(twice.check(NOW), Err(VerifyError::Signature));
}

#[test]
fn times_are_signed_and_fresh() {
    let slack = |time: &str, signed: &str| {
        let signature = format!("v0={}", sign(SECRET.as_bytes(), &[b"v0:", signed.as_bytes(), b":hello"]));
        let headers = [("x-slack-request-timestamp", time), ("x-slack-signature", signature.as_str())];
        Case::new(VerifyMethod::Slack, &headers).check(NOW)
    };
    let own = |time: &str, signed: &str| {
        let signature = format!("sha256={}", sign(SECRET.as_bytes(), &[signed.as_bytes(), b".hello"]));
        Case::new(hmac_of_time(), &[("x-time", time), ("x-signature", signature.as_str())]).check(NOW)
    };
    for (off, expected) in [
        (0, None),
        (300, None),
        (-300, None),
        (301, Some(VerifyError::Stale)),
        (-301, Some(VerifyError::Stale)),
        (-NOW, Some(VerifyError::Stale)),
        (10_000_000_000, Some(VerifyError::Stale)),
    ] {
        let time = (NOW + off).to_string();
        assert_eq!(slack(&time, &time).err(), expected, "{off}");
        assert_eq!(own(&time, &time).err(), expected, "{off}");
        let other = (NOW + off + 1).to_string();
        assert_eq!(slack(&time, &other), Err(VerifyError::Signature), "{off}: wrong before it is stale");
        assert_eq!(own(&time, &other), Err(VerifyError::Signature), "{off}");
    }
    let now = NOW.to_string();
    let odd = [
        String::new(),
        format!("+{now}"),
        format!("-{now}"),
        format!(" {now}"),
        format!("{now}.0"),
        format!("{now} "),
        "soon".to_owned(),
        "9".repeat(16),
        "9".repeat(40),
        "１７".to_owned(),
    ];
    for time in odd {
        assert_eq!(slack(&time, &time), Err(VerifyError::Signature), "{time:?}");
        assert_eq!(own(&time, &time), Err(VerifyError::Signature), "{time:?}");
    }
    // No time, or two.
    let signature = format!("v0={}", sign(SECRET.as_bytes(), &[b"v0:", now.as_bytes(), b":hello"]));
    let none = [("x-slack-signature", signature.as_str())];
    assert_eq!(Case::new(VerifyMethod::Slack, &none).check(NOW), Err(VerifyError::Signature));
    let time = ("x-slack-request-timestamp", now.as_str());
    assert_eq!(Case::new(VerifyMethod::Slack, &[none[0], time, time]).check(NOW), Err(VerifyError::Signature));
    assert!(Case::new(VerifyMethod::Slack, &[none[0], time]).check(NOW).is_ok());
    // What was signed without a time is not good with one.
    let bare = format!("sha256={}", sign(SECRET.as_bytes(), &[b"hello"]));
    let case = Case::new(hmac_of_time(), &[("x-signature", &bare), ("x-time", &now)]);
    assert_eq!(case.check(NOW), Err(VerifyError::Signature));
}

#[test]
fn a_clock_before_1970_lets_nothing_old_in() {
    let time = "0";
    let signature = format!("v0={}", sign(SECRET.as_bytes(), &[b"v0:0:hello"]));
    let case =
        Case::new(VerifyMethod::Slack, &[("x-slack-request-timestamp", time), ("x-slack-signature", &signature)]);
    assert_eq!(case.check(301), Err(VerifyError::Stale));
    assert!(case.check(-5).is_ok());
}

/// The same body at another time is another webhook; the same signature written in another way is not.
#[test]
fn digests_tell_times_apart_where_they_are_signed() {
    let at = |time: i64, spelled: fn(&str) -> String| {
        let time = time.to_string();
        let signature = sign(SECRET.as_bytes(), &[time.as_bytes(), b".hello"]);
        let signature = format!("sha256={}", spelled(&signature));
        Case::new(hmac_of_time(), &[("x-time", &time), ("x-signature", &signature)]).check(NOW).unwrap()
    };
    assert_eq!(at(NOW, str::to_owned), at(NOW, str::to_uppercase));
    assert_ne!(at(NOW, str::to_owned), at(NOW - 1, str::to_owned));
    let token = Case::new(VerifyMethod::Token { header: "x-own".into() }, &[("x-own", SECRET)]);
    assert_eq!(token.check(NOW), Ok(sha256(&[b"hello"])));
    assert_eq!(token.check(NOW + 999), token.check(NOW));
}

/// The query distinguishes webhooks only where their sender has the secret; elsewhere it would permit a replay.
#[test]
fn digests_tell_queries_apart_where_nothing_is_signed() {
    let signature = format!("sha256={}", sign(SECRET.as_bytes(), &[b"hello"]));
    let signed = Case::new(hmac(), &[("x-signature", &signature)]);
    assert_eq!(signed.check_with("peer=a", NOW), signed.check_with("peer=b", NOW));
    let token = Case::new(VerifyMethod::Token { header: "x-own".into() }, &[("x-own", SECRET)]);
    for shown in [token, Case::new(VerifyMethod::None, &[])] {
        assert_eq!(shown.check_with("peer=a", NOW), shown.check_with("peer=a", NOW));
        assert_ne!(shown.check_with("peer=a", NOW), shown.check_with("peer=b", NOW));
        assert_ne!(shown.check_with("peer=a", NOW), shown.check(NOW));
    }
}

#[test]
fn none_is_for_this_machine() {
    let from = |address: &str| Case { from: address.parse().unwrap(), ..Case::new(VerifyMethod::None, &[]) };
    for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(from(address).check(NOW).is_ok(), "{address}");
        assert!(Case { secret: None, ..from(address) }.check(NOW).is_ok(), "{address}");
    }
    for address in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "0.0.0.0", "10.0.0.1"] {
        assert_eq!(from(address).check(NOW), Err(VerifyError::NotLocal), "{address}");
    }
    for header in ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"] {
        let forwarded = Case::new(VerifyMethod::None, &[(header, "127.0.0.1")]);
        assert_eq!(forwarded.check(NOW), Err(VerifyError::NotLocal), "{header}");
    }
}

/// Any value a header may have.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("of headers", |byte| (*byte >= 32 && *byte != 127) || *byte == b'\t');
    prop_oneof![
        prop::collection::vec(byte, 0..90),
        "(v0|sha256)=[0-9a-fA-F]{60,68}".prop_map(String::into_bytes),
        "[0-9]{0,20}".prop_map(String::into_bytes),
    ]
}

fn any_verify() -> impl Strategy<Value = VerifyMethod> {
    prop_oneof![
        Just(VerifyMethod::Telegram),
        Just(VerifyMethod::Slack),
        Just(hmac()),
        Just(hmac_of_time()),
        Just(VerifyMethod::Token { header: "x-own".into() })
    ]
}

proptest! {
    #[test]
    fn nobody_gets_in_by_chance(
        verify in any_verify(),
        values in prop::collection::vec((0..6_usize, any_value()), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let names = [
            "x-telegram-bot-api-secret-token", "x-slack-signature", "x-slack-request-timestamp", "x-signature",
            "x-time", "x-own",
        ];
        let headers = values.into_iter().map(|(name, value)| (names[name].to_owned(), value)).collect();
        let case = Case { verify, secret: Some("not to be guessed"), headers, body, from: HERE };
        prop_assert_eq!(case.check(NOW), Err(VerifyError::Signature));
    }

    #[test]
    fn what_is_signed_is_right_and_nothing_else(
        body in prop::collection::vec(any::<u8>(), 0..200),
        off in -300..=300_i64,
        is_slack in any::<bool>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let time = (NOW + off).to_string();
        let (verify, scheme, names, around) = match is_slack {
            true => (VerifyMethod::Slack, "v0", ["x-slack-signature", "x-slack-request-timestamp"], ["v0:", ":"]),
            false => (hmac_of_time(), "sha256", ["x-signature", "x-time"], ["", "."]),
        };
        let signed = [around[0].as_bytes(), time.as_bytes(), around[1].as_bytes(), &body];
        let signature = format!("{scheme}={}", sign(SECRET.as_bytes(), &signed));
        let case = Case { body: body.clone(), ..Case::new(verify, &[(names[0], &signature), (names[1], &time)]) };
        let digest = case.check(NOW);
        prop_assert!(digest.is_ok());

        // One bit of the body, or one more byte.
        let mut changed = body.clone();
        match changed.is_empty() {
            true => changed.push(bit),
            false => changed[at.index(body.len())] ^= 1 << bit,
        }
        let case = Case { body: changed, ..case };
        prop_assert_eq!(case.check(NOW), Err(VerifyError::Signature));
        let case = Case { body: [&body[..], b"x"].concat(), ..case };
        prop_assert_eq!(case.check(NOW), Err(VerifyError::Signature));
        // One digit of the signature.
        let digit = scheme.len() + 1 + at.index(64);
        let mut wrong = signature.clone().into_bytes();
        wrong[digit] = if wrong[digit] == b'0' { b'1' } else { b'0' };
        let mut case = Case { body, ..case };
        case.headers[0].1 = wrong;
        prop_assert_eq!(case.check(NOW), Err(VerifyError::Signature));
        case.headers[0].1 = signature.into_bytes();
        prop_assert_eq!(case.check(NOW), digest);
    }
}
