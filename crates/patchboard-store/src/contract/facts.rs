//! Facts: found by words and by meaning, for one owner only, never two about the same subject and predicate.

use std::sync::Arc;

use patchboard_core::id::MemoryOwner;
use patchboard_core::store::{FactQuery, FactRow, NewFact, Store, StoreWrite};

use super::fixtures::{all_pages, at, commit, expect_ok, fact, owner, session};

/// Texts with a meaning in some query language.
const HOSTILE_TEXTS: &[&str] = &[
    "",
    " ",
    "\"",
    "\"\"",
    "'",
    "tea\"",
    "tea*",
    "tea AND",
    "OR",
    "NOT tea",
    "NEAR(tea milk)",
    "words : tea",
    "^tea",
    "tea + milk",
    "{words}: tea",
    "(",
    ")",
    "((((",
    "-tea",
    "--",
    ";",
    "'; DROP TABLE facts; --",
    "%",
    "_",
    "\\",
    "\0",
    "tea\0milk",
    "1x",
    "x",
    "İİ",
    "🍵",
    "茶",
    "e\u{301}",
    "\u{200f}",
    "ﬁ",
    "\u{fffd}",
];

pub async fn facts_are_found_by_words(store: Arc<dyn Store>) {
    let alice = owner("alice");
    learn(
        &*store,
        &[
            fact(&alice, "likes", "green tea"),
            fact(&alice, "works at", "a bakery in Lyon"),
            fact(&alice, "has a dog named", "Miso"),
            fact(&alice, "lives in", "Lyon"),
        ],
    )
    .await;
    let find = async |text: &str| objects(&*store, query(&alice, text)).await;
    assert_eq!(find("What was my dog called?").await, ["Miso"]);
    assert_eq!(find("TEA").await, ["green tea"]);
    assert_eq!(
        find("a bakery in Lyon").await.first().map(String::as_str),
        Some("a bakery in Lyon"),
        "best match first"
    );
    assert_eq!(find("xylophone").await, [""; 0]);
    assert_eq!(find("").await, [""; 0]);

    let first = expect_ok(store.facts(query(&alice, "miso")).await).items.into_iter().next();
    let expected = FactRow {
        number: first.as_ref().map_or(0, |fact| fact.number),
        subject: "user".to_owned(),
        predicate: "has a dog named".to_owned(),
        object: "Miso".to_owned(),
        confidence: 0.75,
        session: session("facts"),
        learned_at: at(7),
        score: first.as_ref().map_or(0.0, |fact| fact.score),
    };
    assert!(expected.score > 0.0, "a match has a score");
    assert_eq!(first, Some(expected));

    let filled = FactQuery { fill_with_recent: true, limit: 3, ..query(&alice, "tea") };
    assert_eq!(objects(&*store, filled.clone()).await, ["green tea", "Lyon", "Miso"], "then the newest");
    let scores: Vec<_> = expect_ok(store.facts(filled).await).items.iter().map(|fact| fact.score > 0.0).collect();
    assert_eq!(scores, [true, false, false]);
}

pub async fn facts_are_found_by_meaning(store: Arc<dyn Store>) {
    let alice = owner("alice");
    let with = |fact: NewFact, space: &str, vector: &[f32]| NewFact {
        embedding: Some((space.into(), vector.to_vec())),
        ..fact
    };
    learn(
        &*store,
        &[
            with(fact(&alice, "likes", "espresso"), "small", &[1.0, 0.1]),
            with(fact(&alice, "fears", "spiders"), "small", &[0.0, 1.0]),
            with(fact(&alice, "plays", "chess"), "large", &[1.0, 0.1, 0.0]),
            fact(&alice, "reads", "novels"),
            with(fact(&owner("bob"), "likes", "cola"), "small", &[1.0, 0.0]),
        ],
    )
    .await;
    let similar = |text: &str, vector: &[f32]| FactQuery {
        embedding: Some(("small".into(), vector.to_vec())),
        ..query(&alice, text)
    };
    assert_eq!(
        objects(&*store, similar("", &[1.0, 0.0])).await,
        ["espresso"],
        "same direction, same space, same owner"
    );
    assert_eq!(objects(&*store, similar("", &[0.5, 1.0])).await, ["spiders", "espresso"], "closest first");
    let both = objects(&*store, similar("novels", &[1.0, 0.0])).await;
    assert_eq!(both.len(), 2, "words still count: {both:?}");
    assert_eq!(objects(&*store, similar("", &[-1.0, 0.0])).await, [""; 0], "the opposite is no match");
    assert_eq!(objects(&*store, similar("", &[1.0])).await, [""; 0], "vectors of another length");
    assert_eq!(objects(&*store, similar("", &[0.0, 0.0])).await, [""; 0], "a vector without direction");
}

