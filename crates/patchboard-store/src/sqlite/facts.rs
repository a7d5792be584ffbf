//! Facts and their search. Everything is per owner: index terms contain the owner's number, vectors are selected by it,
//! rows are checked against it, and scores depend on the owner's own facts only.

use std::collections::{HashMap, HashSet};

use patchboard_core::store::{FactQuery, FactRow, NewFact, PageCursor, ResultPage};
use rusqlite::{Connection, OptionalExtension, params};

use super::interner::{self, NameInterner};
use super::sql_error::{SqliteError, cursor_parts, from_stored_count, session_key, timestamp};
use super::{MAX_ITEMS, accounts, search_terms, sessions};

/// Facts examined per word, newest first. Older ones are not found by a word that occurs this often.
const MAX_FACTS_PER_TERM: u32 = 2000;
/// Vectors compared with the query's, newest first.
const MAX_VECTORS: u32 = 10_000;

/// Replaces the owner's fact with the same subject and predicate; the old one is kept but never found again.
pub(super) fn insert_or_supersede(
    db: &Connection,
    names: &mut NameInterner,
    fact: &NewFact,
) -> Result<(), SqliteError> {
    let owner = names.intern(db, &interner::owner_name(&fact.owner))?;
    let session = names.intern_session(db, &fact.session)?;
    let learned_at = fact.learned_at.as_microsecond();
    let current: Option<(i64, bool)> = db
        .prepare_cached(
            "SELECT number, object = ?4 FROM facts
             WHERE owner = ?1 AND subject = ?2 AND predicate = ?3 AND superseded_at IS NULL",
        )?
        .query_row(params![owner, fact.subject, fact.predicate, fact.object], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let replaced = match current {
        Some((_, true)) => return Ok(()),
        Some((number, false)) => Some(number),
        None => None,
    };
    if let Some(old) = replaced {
        // Forgetting the fact can only overwrite where it is stored then.
        sessions::with_secure_delete(db, || {
            delete_search_entries(db, owner, old)?;
            db.prepare_cached("UPDATE facts SET superseded_at = ?2 WHERE number = ?1")?.execute([old, learned_at])?;
            Ok(())
        })?;
    }
    let confidence = if fact.confidence.is_nan() { 0.0 } else { fact.confidence };
    let number = db
        .prepare_cached(
            "INSERT INTO facts (owner, session, run, learned_at, confidence, subject, predicate, object)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .insert(params![
            owner,
            session,
            accounts::stored_run(fact.run.as_ref()),
            learned_at,
            confidence,
            fact.subject,
            fact.predicate,
            fact.object
        ])?;
    if let Some(old) = replaced {
        db.prepare_cached("UPDATE facts SET superseded_by = ?2 WHERE number = ?1")?.execute([old, number])?;
    }
    let words = indexed_words(owner, &fact.subject, &fact.predicate, &fact.object);
    db.prepare_cached("INSERT INTO fact_words (rowid, words) VALUES (?1, ?2)")?.execute(params![number, words])?;
    if let Some((space, vector)) = &fact.embedding {
        db.prepare_cached("INSERT INTO fact_vectors (fact, owner, space, vector) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![number, owner, names.intern(db, space)?, to_bytes(vector)])?;
    }
    Ok(())
}

fn indexed_words(owner: i64, subject: &str, predicate: &str, object: &str) -> String {
    let terms = search_terms::distinct_terms(&format!("{subject} {predicate} {object}"));
    terms.iter().map(|word| search_terms::owner_term(owner, word)).collect::<Vec<_>>().join(" ")
}

/// Takes a current fact out of the search. Superseded ones are not in it.
fn delete_search_entries(db: &Connection, owner: i64, number: i64) -> Result<(), SqliteError> {
    let mut find = db.prepare_cached(
        "SELECT subject, predicate, object FROM facts WHERE number = ?1 AND owner = ?2 AND superseded_at IS NULL",
    )?;
    let words = find.query_row([number, owner], |row| {
        let (subject, predicate, object) =
            (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?);
        Ok(indexed_words(owner, &subject, &predicate, &object))
    });
    if let Some(words) = words.optional()? {
        // The index knows a fact by its words, so these must be the words it was indexed with.
        db.prepare_cached("INSERT INTO fact_words (fact_words, rowid, words) VALUES ('delete', ?1, ?2)")?
            .execute(params![number, words])?;
    }
    db.prepare_cached("DELETE FROM fact_vectors WHERE fact = ?1")?.execute([number])?;
    Ok(())
}

/// Deletes a fact of the owner; `false` if there is none of that number.
pub(super) fn delete(db: &Connection, owner: i64, number: i64) -> Result<bool, SqliteError> {
    let mut find = db.prepare_cached("SELECT 1 FROM facts WHERE number = ?1 AND owner = ?2")?;
    if !find.exists([number, owner])? {
        return Ok(false);
    }
    delete_search_entries(db, owner, number)?;
    db.prepare_cached("DELETE FROM facts WHERE number = ?1")?.execute([number])?;
    Ok(true)
}

/// Deletes at most `limit` facts of the owner, also superseded ones; returns how many.
pub(super) fn delete_some(db: &Connection, owner: i64, limit: usize) -> Result<usize, SqliteError> {
    let mut find = db.prepare_cached("SELECT number FROM facts WHERE owner = ?1 LIMIT ?2")?;
    let found = find.query_map([owner, i64::try_from(limit).unwrap_or(i64::MAX)], |row| row.get(0))?;
    let found = found.collect::<Result<Vec<i64>, _>>()?;
    for number in &found {
        delete(db, owner, *number)?;
    }
    Ok(found.len())
}

/// The end of a page. Later pages exclude facts learned after the first page.
#[derive(Debug, Clone, Copy)]
struct FactCursor {
    newest: i64,
    /// The last fact's score; zero once the page contains facts that are merely recent.
    score: f32,
    number: i64,
}

pub(super) fn search(db: &Connection, query: &FactQuery) -> Result<ResultPage<FactRow>, SqliteError> {
    let empty = ResultPage { items: Vec::new(), next: None };
    let after = query.cursor.as_ref().map(parse_cursor).transpose()?;
    let limit = query.limit.min(MAX_ITEMS);
    let Some(owner) = interner::find(db, &interner::owner_name(&query.owner))? else { return Ok(empty) };
    let newest = match after {
        Some(after) => after.newest,
        None => db.query_row("SELECT ifnull(max(number), 0) FROM facts", [], |row| row.get(0))?,
    };
    // One extra row shows whether there is another page.
    let mut ranked = rank(db, owner, query, newest, after, limit + 1)?;
    let has_more = ranked.len() > limit;
    ranked.truncate(limit);
    let next = ranked
        .last()
        .filter(|_| has_more)
        .map(|(number, score)| PageCursor(format!("{newest}.{}.{number}", score.to_bits())));
    let mut items = Vec::with_capacity(ranked.len());
    for (number, score) in ranked {
        items.extend(load_fact(db, owner, number, score)?);
    }
    Ok(ResultPage { items, next })
}

/// The facts to return: best first, then newest first.
fn rank(
    db: &Connection,
    owner: i64,
    query: &FactQuery,
    newest: i64,
    after: Option<FactCursor>,
    limit: usize,
) -> Result<Vec<(i64, f32)>, SqliteError> {
    let scores = scores(db, owner, query, newest)?;
    let mut ranked: Vec<(i64, f32)> = scores.iter().map(|(&number, &score)| (number, score)).collect();
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(right.0.cmp(&left.0)));
    if let Some(after) = after {
        ranked.retain(|&(number, score)| score < after.score || (score == after.score && number < after.number));
    }
    ranked.truncate(limit);
    if query.fill_with_recent && ranked.len() < limit {
        // Recent facts have score 0, so a cursor with another score precedes all of them.
        let before = after.filter(|after| after.score == 0.0).map_or(i64::MAX, |after| after.number);
        let mut statement = db.prepare_cached(
            "SELECT number FROM facts WHERE owner = ?1 AND superseded_at IS NULL AND number <= ?2 AND number < ?3
             ORDER BY number DESC",
        )?;
        let mut rows = statement.query([owner, newest, before])?;
        while ranked.len() < limit
            && let Some(row) = rows.next()?
        {
            let number = row.get(0)?;
            if !scores.contains_key(&number) {
                ranked.push((number, 0.0));
            }
        }
    }
    Ok(ranked)
}

