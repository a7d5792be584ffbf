use super::ThoughtTree;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[track_caller]
fn check(thoughts: &ThoughtTree, expected: &str) {
    assert_eq!(thoughts.lines().join("\n"), expected.trim_start_matches('\n').trim_end());
}

#[test]
fn a_path_grows_deeper() {
    let mut tree = ThoughtTree::default();
    tree.expanded(&texts(&["look", "guess"]));
    tree.place_proposed(Some(1));
    check(
        &tree,
        "
tree of thoughts
├─    …   look
└─    …   guess
",
    );
    tree.evaluated(0, &[0.9, 0.25]);
    tree.expanded(&texts(&["read", "list", "ask"]));
    tree.place_proposed(Some(2));
    tree.evaluated(1, &[0.5, 0.75, 0.1]);
    check(
        &tree,
        "
tree of thoughts
├─ ▶ 0.90 look
│  ├─   0.50 read
│  ├─ ▶ 0.75 list
│  └─   0.10 ask
└─   0.25 guess
",
    );
}

#[test]
fn a_search_goes_back_to_the_next_best() {
    let mut tree = ThoughtTree::default();
    tree.expanded(&texts(&["a", "b", "c"]));
    tree.place_proposed(Some(1));
    tree.evaluated(0, &[0.9, 0.5, 0.7]);
    tree.expanded(&texts(&["a1"]));
    tree.place_proposed(Some(2));
    tree.evaluated(0, &[0.3]);
    tree.backtracked("its tools failed:\n`bash`", 0);
    check(
        &tree,
        "
tree of thoughts
├─ ✗ 0.90 a
│  └─ ✗ 0.30 a1
├─   0.50 b
└─ ▶ 0.70 c
↩ gave up at depth 1: its tools failed:\\n`bash`
",
    );
    tree.expanded(&texts(&["c1"]));
    tree.place_proposed(Some(2));
    tree.evaluated(0, &[1.0]);
    check(
        &tree,
        "
tree of thoughts
├─ ✗ 0.90 a
│  └─ ✗ 0.30 a1
├─   0.50 b
└─ ▶ 0.70 c
   └─ ▶ 1.00 c1
",
    );
}

#[test]
fn a_beam_goes_on_with_several_of_a_depth() {
    let mut tree = ThoughtTree::default();
    tree.expanded(&texts(&["a", "b"]));
    tree.place_proposed(Some(1));
    tree.evaluated(1, &[0.6, 0.8]);
    tree.expanded(&texts(&["b1"]));
    tree.place_proposed(Some(2));
    tree.evaluated(0, &[0.5]);
    tree.expanded(&texts(&["a1"]));
    tree.place_proposed(Some(2));
    tree.evaluated(0, &[0.4]);
    check(
        &tree,
        "
tree of thoughts
├─   0.60 a
│  └─ ▶ 0.40 a1
└─ ▶ 0.80 b
   └─ ▶ 0.50 b1
",
    );
}

#[test]
fn nonsense_does_no_harm() {
    let mut tree = ThoughtTree::default();
    tree.evaluated(7, &[f32::NAN, 2.0]);
    tree.backtracked("\x1b[2J", 99);
    tree.expanded(&texts(&["\x1b]0;owned\x07"]));
    tree.place_proposed(Some(50));
    tree.evaluated(3, &[]);
    check(
        &tree,
        "
tree of thoughts
└─    …   \\u{1b}]0;owned\\u{7}
",
    );
    tree.expanded(&vec!["x".to_owned(); 5_000]);
    tree.place_proposed(None);
    assert_eq!(tree.lines().len(), 2_001);
}
