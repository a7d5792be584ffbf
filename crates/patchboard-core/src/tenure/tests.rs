use super::*;
use crate::error::ErrorKind;

#[test]
fn only_a_fence_ends_a_tenure() {
    let tenure = Tenure::new(TenureId(uuid::Uuid::from_u128(1)));
    for harmless in [StoreError::Busy, StoreError::Full, StoreError::Conflict, StoreError::Closed] {
        tenure.observe(&harmless);
        assert!(tenure.may_act().is_ok(), "{harmless}");
    }
    tenure.observe(&StoreError::Fenced);
    assert_eq!(tenure.may_act().unwrap_err().kind, ErrorKind::Unavailable);
    assert!(tenure.lost().is_cancelled());
}