pub async fn facts_supersede_each_other(store: Arc<dyn Store>) {
    let alice = owner("alice");
    let old = NewFact { embedding: Some(("small".into(), vec![1.0])), ..fact(&alice, "lives in", "Lyon") };
    learn(&*store, &[old, fact(&alice, "likes", "tea")]).await;
    let numbers =
        async || expect_ok(store.facts(recent(&alice)).await).items.iter().map(|fact| fact.number).collect::<Vec<_>>();
    let before = numbers().await;
    learn(&*store, &[NewFact { learned_at: at(90), ..fact(&alice, "lives in", "Lyon") }]).await;
    assert_eq!(numbers().await, before, "the same fact again changes nothing");

    learn(&*store, &[fact(&alice, "lives in", "Oslo")]).await;
    assert_eq!(objects(&*store, recent(&alice)).await, ["Oslo", "tea"]);
    assert_eq!(objects(&*store, query(&alice, "Lyon")).await, [""; 0]);
    assert_eq!(objects(&*store, query(&alice, "lives")).await, ["Oslo"]);
    let by_meaning = FactQuery { embedding: Some(("small".into(), vec![1.0])), ..query(&alice, "") };
    assert_eq!(objects(&*store, by_meaning).await, [""; 0]);

    learn(&*store, &[fact(&alice, "lives in", "Lyon")]).await;
    assert_eq!(objects(&*store, recent(&alice)).await, ["Lyon", "tea"], "and back again");
}

pub async fn facts_of_others_stay_hidden(store: Arc<dyn Store>) {
    // Names that are prefixes of each other or contain separators.
    let owners = ["a", "aa", "a:a", "a%3Aa", "A", "1", "11", "1x1", "\"", ""].map(owner);
    for owner in &owners {
        let secret =
            NewFact { embedding: Some(("small".into(), vec![1.0, 1.0])), ..fact(owner, "secret", owner.as_str()) };
        learn(&*store, &[secret, fact(owner, "likes", "tea")]).await;
    }
    for owner in &owners {
        for text in ["secret tea likes user", "1xtea 11xtea", owner.as_str(), "a aa A 1 11 web"] {
            let everything = FactQuery {
                embedding: Some(("small".into(), vec![1.0, 1.0])),
                fill_with_recent: true,
                ..query(owner, text)
            };
            let mut found = objects(&*store, everything).await;
            found.sort();
            let mut own = [owner.as_str().to_owned(), "tea".to_owned()];
            own.sort();
            assert_eq!(found, own, "owner {owner} asking for {text}");
        }
    }
    assert_eq!(objects(&*store, recent(&owner("nobody"))).await, [""; 0]);
}

pub async fn facts_take_any_text(store: Arc<dyn Store>) {
    let alice = owner("alice");
    for (index, text) in HOSTILE_TEXTS.iter().enumerate() {
        learn(&*store, &[fact(&alice, &format!("strange {index}"), text)]).await;
    }
    for text in HOSTILE_TEXTS {
        // An empty result is fine; an error or another owner's fact is not.
        let found = objects(&*store, query(&alice, text)).await;
        assert!(found.iter().all(|object| HOSTILE_TEXTS.contains(&object.as_str())), "{text:?} found {found:?}");
    }
    let long = "zebra ".repeat(100_000);
    assert_eq!(objects(&*store, query(&alice, &long)).await, [""; 0]);
    let found = objects(&*store, query(&alice, "NOT tea")).await;
    assert!(found.contains(&"NEAR(tea milk)".to_owned()), "operators are plain words: {found:?}");
}

pub async fn facts_are_paged(store: Arc<dyn Store>) {
    let alice = owner("alice");
    for number in 0..5 {
        learn(&*store, &[fact(&alice, &format!("drink {number}"), &format!("tea {number}"))]).await;
        learn(&*store, &[fact(&alice, &format!("food {number}"), &format!("cake {number}"))]).await;
    }
    let query = FactQuery { fill_with_recent: true, limit: 3, ..query(&alice, "tea") };
    let whole = objects(&*store, FactQuery { limit: 100, ..query.clone() }).await;
    assert_eq!(whole.len(), 10);
    assert!(whole[..5].iter().all(|object| object.starts_with("tea")), "matches come first: {whole:?}");
    let mut next = 100;
    let pages = all_pages(
        async |cursor| store.facts(FactQuery { cursor, ..query.clone() }).await,
        async || {
            next += 1;
            learn(&*store, &[fact(&alice, &format!("drink {next}"), &format!("tea {next}"))]).await;
        },
    );
    let paged: Vec<_> = pages.await.concat().into_iter().map(|fact| fact.object).collect();
    assert_eq!(paged, whole, "facts learned meanwhile neither repeat nor push out others");
}

async fn learn(store: &dyn Store, facts: &[NewFact]) {
    for fact in facts {
        commit(store, vec![StoreWrite::LearnFact(fact.clone())]).await;
    }
}

async fn objects(store: &dyn Store, query: FactQuery) -> Vec<String> {
    expect_ok(store.facts(query).await).items.into_iter().map(|fact| fact.object).collect()
}

fn query(owner: &MemoryOwner, text: &str) -> FactQuery {
    FactQuery {
        owner: owner.clone(),
        text: text.to_owned(),
        embedding: None,
        limit: 100,
        fill_with_recent: false,
        cursor: None,
    }
}

fn recent(owner: &MemoryOwner) -> FactQuery {
    FactQuery { fill_with_recent: true, ..query(owner, "") }
}
