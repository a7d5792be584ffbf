//! Pages that explain error codes, for `patchboard explain CODE`.

#[cfg(test)]
mod tests;

/// The page of a code, case-insensitive: `PB0103`, `pb0103`.
pub(crate) fn explain(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code.trim())).map(|(_, page)| *page)
}

/// Every code with the title of its page, in order.
pub(crate) fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().map(|(code, page)| {
        let heading = page.lines().next().unwrap_or_default();
        let title = heading.split_once(": ").map_or(heading, |(_, title)| title);
        (*code, title)
    })
}

/// Embeds `docs/errors/CODE.md` for each code.
macro_rules! pages {
    ($($code:literal)+) => {
        const PAGES: &[(&str, &str)] = &[
            $(($code, include_str!(concat!("../../../docs/errors/", $code, ".md"))),)+
        ];
    };
}

pages! {
    "PB0101" "PB0102" "PB0103" "PB0104" "PB0105" "PB0106" "PB0107" "PB0108" "PB0109" "PB0110"
    "PB0111" "PB0112" "PB0113" "PB0114" "PB0115" "PB0116" "PB0117" "PB0118" "PB0119" "PB0120"
    "PB0121" "PB0122" "PB0123" "PB0124" "PB0125" "PB0126" "PB0127"
    "PB0201" "PB0202" "PB0203" "PB0204" "PB0205" "PB0206" "PB0207"
}
