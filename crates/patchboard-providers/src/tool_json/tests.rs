use super::*;

#[test]
fn the_same_tools_are_written_once_and_others_anew() {
    let texts = ToolJsonCache::default();
    let tools: Vec<Arc<[ToolSpec]>> = (0..=MAX_CACHED).map(|_| Arc::from([])).collect();
    let written =
        |index: usize, word: &str| texts.get_or_write(&tools[index], || word.to_owned()).unwrap().get().to_owned();
    assert_eq!(written(0, "a"), "\"a\"");
    assert_eq!(written(0, "b"), "\"a\"");
    for index in 1..=MAX_CACHED {
        assert_eq!(written(index, "c"), "\"c\"");
    }
    assert_eq!(written(0, "d"), "\"d\"", "forgotten for newer ones");
}
