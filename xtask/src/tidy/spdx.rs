//! Licence expressions: `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`.

/// Whether the expression can be satisfied with licences from `allowed` alone.
/// The old `MIT/Apache-2.0` counts as `OR`; an expression that cannot be read is not satisfied.
pub(crate) fn is_satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, at: 0, allowed };
    parser.either() == Some(true) && parser.at == words.len()
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a [String],
}

impl<'a> Parser<'a> {
    fn either(&mut self) -> Option<bool> {
        let mut satisfied = self.all()?;
        while self.take("OR") {
            satisfied |= self.all()?;
        }
        Some(satisfied)
    }

    fn all(&mut self) -> Option<bool> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Some(satisfied)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let satisfied = self.either()?;
            return self.take(")").then_some(satisfied);
        }
        let mut license = self.next().filter(|word| !["AND", "OR", "WITH", ")"].contains(word))?.to_owned();
        if self.take("WITH") {
            license = format!("{license} WITH {}", self.next()?);
        }
        Some(self.allowed.contains(&license))
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests;
