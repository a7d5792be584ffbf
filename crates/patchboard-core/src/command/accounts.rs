//! What is stored of accounts: lists, corrections, deletion and export.

use super::{Command, PageRequest};
use crate::reply::{AccountReport, ForgottenAccount};
use crate::store::{AccountRow, AccountTurn, FactRecord, ResultPage, RunRow, SessionRow};

/// A channel's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRef {
    pub channel: String,
    pub account: String,
}

/// Accounts that the caller may see: the operator all, other callers those whose sessions are all theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListAccounts(pub PageRequest);

impl Command for ListAccounts {
    type Reply = ResultPage<AccountRow>;
}

/// How much is stored of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeAccount {
    pub account: AccountRef,
}

impl Command for DescribeAccount {
    type Reply = AccountReport;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFacts {
    pub account: AccountRef,
    pub with_superseded: bool,
    pub page: PageRequest,
}

impl Command for ListFacts {
    type Reply = ResultPage<FactRecord>;
}

/// Replaces what a current fact says; the reply is the new fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectFact {
    pub account: AccountRef,
    pub fact: u64,
    pub object: String,
}

impl Command for CorrectFact {
    type Reply = FactRecord;
}

/// Deletes a fact with everything it superseded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetFact {
    pub account: AccountRef,
    pub fact: u64,
}

impl Command for ForgetFact {
    type Reply = ();
}

/// Cancels the account's runs and deletes everything that is stored of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetAccount {
    pub account: AccountRef,
}

impl Command for ForgetAccount {
    type Reply = ForgottenAccount;
}

/// One part of what is stored of an account, page by page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportAccount {
    pub account: AccountRef,
    pub section: ExportSection,
    pub page: PageRequest,
}

impl Command for ExportAccount {
    type Reply = ExportPage;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportSection {
    Facts,
    Sessions,
    Turns,
    Runs,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExportPage {
    Facts(ResultPage<FactRecord>),
    Sessions(ResultPage<SessionRow>),
    Turns(ResultPage<AccountTurn>),
    Runs(ResultPage<RunRow>),
}
