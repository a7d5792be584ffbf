//! Character folding for comparison.

/// Appends the character in lower case and without its accent.
pub(super) fn push(character: char, into: &mut String) {
    if character.is_ascii() {
        into.push(character.to_ascii_lowercase());
        return;
    }
    for lower in character.to_lowercase() {
        match plain(lower) {
            Some(plain) => into.push_str(plain),
            None if is_mark(lower) => {}
            None => into.push(lower),
        }
    }
}

fn plain(character: char) -> Option<&'static str> {
    Some(match character {
        'à' | 'á' | 'â' | 'ã' | 'å' | 'ā' | 'ă' | 'ą' => "a",
        'ä' | 'æ' => "ae",
        'ç' | 'ć' | 'č' | 'ĉ' => "c",
        'ď' | 'đ' | 'ð' => "d",
        'è' | 'é' | 'ê' | 'ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'ğ' | 'ĝ' => "g",
        'ì' | 'í' | 'î' | 'ï' | 'ī' | 'ı' => "i",
        'ł' | 'ľ' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò' | 'ó' | 'ô' | 'õ' | 'ō' | 'ő' => "o",
        'ö' | 'ø' | 'œ' => "oe",
        'ř' => "r",
        'ś' | 'š' | 'ş' | 'ș' => "s",
        'ß' => "ss",
        'ť' | 'ț' => "t",
        'ù' | 'ú' | 'û' | 'ū' | 'ů' | 'ű' => "u",
        'ü' => "ue",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => return None,
    })
}

pub(super) fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '’' | 'ʼ' | '＇')
}

/// Combining accents, joiners and variation selectors: part of the preceding character.
pub(super) fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Scripts without spaces between words.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

pub(super) fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{2600}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}')
}
