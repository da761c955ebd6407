//! Real names, rule by rule.
