//! Deletion: of a fact, and of everything that is stored of an account.

use patchboard_core::id::MemoryOwner;
use patchboard_core::store::EraseExtent;
use patchboard_core::webhook::DeliveryId;
use rusqlite::{Connection, OptionalExtension, params};

use super::sql_error::SqliteError;
use super::{accounts, facts, interner, kv, runs, sessions, turn_index};

/// Rows deleted per call, so that the writer is not blocked for long.
const MAX_DELETED_ROWS: usize = 10_000;
/// A larger database is rebuilt through a temporary file instead of in memory.
const MAX_REBUILT_IN_MEMORY: i64 = 128 * 1024 * 1024;

/// Deletes a fact and, one after the other, what it superseded.
pub(super) fn fact(db: &Connection, owner: &MemoryOwner, number: u64) -> Result<(), SqliteError> {
    let Some(owner) = interner::find(db, &interner::owner_name(owner))? else { return Ok(()) };
    sessions::with_secure_delete(db, || {
        let mut next = i64::try_from(number).ok();
        while let Some(number) = next {
            if !facts::delete(db, owner, number)? {
                return Ok(());
            }
            let mut find = db.prepare_cached("SELECT number FROM facts WHERE superseded_by = ?1 AND owner = ?2")?;
            next = find.query_row([number, owner], |row| row.get(0)).optional()?;
        }
        Ok(())
    })
}

/// Deletes some of what is stored of an account; `true` if more is left. Names come last, because everything else is
/// found by them: after a crash in between, the next call goes on.
pub(super) fn account(db: &Connection, account: &MemoryOwner, deliveries: &[DeliveryId]) -> Result<bool, SqliteError> {
    sessions::with_secure_delete(db, || {
        db.execute("INSERT INTO remains SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM remains)", [])?;
        for delivery in deliveries {
            db.prepare_cached("DELETE FROM deliveries WHERE id = ?1")?.execute([delivery.0.as_bytes().as_slice()])?;
        }
        let mut left = MAX_DELETED_ROWS;
        let owner = interner::find(db, &interner::owner_name(account))?;
        if let Some(owner) = owner {
            left = left.saturating_sub(facts::delete_some(db, owner, left)?);
        }
        let named = accounts::named_sessions(db, account)?;
        for (session, key) in &named {
            left = left.saturating_sub(runs::purge_some(db, *session, left)?);
            left = left.saturating_sub(turn_index::delete_some_turns(db, *session, left)?);
            if left == 0 {
                return Ok(true);
            }
            kv::purge(db, key)?;
            db.prepare_cached("DELETE FROM spent WHERE scope = ?1")?.execute([format!("session/{key}")])?;
            db.prepare_cached("DELETE FROM sessions WHERE number = ?1")?.execute([session])?;
        }
        if left == 0 {
            return Ok(true);
        }
        for number in named.iter().map(|(session, _)| *session).chain(owner) {
            // A run that began meanwhile is deleted when it ends, and is found by its session's name until then.
            if runs::count_of_session(db, number)? == 0 {
                db.prepare_cached("UPDATE names SET name = NULL WHERE number = ?1")?.execute([number])?;
            }
        }
        Ok(false)
    })
}

/// Removes what deleted rows left behind. Overwriting on deletion is not enough: SQLite moves rows between pages and
/// leaves copies in their unused parts, so the whole file is written anew.
pub(super) fn erase(db: &Connection, extent: EraseExtent) -> Result<(), SqliteError> {
    let is_due = || db.prepare("SELECT 1 FROM remains")?.exists([]);
    match extent {
        EraseExtent::Log => {}
        EraseExtent::WholeStoreIfDue if !is_due()? => return Ok(()),
        EraseExtent::WholeStore | EraseExtent::WholeStoreIfDue => {
            let size: i64 = db.query_row(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
                [],
                |row| row.get(0),
            )?;
            let is_large = size > MAX_REBUILT_IN_MEMORY;
            if is_large {
                db.execute_batch("PRAGMA temp_store = FILE")?;
            }
            let rebuilt = db.execute_batch("VACUUM");
            if is_large {
                db.execute_batch("PRAGMA temp_store = MEMORY")?;
            }
            rebuilt?;
        }
    }
    truncate_log(db)?;
    // Last, so that a process that ends before starts all of it again.
    if extent != EraseExtent::Log {
        db.execute("DELETE FROM remains", [])?;
    }
    Ok(())
}

/// Writes the log into the database and cuts it to nothing.
fn truncate_log(db: &Connection) -> Result<(), SqliteError> {
    let is_busy: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", params![], |row| row.get(0))?;
    if is_busy {
        let reason = "another program reads the database, so that the log of recent writes could not be cleared; \
                      repeat this once it has ended";
        return Err(SqliteError::Rejected(reason.to_owned()));
    }
    Ok(())
}