/// Scores between 0 and 1, only for matching facts. With a query vector, words and vector count equally.
fn scores(db: &Connection, owner: i64, query: &FactQuery, newest: i64) -> Result<HashMap<i64, f32>, SqliteError> {
    let mut scores = word_scores(db, owner, &query.text, newest)?;
    let Some((space, vector)) = &query.embedding else { return Ok(scores) };
    for score in scores.values_mut() {
        *score /= 2.0;
    }
    let Some(space) = interner::find(db, space)? else { return Ok(scores) };
    let mut statement = db.prepare_cached(
        "SELECT fact, vector FROM fact_vectors WHERE owner = ?1 AND space = ?2 AND fact <= ?3
         ORDER BY fact DESC LIMIT ?4",
    )?;
    let mut rows = statement.query(params![owner, space, newest, MAX_VECTORS])?;
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(1)?.as_blob().map_err(|error| SqliteError::corrupt("vector", error))?;
        let similarity = cosine(vector, bytes);
        if similarity > 0.0 {
            *scores.entry(row.get(0)?).or_insert(0.0) += similarity / 2.0;
        }
    }
    Ok(scores)
}

/// The share of the query's words that a fact contains; rare words count more. Rarity is computed from the owner's own
/// facts, so that other owners' facts cannot influence the result.
fn word_scores(db: &Connection, owner: i64, text: &str, newest: i64) -> Result<HashMap<i64, f32>, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT rowid FROM fact_words WHERE fact_words MATCH ?1 AND rowid <= ?2 ORDER BY rowid DESC LIMIT ?3",
    )?;
    let mut scores = HashMap::new();
    let mut total = 0.0;
    for word in search_terms::query_terms(text) {
        let found = statement
            .query_map(params![search_terms::match_expression(owner, &word), newest, MAX_FACTS_PER_TERM], |row| {
                row.get(0)
            })?;
        let found = found.collect::<Result<HashSet<i64>, _>>()?;
        if found.is_empty() {
            continue;
        }
        let weight = (1.0 + MAX_FACTS_PER_TERM as f32 / found.len() as f32).ln();
        total += weight;
        for fact in found {
            *scores.entry(fact).or_insert(0.0) += weight;
        }
    }
    for score in scores.values_mut() {
        *score /= total;
    }
    Ok(scores)
}

