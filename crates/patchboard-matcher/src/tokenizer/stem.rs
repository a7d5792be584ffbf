//! A light English stemmer: endings of number, tense and manner only, so that words of other languages, which pass
//! through the same rules, stay distinct. Both sides of every comparison are stemmed, so a stem need not be a word.

pub(crate) fn stem(word: &str) -> String {
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    if let Some((_, stem)) = IRREGULAR.iter().find(|(form, _)| *form == word) {
        return (*stem).to_owned();
    }
    let word = singular(word);
    let word = tense(&word);
    finish(&word)
}

fn singular(word: &str) -> String {
    if let Some(head) = word.strip_suffix("ies") {
        return if head.len() >= 2 { format!("{head}y") } else { format!("{head}ie") };
    }
    for ending in ["sses", "shes", "ches", "xes", "zes"] {
        if word.ends_with(ending) {
            return word[..word.len() - 2].to_owned();
        }
    }
    let keeps = ["ss", "us", "is"].iter().any(|ending| word.ends_with(ending));
    match word.strip_suffix('s') {
        Some(head) if head.len() >= 3 && !keeps => head.to_owned(),
        _ => word.to_owned(),
    }
}

fn tense(word: &str) -> String {
    for ending in ["ing", "ed"] {
        let Some(head) = word.strip_suffix(ending) else { continue };
        if head.len() < 3 || !head.bytes().any(is_vowel) || word.ends_with("eed") {
            continue;
        }
        return undouble(head).to_owned();
    }
    for ending in ["ly", "ment"] {
        if let Some(head) = word.strip_suffix(ending).filter(|head| head.len() >= 5) {
            return head.to_owned();
        }
    }
    for (ending, instead) in [("ations", "at"), ("ation", "at"), ("ator", "at"), ("ition", "it")] {
        if let Some(head) = word.strip_suffix(ending).filter(|head| head.len() >= 4) {
            return format!("{head}{instead}");
        }
    }
    word.to_owned()
}

/// `running` becomes `run`, but `falling` becomes `fall` and `passed` becomes `pass`.
fn undouble(head: &str) -> &str {
    match head.as_bytes() {
        [.., before, last] if before == last && !matches!(last, b'l' | b's' | b'z' | b'e' | b'o') => {
            &head[..head.len() - 1]
        }
        _ => head,
    }
}

/// Unifies `bake`, `baking` and `baked` by dropping the `e`, and `city` and `cities` by turning `i` into `y`.
fn finish(word: &str) -> String {
    match word.strip_suffix('e') {
        Some(head) if head.len() >= 3 && !head.ends_with('e') => head.to_owned(),
        _ => match word.strip_suffix('i') {
            Some(head) if head.len() >= 3 => format!("{head}y"),
            _ => word.to_owned(),
        },
    }
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Irregular forms; the right side is already a stem.
const IRREGULAR: &[(&str, &str)] = &[
    ("ate", "eat"),
    ("began", "begin"),
    ("bought", "buy"),
    ("broke", "break"),
    ("broken", "break"),
    ("built", "build"),
    ("bus", "bus"),
    ("calories", "calory"),
    ("calorie", "calory"),
    ("came", "com"),
    ("children", "child"),
    ("cookies", "cooky"),
    ("cookie", "cooky"),
    ("died", "die"),
    ("does", "do"),
    ("done", "do"),
    ("drank", "drink"),
    ("driven", "driv"),
    ("drove", "driv"),
    ("dying", "die"),
    ("eaten", "eat"),
    ("feet", "foot"),
    ("fell", "fall"),
    ("felt", "feel"),
    ("flew", "fly"),
    ("forgot", "forget"),
    ("forgotten", "forget"),
    ("found", "find"),
    ("gas", "gas"),
    ("gave", "giv"),
    ("given", "giv"),
    ("goes", "go"),
    ("gone", "go"),
    ("got", "get"),
    ("gotten", "get"),
    ("had", "hav"),
    ("has", "hav"),
    ("heard", "hear"),
    ("held", "hold"),
    ("kept", "keep"),
    ("knives", "knif"),
    ("knew", "know"),
    ("known", "know"),
    ("learnt", "learn"),
    ("leaves", "leav"),
    ("left", "leav"),
    ("lives", "liv"),
    ("loaves", "loaf"),
    ("losing", "los"),
    ("lost", "los"),
    ("made", "mak"),
    ("meant", "mean"),
    ("men", "man"),
    ("met", "meet"),
    ("meeting", "meeting"),
    ("meetings", "meeting"),
    ("mice", "mouse"),
    ("morning", "morning"),
    ("movies", "movi"),
    ("movie", "movi"),
    ("news", "news"),
    ("nothing", "nothing"),
    ("paid", "pay"),
    ("people", "person"),
    ("ran", "run"),
    ("recurring", "recur"),
    ("reminder", "remind"),
    ("reminders", "remind"),
    ("said", "say"),
    ("sang", "sing"),
    ("sat", "sit"),
    ("saw", "see"),
    ("seen", "see"),
    ("sent", "send"),
    ("setting", "setting"),
    ("settings", "setting"),
    ("shoes", "shoe"),
    ("slept", "sleep"),
    ("sold", "sell"),
    ("something", "something"),
    ("spoke", "speak"),
    ("spoken", "speak"),
    ("spelt", "spell"),
    ("spent", "spend"),
    ("stole", "steal"),
    ("stolen", "steal"),
    ("stood", "stand"),
    ("swam", "swim"),
    ("taken", "tak"),
    ("taught", "teach"),
    ("taxes", "tax"),
    ("teeth", "tooth"),
    ("told", "tell"),
    ("took", "tak"),
    ("thought", "think"),
    ("threw", "throw"),
    ("wallet", "wallet"),
    ("was", "be"),
    ("went", "go"),
    ("were", "be"),
    ("wives", "wif"),
    ("woke", "wak"),
    ("woken", "wak"),
    ("women", "woman"),
    ("won", "win"),
    ("wore", "wear"),
    ("written", "writ"),
    ("wrote", "writ"),
];

#[cfg(test)]
mod tests;
