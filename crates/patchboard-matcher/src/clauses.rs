//! Splits an utterance into several requests: `remind me to buy milk and turn off the lights`.

use super::tokenizer::{TokenBoundary, WordToken};

/// Further clauses are ignored; such a text is not a list of requests.
const MAX_CLAUSES: usize = 4;

/// Splits the utterance where a new request begins. One clause means that there is nothing to split.
pub(super) fn clauses(words: &[WordToken]) -> Vec<&[WordToken]> {
    let mut clauses = Vec::new();
    let mut from = 0;
    for at in 1..words.len() {
        let joined = words.get(at - 1).is_some_and(|word| CONJUNCTIONS.contains(&word.text.as_str()));
        let ended = words.get(at - 1).is_some_and(|word| word.boundary != TokenBoundary::Absent);
        let opens = words.get(at..).is_some_and(opens_request);
        if (joined || ended) && opens {
            clauses.extend(words.get(from..at));
            from = at;
        }
    }
    clauses.extend(words.get(from..));
    clauses.retain(|clause| clause.iter().any(|word| word.weight >= 0.5));
    clauses.truncate(MAX_CLAUSES);
    clauses
}

/// Drops what the utterance says is not meant: `not a timer, put it in the calendar`, `don't play anything, just tell
/// me who sings`. A denial counts only where something else follows that is meant instead.
pub(super) fn without_denials(words: Vec<WordToken>) -> Vec<WordToken> {
    const DENIALS: &[&str] = &["not", "nothing", "nicht", "nichts", "kein", "keine", "keinen"];
    const INSTEAD: &[&str] = &["just", "only", "but", "rather", "instead", "sondern", "nur", "sino", "solo", "mais"];
    /// A denial further on is part of the content, not of the request: `the printer does not print, help`.
    const EARLY: usize = 2;
    let is_one_of = |word: &WordToken, list: &[&str]| list.contains(&word.text.as_str());
    let Some(denial) = words.iter().take(EARLY).position(|word| is_one_of(word, DENIALS)) else { return words };
    let denial_end = words.iter().enumerate().skip(denial).find_map(|(at, word)| {
        let is_contrasted = words.get(at + 1).is_some_and(|next| is_one_of(next, INSTEAD));
        (is_contrasted || word.boundary != TokenBoundary::Absent).then_some(at + 1)
    });
    let Some(rest) = denial_end.filter(|at| words.iter().skip(*at).any(|word| word.weight >= 0.5)) else {
        return words;
    };
    words.into_iter().skip(rest).collect()
}

/// Only what can stand alone opens a request: not the second half of `chicken and rice`.
fn opens_request(words: &[WordToken]) -> bool {
    let mut words = words.iter().skip_while(|word| CONJUNCTIONS.contains(&word.text.as_str()));
    words.next().is_some_and(|word| {
        REQUEST_OPENERS.contains(&word.text.as_str())
            || word.text.strip_suffix('e').is_some_and(|form| REQUEST_OPENERS.contains(&form))
    })
}

const CONJUNCTIONS: &[&str] = &[
    "and",
    "then",
    "also",
    "plus",
    "afterwards",
    "und",
    "dann",
    "ausserdem",
    "danach",
    "et",
    "puis",
    "ensuite",
    "aussi",
    "y",
    "luego",
    "despues",
    "tambien",
    "please",
    "bitte",
];

const REQUEST_OPENERS: &[&str] = &[
    "add",
    "answer",
    "append",
    "archive",
    "arrange",
    "ask",
    "backup",
    "book",
    "bring",
    "build",
    "buy",
    "calculate",
    "call",
    "can",
    "cancel",
    "change",
    "charge",
    "check",
    "clean",
    "clear",
    "close",
    "commit",
    "compute",
    "convert",
    "cook",
    "copy",
    "could",
    "count",
    "create",
    "deactivate",
    "define",
    "delete",
    "deploy",
    "dim",
    "disable",
    "do",
    "download",
    "draft",
    "draw",
    "email",
    "enable",
    "explain",
    "export",
    "fetch",
    "file",
    "find",
    "finish",
    "fix",
    "forward",
    "generate",
    "get",
    "give",
    "go",
    "help",
    "how",
    "i",
    "increase",
    "install",
    "invite",
    "is",
    "jot",
    "keep",
    "launch",
    "list",
    "load",
    "lock",
    "log",
    "look",
    "lower",
    "mail",
    "make",
    "mark",
    "measure",
    "message",
    "mute",
    "navigate",
    "note",
    "open",
    "order",
    "organize",
    "pause",
    "pay",
    "ping",
    "plan",
    "play",
    "post",
    "print",
    "push",
    "put",
    "raise",
    "read",
    "record",
    "reduce",
    "remember",
    "remind",
    "remove",
    "rename",
    "reply",
    "reschedule",
    "reserve",
    "restart",
    "resume",
    "run",
    "save",
    "say",
    "schedule",
    "search",
    "send",
    "set",
    "share",
    "show",
    "shut",
    "skip",
    "snooze",
    "start",
    "stop",
    "summarize",
    "switch",
    "take",
    "tell",
    "text",
    "track",
    "transfer",
    "translate",
    "turn",
    "unlock",
    "unmute",
    "update",
    "upload",
    "wake",
    "water",
    "what",
    "when",
    "where",
    "who",
    "why",
    "write",
    // German.
    "erinnere",
    "erinner",
    "mach",
    "schalte",
    "schalt",
    "schick",
    "schicke",
    "schreib",
    "schreibe",
    "spiel",
    "spiele",
    "stell",
    "stelle",
    "ruf",
    "rufe",
    "setz",
    "setze",
    "sag",
    "sage",
    "such",
    "suche",
    "buche",
    "bestell",
    "bestelle",
    "zeig",
    "zeige",
    "oeffne",
    "notier",
    "notiere",
    "trag",
    "trage",
    "lies",
    "wie",
    "wann",
    "wo",
    // French.
    "allume",
    "eteins",
    "envoie",
    "ecris",
    "joue",
    "mets",
    "met",
    "rappelle",
    "ajoute",
    "appelle",
    "cherche",
    "ouvre",
    "ferme",
    "reserve",
    "commande",
    "note",
    "lis",
    "montre",
    "dis",
    "quel",
    "quelle",
    "comment",
    // Spanish.
    "enciende",
    "apaga",
    "envia",
    "escribe",
    "reproduce",
    "pon",
    "recuerdame",
    "anade",
    "agrega",
    "llama",
    "busca",
    "abre",
    "cierra",
    "reserva",
    "pide",
    "anota",
    "apunta",
    "lee",
    "muestra",
    "dime",
    "cual",
    "cuando",
];

#[cfg(test)]
mod tests;