fn load_fact(db: &Connection, owner: i64, number: i64, score: f32) -> Result<Option<FactRow>, SqliteError> {
    let mut statement = db.prepare_cached(
        "SELECT subject, predicate, object, confidence, names.name, learned_at
         FROM facts JOIN names ON names.number = facts.session
         WHERE facts.number = ?1 AND owner = ?2 AND superseded_at IS NULL",
    )?;
    let mut rows = statement.query([number, owner])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(FactRow {
        number: from_stored_count(number),
        subject: row.get(0)?,
        predicate: row.get(1)?,
        object: row.get(2)?,
        confidence: row.get(3)?,
        session: session_key(&row.get::<_, String>(4)?)?,
        learned_at: timestamp(row.get(5)?)?,
        score,
    }))
}

fn parse_cursor(cursor: &PageCursor) -> Result<FactCursor, SqliteError> {
    let [newest, score, number] = cursor_parts(cursor)?;
    let score = f32::from_bits(u32::try_from(score).map_err(|_| SqliteError::BadCursor)?);
    Ok(FactCursor { newest, score, number })
}

fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Cosine similarity; 0 for vectors of different lengths, which cannot be compared.
fn cosine(left: &[f32], right: &[u8]) -> f32 {
    let (values, rest) = right.as_chunks::<4>();
    if values.len() != left.len() || !rest.is_empty() {
        return 0.0;
    }
    let (mut dot, mut left_square, mut right_square) = (0.0, 0.0, 0.0);
    for (&left, right) in left.iter().zip(values) {
        let right = f32::from_le_bytes(*right);
        dot += left * right;
        left_square += left * left;
        right_square += right * right;
    }
    let length = (left_square * right_square).sqrt();
    if length > 0.0 { dot / length } else { 0.0 }
}
